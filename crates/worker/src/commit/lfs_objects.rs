//! The objects of Git LFS of a turn: the content of changed files is kept on the host, which commits pointers in its place,
//! and stored in the blob store until the push, so that another machine can publish the turn.
//!
//! No filter runs on the host. Files of the tree are read as the comparison of content reads them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::{Branch, Job, Token};
use journeyman_core::lfs::{POINTER_BYTES, Pointer};
use journeyman_core::ports::{Blobs, LfsError, LfsFailure, LfsObjects, LfsUpload, Remote};
use journeyman_core::run::ReasonCode;
use journeyman_repository::bundle::BUNDLES;
use journeyman_repository::lfs::{LfsCache, LfsTree};
use journeyman_repository::{Mirror, Scratch};
use rustix::fs::fstat;
use tokio::sync::OnceCell;

use crate::error::RunError;
use crate::lfs::fill::unsupported;
use crate::workspace::beneath::{open_beneath, open_folder};

/// The end of the keys of objects that are not on the code host yet.
pub const OBJECT: &str = ".lfs";

/// The number of blobs that are listed at once.
const PAGE: usize = 1000;

/// The objects of a turn.
pub(crate) struct TurnObjects<'a> {
    pub(crate) objects: &'a dyn LfsObjects,
    pub(crate) blobs: &'a dyn Blobs,
    pub(crate) mirror: &'a Mirror,
    pub(crate) scratch: &'a Scratch,
    pub(crate) job: JobId,
    pub(crate) token: Token,
    /// The branch to which the commits are pushed.
    pub(crate) branch: &'a str,
    /// The commit that the turn started from.
    pub(crate) start: &'a Sha,
    /// The files in Git LFS of that commit, once they are needed.
    pub(crate) start_tree: OnceCell<Arc<LfsTree>>,
    /// The maximum size of an object, in bytes.
    pub(crate) file_bytes: u64,
    /// The objects that are in the blob store.
    pub(crate) stored: Mutex<HashSet<String>>,
}

/// A file whose content is committed as a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Converted {
    pub(crate) path: PathBuf,
    pub(crate) pointer: Pointer,
    pub(crate) is_executable: bool,
}

/// The changed files of a turn in Git LFS.
#[derive(Debug, Default)]
pub(crate) struct StagedObjects {
    pub(crate) converted: Vec<Converted>,
    /// The files that cannot be committed: their objects cannot be stored on the code host, or do not exist.
    pub(crate) refused: HashSet<PathBuf>,
}

/// A file of the tree that the attributes assign to Git LFS.
enum LfsCandidate {
    /// Its content is kept in the cache.
    Content(Converted),
    /// It is a pointer to an object that the code host may have or not.
    Unknown(PathBuf, Pointer),
    /// It is empty, a pointer to an object that is at hand, or not readable.
    Other,
}

