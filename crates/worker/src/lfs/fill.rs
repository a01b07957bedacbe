//! Replaces the pointers of a checkout by their content, which the host fetches.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::checkout::{Missing, ObjectReason};
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::left_out::path_text;
use journeyman_core::lfs::{POINTER_BYTES, Pointer, copy};
use journeyman_core::ports::{LfsError, LfsObjects};
use journeyman_core::run::ReasonCode;
use journeyman_core::worker::FreeSpace;
use journeyman_repository::lfs::{LfsCache, LfsFile, LfsTree};
use journeyman_repository::{Mirror, Scratch, tree_size};
use rustix::fs::{Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, futimens, openat2};

use super::{filter, index};
use crate::error::RunError;
use crate::submodules::find::FoundSubmodule;
use crate::workspace::Workspace;
use crate::workspace::beneath::open_folder;
use crate::workspace::owner::as_owner;

/// The seconds by which a filled file is older than the index: git reads files again that are not older.
const OLDER: i64 = 2;

/// The parts of the machine and of the run that filling needs.
pub(crate) struct Filling<'a> {
    pub(crate) objects: &'a dyn LfsObjects,
    pub(crate) mirror: &'a Mirror,
    pub(crate) scratch: &'a Scratch,
    pub(crate) job: JobId,
    /// The bytes that the tree may use on the disk.
    pub(crate) disk_bytes: u64,
    /// The free space of the disk, if it is known.
    pub(crate) free: Option<FreeSpace>,
}

/// A file whose content was not fetched, so that it is a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotFetched {
    pub(crate) path: PathBuf,
    pub(crate) reason: ObjectReason,
    /// The reason, and what to do, as sentences.
    pub(crate) detail: String,
}

/// The result of filling a checkout.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// The files that have their content.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) not_fetched: Vec<NotFetched>,
}

impl NotFetched {
    /// Describes the file for people.
    pub(crate) fn missing(&self) -> Missing {
        Missing::object(path_text(self.path.as_os_str().as_bytes()), self.reason, self.detail.clone())
    }
}