impl TurnObjects<'_> {
    /// Returns the files in Git LFS of the commit that the turn started from.
    ///
    /// # Errors
    /// Git or the disk failed.
    pub(crate) async fn start_tree(&self) -> Result<&Arc<LfsTree>, RunError> {
        let find = || async { Ok(self.mirror.lfs_tree(self.start, self.scratch, self.job).await?) };
        self.start_tree.get_or_try_init(find).await
    }

    /// Keeps the content of changed files, and checks that the code host accepts it.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) async fn stage(&self, tree: &Path, paths: Vec<PathBuf>) -> Result<StagedObjects, RunError> {
        let mut staged = StagedObjects::default();
        if paths.is_empty() {
            return Ok(staged);
        }
        if let Some(text) = unsupported(self.start_tree().await?) {
            tracing::info!(job = %self.job, %text, "changed files in Git LFS are left out");
            let tree = tree.to_owned();
            let content = tokio::task::spawn_blocking(move || crate::lfs::without_pointer(&tree, paths));
            staged.refused.extend(content.await.map_err(io::Error::other)??);
            return Ok(staged);
        }
        let (reader, tree) = (self.reader().await?, tree.to_owned());
        let found = tokio::task::spawn_blocking(move || reader.read(&tree, paths));
        let (mut unknown, mut converted) = (Vec::new(), Vec::new());
        for found in found.await.map_err(io::Error::other)?? {
            match found {
                LfsCandidate::Content(file) => converted.push(file),
                LfsCandidate::Unknown(path, pointer) => unknown.push((path, pointer)),
                LfsCandidate::Other => {}
            }
        }
        let new = converted.iter().map(|file| &file.pointer).chain(unknown.iter().map(|(_, pointer)| pointer));
        let refusals = self.refusals(new).await?;
        for file in converted {
            match refusals.get(&file.pointer.oid) {
                None | Some(LfsError::Missing) => staged.converted.push(file),
                Some(error) => {
                    tracing::warn!(job = %self.job, path = ?file.path, %error, "a file in Git LFS is left out");
                    staged.refused.insert(file.path);
                }
            }
        }
        let is_refused = |(_, pointer): &(PathBuf, Pointer)| refusals.contains_key(&pointer.oid);
        staged.refused.extend(unknown.into_iter().filter(is_refused).map(|(path, _)| path));
        Ok(staged)
    }

    /// Returns the errors of those of the objects that the code host does not have or does not accept, by their names. If
    /// it cannot be asked now, the push finds out.
    async fn refusals(&self, objects: impl Iterator<Item = &Pointer>) -> Result<HashMap<String, LfsError>, RunError> {
        let start = self.start_tree().await?;
        let mut new: Vec<Pointer> = objects.filter(|pointer| !has(start, pointer)).cloned().collect();
        new.sort_unstable_by(|one, other| one.oid.cmp(&other.oid));
        new.dedup();
        if new.is_empty() {
            return Ok(HashMap::new());
        }
        Ok(match self.objects.missing(&self.mirror.remote, self.branch, &new).await {
            Ok(failures) => failures.into_iter().map(|LfsFailure { pointer, error }| (pointer.oid, error)).collect(),
            Err(error) if error.may_pass() => {
                tracing::warn!(job = %self.job, %error, "the LFS server cannot be asked before the push");
                HashMap::new()
            }
            Err(error) => new.into_iter().map(|pointer| (pointer.oid, error.clone())).collect(),
        })
    }

    async fn reader(&self) -> Result<Reader, RunError> {
        Ok(Reader {
            cache: self.mirror.lfs_cache(),
            draft: self.scratch.file(self.job, "lfs").await?,
            start: Arc::clone(self.start_tree().await?),
            file_bytes: self.file_bytes,
        })
    }

    /// Stores the objects to which pointers of the turn's commits lead. Returns the reason why the commits cannot be
    /// published, if an object does not exist.
    ///
    /// # Errors
    /// The disk or the blob store failed.
    pub(crate) async fn store(&self, tree: &Path, pointers: &[Pointer]) -> Result<Option<String>, RunError> {
        let mut open = Vec::new();
        let start = self.start_tree().await?;
        for pointer in pointers.iter().filter(|pointer| !has(start, pointer)) {
            let (reader, tree, wanted) = (self.reader().await?, tree.to_owned(), pointer.clone());
            let found = tokio::task::spawn_blocking(move || reader.find(&tree, &wanted));
            match found.await.map_err(io::Error::other)?? {
                true => self.put(pointer).await?,
                false => open.push(pointer),
            }
        }
        let refusals = self.refusals(open.iter().copied()).await?;
        let missing = open.into_iter().find(|pointer| refusals.contains_key(&pointer.oid));
        Ok(missing
            .map(|pointer| format!("a pointer of Git LFS leads to the object {}, which does not exist", pointer.oid)))
    }

    /// Stores a cached object in the blob store.
    async fn put(&self, pointer: &Pointer) -> Result<(), RunError> {
        let is_new = |oid: &String| self.stored.lock().unwrap_or_else(PoisonError::into_inner).insert(oid.clone());
        if !is_new(&pointer.oid) {
            return Ok(());
        }
        let (cache, wanted) = (self.mirror.lfs_cache(), pointer.clone());
        let draft = self.scratch.file(self.job, "lfs").await?;
        let to = draft.clone();
        let copied = tokio::task::spawn_blocking(move || cache.copy_to(&wanted, &mut File::create(to)?));
        if !copied.await.map_err(io::Error::other)?? {
            let text = format!("the object {} was removed from the cache while it was stored", pointer.oid);
            return Err(RunError::may_pass(ReasonCode::Internal, text));
        }
        let key = format!("{BUNDLES}/{}/{}-{}.{}{OBJECT}", self.job, self.token.0, pointer.oid, pointer.bytes);
        Ok(self.blobs.put(&key, &draft).await?)
    }
}

/// Returns whether a commit has the pointer of an object.
fn has(tree: &LfsTree, pointer: &Pointer) -> bool {
    tree.files.iter().any(|file| file.pointer == *pointer)
}

/// Reads files of a tree that belong in Git LFS.
struct Reader {
    cache: LfsCache,
    /// The path of a temporary file.
    draft: PathBuf,
    start: Arc<LfsTree>,
    file_bytes: u64,
}

impl Reader {
    fn read(&self, tree: &Path, paths: Vec<PathBuf>) -> io::Result<Vec<LfsCandidate>> {
        let top = open_folder(tree)?;
        paths.into_iter().map(|path| self.read_one(&top, tree, path)).collect()
    }