impl Filling<'_> {
    /// Fills a tree that has `commit` checked out. Programs may have run in the tree: files with other content than the
    /// pointers of the commit stay as they are.
    ///
    /// # Errors
    /// The code host failed for a reason that may pass, or the disk failed.
    pub(crate) async fn fill(&self, tree: &Path, commit: &Sha) -> Result<Filled, RunError> {
        self.fill_below(tree, Path::new(""), commit).await
    }

    /// As [`Filling::fill`], for the folder `below` the tree, which has the commit of a submodule checked out.
    async fn fill_below(&self, tree: &Path, below: &Path, commit: &Sha) -> Result<Filled, RunError> {
        let found = self.mirror.lfs_tree(commit, self.scratch, self.job).await?;
        let mut filled = Filled::default();
        if found.files.is_empty() {
            return Ok(filled);
        }
        if let Some(text) = unsupported(&found) {
            filled.not_fetched =
                found.files.iter().map(|file| not_fetched(file, ObjectReason::OtherServer, text.clone())).collect();
            return Ok(filled);
        }
        let wanted = self.within_limit(&found, commit, &mut filled.not_fetched).await?;
        let cache = self.mirror.lfs_cache();
        let failed = self.fetch(&cache, &wanted).await?;
        let (wanted, left): (Vec<LfsFile>, Vec<LfsFile>) =
            wanted.into_iter().partition(|file| !failed.contains_key(&file.pointer.oid));
        filled.not_fetched.extend(left.iter().filter_map(|file| {
            let (reason, detail) = failed.get(&file.pointer.oid)?;
            Some(not_fetched(file, *reason, detail.clone()))
        }));
        let (tree, below) = (tree.to_owned(), below.to_owned());
        let write = move || replace_all(&tree, &below, wanted, &cache);
        filled.files = tokio::task::spawn_blocking(write).await.map_err(io::Error::other)??;
        Ok(filled)
    }

    /// Returns the files whose content fits on the disk.
    async fn within_limit(
        &self,
        found: &LfsTree,
        commit: &Sha,
        not: &mut Vec<NotFetched>,
    ) -> Result<Vec<LfsFile>, RunError> {
        let mut left = self.disk_bytes.saturating_sub(tree_size::size(self.mirror, commit, u64::MAX).await?);
        // An object may be stored in the cache and in the tree.
        let mut free = self.free.map(|space| space.free_bytes.saturating_sub(space.reserve_bytes) / 2);
        let mut wanted = Vec::new();
        for file in &found.files {
            let bytes = file.pointer.bytes;
            if bytes > left {
                let text = format!(
                    "Its content has {bytes} bytes, more than limits.diskBytes leaves. Raise limits.diskBytes of the \
                     project."
                );
                not.push(not_fetched(file, ObjectReason::TooLarge, text));
            } else if free.is_some_and(|free| bytes > free) {
                let text = format!("Its content has {bytes} bytes, more than the disk of the worker has free.");
                not.push(not_fetched(file, ObjectReason::DiskFull, text));
            } else {
                left -= bytes;
                free = free.map(|free| free - bytes);
                wanted.push(file.clone());
            }
        }
        Ok(wanted)
    }

    /// Fetches the objects that the cache does not have. Returns the reasons for those that cannot be fetched, by their
    /// names.
    async fn fetch(
        &self,
        cache: &LfsCache,
        files: &[LfsFile],
    ) -> Result<BTreeMap<String, (ObjectReason, String)>, RunError> {
        let (mut missing, mut seen) = (Vec::new(), HashSet::new());
        for LfsFile { pointer, .. } in files {
            // A repository may have as many pointers as it likes.
            if seen.insert(pointer) && cache.open(pointer)?.is_none() {
                missing.push(pointer.clone());
            }
        }
        if missing.is_empty() {
            return Ok(BTreeMap::new());
        }
        let folder = cache.incoming(&self.job.to_string())?;
        let mut failed = BTreeMap::new();
        match self.objects.download(&self.mirror.remote, &missing, &folder).await {
            Err(error) if error.may_pass() => return Err(may_pass(&error)),
            Err(error) => failed.extend(missing.iter().map(|pointer| (pointer.oid.clone(), in_words(&error)))),
            Ok(failures) => {
                for failure in failures {
                    if failure.error.may_pass() {
                        return Err(may_pass(&failure.error));
                    }
                    failed.insert(failure.pointer.oid, in_words(&failure.error));
                }
            }
        }
        let (cache, is_there) = (cache.clone(), |pointer: &Pointer| !failed.contains_key(&pointer.oid));
        let fetched: Vec<Pointer> = missing.into_iter().filter(is_there).collect();
        let take = move || {
            for pointer in &fetched {
                cache.take(pointer, &folder.join(&pointer.oid))?;
            }
            std::fs::remove_dir_all(folder)
        };
        tokio::task::spawn_blocking(take).await.map_err(io::Error::other)??;
        Ok(failed)
    }

    /// Fills the files of a submodule that was checked out in a tree. Returns those that were not fetched, with their paths
    /// in the tree.
    ///
    /// # Errors
    /// As [`Filling::fill`].
    pub(crate) async fn fill_submodule(
        &self,
        tree: &Path,
        found: &FoundSubmodule,
    ) -> Result<Vec<NotFetched>, RunError> {
        let below = Path::new(&found.path);
        let in_tree = |one: NotFetched| NotFetched { path: below.join(one.path), ..one };
        if !found.is_trusted {
            let files = self.mirror.lfs_tree(&found.commit, self.scratch, self.job).await?;
            let text = "It is in a submodule on another server than the repository, from which the service fetches no \
                        files in Git LFS.";
            return Ok(files
                .files
                .iter()
                .map(|file| in_tree(not_fetched(file, ObjectReason::OtherServer, text.to_owned())))
                .collect());
        }
        let Filled { files, not_fetched } = self.fill_below(tree, below, &found.commit).await?;
        if !files.is_empty() {
            record_below(tree, below, &found.git_dir, &files).await?;
        }
        Ok(not_fetched.into_iter().map(in_tree).collect())
    }

    /// Completes a tree that no program has had access to: gives the agent's git the filters of Git LFS, and records the
    /// filled files in its index, so that they do not count as changed. The tree belongs to the user of the sandbox.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) async fn complete(workspace: &Workspace, files: &[PathBuf]) -> Result<(), RunError> {
        let tree = workspace.tree.clone();
        let configure = move || {
            let tree = open_folder(&tree)?;
            as_owner(&tree, || filter::configure(&tree))
        };
        tokio::task::spawn_blocking(configure).await.map_err(io::Error::other)??;
        record(&workspace.tree, files).await
    }
}

/// Records filled files in the index of the agent's repository, so that they do not count as changed. The files belong to
/// the user of the sandbox.
///
/// # Errors
/// The disk failed.
pub(crate) async fn record(tree: &Path, files: &[PathBuf]) -> Result<(), RunError> {
    record_below(tree, Path::new(""), ".git", files).await
}

/// As [`record`], for the folder `below` the tree, whose git directory in the tree is `git_dir`.
async fn record_below(tree: &Path, below: &Path, git_dir: &str, files: &[PathBuf]) -> Result<(), RunError> {
    let (tree, below, git_dir, files) = (tree.to_owned(), below.to_owned(), git_dir.to_owned(), files.to_vec());
    let record = move || {
        let tree = open_folder(&tree)?;
        as_owner(&tree, || index::record(&tree, &below, &git_dir, &files))
    };
    let recorded = tokio::task::spawn_blocking(record);
    let is_recorded = recorded.await.map_err(io::Error::other)??;
    tracing::debug!(is_recorded, "the files in Git LFS were recorded in the agent's index");
    Ok(())
}

/// Returns the reason why the objects of a commit cannot be used, if there is one.
pub(crate) fn unsupported(tree: &LfsTree) -> Option<String> {
    let setting = tree.other_server.as_ref()?;
    Some(format!(
        "The repository keeps its objects on another server ({setting} in .lfsconfig), which the service does not use."
    ))
}

fn not_fetched(file: &LfsFile, reason: ObjectReason, detail: String) -> NotFetched {
    NotFetched { path: file.path.clone(), reason, detail }
}

/// Returns an error that another attempt would not change, with its text as sentences.
fn in_words(error: &LfsError) -> (ObjectReason, String) {
    match error {
        LfsError::Missing => {
            let text =
                "The code host does not have its content. Push it with git lfs push --all from a clone that has it.";
            (ObjectReason::ObjectMissing, text.to_owned())
        }
        other => (ObjectReason::NotFetched, format!("Its content could not be fetched: {other}.")),
    }
}

fn may_pass(error: &LfsError) -> RunError {
    let text = format!("the content of files in Git LFS could not be fetched: {error}");
    RunError::may_pass(ReasonCode::RepositoryUnreachable, text)
}

/// Replaces files of the folder `below` a tree by the content of their objects, with the rights of the tree's owner. Returns
/// the files that were the pointers.
fn replace_all(tree: &Path, below: &Path, files: Vec<LfsFile>, cache: &LfsCache) -> io::Result<Vec<PathBuf>> {
    let tree = open_folder(tree)?;
    let folder = as_owner(&tree, || index::folder(&tree, below))?;
    let mut replaced = Vec::new();
    for file in files {
        // The cache is the service's own.
        let mut object = cache.open(&file.pointer)?.ok_or_else(|| removed(&file.pointer))?;
        match as_owner(&tree, || replace(&folder, &file, &mut object))? {
            Replaced::Yes => replaced.push(file.path),
            Replaced::No => {}
            Replaced::Damaged => return Err(cache.remove_damaged(&file.pointer)),
        }
    }
    cache.trim()?;
    Ok(replaced)
}

fn removed(pointer: &Pointer) -> io::Error {
    io::Error::other(format!("the object {} was removed from the cache", pointer.oid))
}

/// The result of replacing a file.
enum Replaced {
    Yes,
    /// The file is not the pointer.
    No,
    /// The object in the cache has other content than the pointer says.
    Damaged,
}

/// Replaces a file by the content of its object.
fn replace(tree: &File, file: &LfsFile, object: &mut File) -> io::Result<Replaced> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let Ok(opened) = openat2(tree, &file.path, flags, Mode::empty(), within) else { return Ok(Replaced::No) };
    let mut target = File::from(opened);
    if !target.metadata()?.is_file() {
        return Ok(Replaced::No);
    }
    let mut content = Vec::new();
    (&target).take(POINTER_BYTES).read_to_end(&mut content)?;
    if Pointer::parse(&content).as_ref() != Some(&file.pointer) {
        return Ok(Replaced::No);
    }
    target.rewind()?;
    target.set_len(0)?;
    if copy(object, &mut target, file.pointer.bytes)? != file.pointer {
        return Ok(Replaced::Damaged);
    }
    target.flush()?;
    let written = rustix::fs::fstat(&target)?;
    let at = Timespec { tv_sec: written.st_mtime - OLDER, tv_nsec: 0 };
    let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    futimens(&target, &Timestamps { last_access: unchanged, last_modification: at })?;
    Ok(Replaced::Yes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown};

    use super::*;
    use crate::workspace::owner::{TEST_USER, give_to_test_user};

    #[test]
    fn files_are_written_with_the_rights_of_the_owner_of_the_tree() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, draft) = (dir.path().join("tree"), dir.path().join("draft"));
        fs::create_dir_all(tree.join("d")).unwrap();
        fs::write(&draft, "content").unwrap();
        let cache = LfsCache::new(dir.path().join("cache"));
        let pointer = cache.keep(&mut File::open(&draft).unwrap(), &dir.path().join("kept"), 100).unwrap();
        for name in ["d/a", "b"] {
            fs::write(tree.join(name), pointer.text()).unwrap();
        }
        let is_given = give_to_test_user(&tree);
        if is_given {
            // A file of root, as only a fault of the sandbox could leave it.
            chown(tree.join("b"), Some(0), Some(0)).unwrap();
        }
        let file = |name: &str| LfsFile { path: name.into(), pointer: pointer.clone() };
        let replaced = replace_all(&tree, Path::new(""), vec![file("d/a"), file("b")], &cache).unwrap();
        assert_eq!(fs::read_to_string(tree.join("d/a")).unwrap(), "content");
        if is_given {
            assert_eq!(replaced, [PathBuf::from("d/a")]);
            assert_eq!(tree.join("d/a").metadata().unwrap().uid(), TEST_USER);
            assert_eq!(fs::read_to_string(tree.join("b")).unwrap(), pointer.text());
        }
    }
}