    fn read_one(&self, top: &File, tree: &Path, path: PathBuf) -> io::Result<LfsCandidate> {
        // A file that the service cannot open is left to git.
        let Ok(mut file) = open_beneath(top, &path) else { return Ok(LfsCandidate::Other) };
        if !file.metadata()?.is_file() {
            return Ok(LfsCandidate::Other);
        }
        let mut beginning = Vec::new();
        (&file).take(POINTER_BYTES).read_to_end(&mut beginning)?;
        if beginning.is_empty() {
            return Ok(LfsCandidate::Other);
        }
        if let Some(pointer) = Pointer::parse(&beginning) {
            return Ok(match has(&self.start, &pointer) || self.find(tree, &pointer)? {
                true => LfsCandidate::Other,
                false => LfsCandidate::Unknown(path, pointer),
            });
        }
        let is_executable = fstat(&file)?.st_mode & 0o100 != 0;
        file.rewind()?;
        match self.cache.keep(&mut file, &self.draft, self.file_bytes) {
            Ok(pointer) => Ok(LfsCandidate::Content(Converted { path, pointer, is_executable })),
            // The file has grown since the scan.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(LfsCandidate::Other),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the content of an object is at hand. Content that the agent's git has stored is verified, and kept.
    fn find(&self, tree: &Path, pointer: &Pointer) -> io::Result<bool> {
        if self.cache.open(pointer)?.is_some() {
            return Ok(true);
        }
        let part = |range| pointer.oid.get(range).unwrap_or_default();
        let path: PathBuf = [".git/lfs/objects", part(0..2), part(2..4), &pointer.oid].iter().collect();
        let Ok(mut file) = open_beneath(&open_folder(tree)?, &path) else { return Ok(false) };
        let found = file.metadata()?;
        if !found.is_file() || found.len() != pointer.bytes || pointer.bytes > self.file_bytes {
            return Ok(false);
        }
        match self.cache.keep(&mut file, &self.draft, pointer.bytes) {
            Ok(kept) => Ok(kept == *pointer),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the keys of the job's objects that may not be on the code host yet, by their pointers.
async fn pending(blobs: &dyn Blobs, job: JobId) -> Result<BTreeMap<String, (Pointer, String)>, RunError> {
    let (prefix, mut after, mut pending) = (format!("{BUNDLES}/{job}"), None::<String>, BTreeMap::new());
    loop {
        let page = blobs.list(&prefix, after.as_deref(), PAGE).await?;
        for blob in &page {
            let name = blob.key.rsplit('/').next().and_then(|name| name.strip_suffix(OBJECT));
            let parts = name.and_then(|name| name.split_once('-')?.1.split_once('.'));
            if let Some((oid, bytes)) = parts.and_then(|(oid, bytes)| Some((oid, bytes.parse().ok()?))) {
                let pointer = Pointer { oid: oid.to_owned(), bytes };
                pending.insert(oid.to_owned(), (pointer, blob.key.clone()));
            }
        }
        after = page.last().filter(|_| page.len() == PAGE).map(|blob| blob.key.clone());
        if after.is_none() {
            return Ok(pending);
        }
    }
}

/// The parts that an upload before a push needs.
pub(crate) struct Uploading<'a> {
    pub(crate) objects: &'a dyn LfsObjects,
    pub(crate) blobs: &'a dyn Blobs,
    pub(crate) mirror: &'a Mirror,
    pub(crate) scratch: &'a Scratch,
    /// The repository, with the credential of the push.
    pub(crate) remote: &'a Remote,
}

impl Uploading<'_> {
    /// Uploads the objects of the job to which commits after the base of the branch up to `head` lead. Objects that the
    /// service does not have were on the code host before.
    ///
    /// # Errors
    /// An object could not be uploaded.
    pub(crate) async fn upload(&self, job: &Job, branch: &Branch, head: &Sha) -> Result<(), RunError> {
        let pending = pending(self.blobs, job.id).await?;
        if pending.is_empty() {
            return Ok(());
        }
        let changes = self.mirror.lfs_changes(&branch.base, None, head, self.scratch, job.id).await?;
        let wanted: BTreeMap<&str, &(Pointer, String)> = changes
            .pointers
            .iter()
            .filter_map(|file| pending.get(&file.pointer.oid))
            .map(|found| (found.0.oid.as_str(), found))
            .collect();
        let mut uploads = Vec::new();
        for (pointer, key) in wanted.into_values() {
            let file = self.scratch.file(job.id, &format!("{}{OBJECT}", pointer.oid)).await?;
            if self.blobs.get(key, &file).await? {
                uploads.push(LfsUpload { pointer: pointer.clone(), file });
            }
        }
        let uploaded = self.objects.upload(self.remote, &branch.name, &uploads).await;
        for upload in &uploads {
            match tokio::fs::remove_file(&upload.file).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        uploaded.map_err(|error| not_uploaded(&error))
    }
}

fn not_uploaded(error: &LfsError) -> RunError {
    let text = format!("the content of files in Git LFS could not be uploaded, so nothing was pushed: {error}");
    match error {
        LfsError::Failed(_) => RunError::may_pass(ReasonCode::PushRefused, text),
        LfsError::Credential(_) => RunError::failed(ReasonCode::CredentialRefused, text),
        LfsError::Denied(_) => RunError::failed(ReasonCode::PermissionMissing, text),
        LfsError::Unsupported(_) | LfsError::Missing | LfsError::Refused(_) => {
            RunError::failed(ReasonCode::PushRefused, text)
        }
    }
}
