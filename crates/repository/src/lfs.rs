//! Files that a repository keeps in Git LFS (`filter=lfs` in `.gitattributes`), and the cache of their content.
//!
//! The files are found in the mirror: no tree is read, and no filter runs.

mod cache;
mod tree;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use journeyman_core::ids::{JobId, Sha};
use journeyman_core::lfs::{POINTER_BYTES, Pointer};
use journeyman_git::GitError;

use crate::tree_size::attributes_of;
use crate::{Mirror, RepositoryError, Scratch};

pub use cache::LfsCache;
pub use tree::{LfsFile, LfsTree};

/// The file of a repository with settings of git-lfs.
const LFS_CONFIG: &str = ".lfsconfig";

/// The settings that name another server for objects.
const OTHER_SERVER: &str = r"^(lfs\.(url|pushurl)|remote\..*\.(lfsurl|lfspushurl))$";

/// The beginning of a pointer or of other content: enough to recognize a pointer.
const CONTENT_BYTES: usize = 256 << 20;

/// The files in Git LFS that commits have added or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LfsChanges {
    /// The files whose new content is a pointer.
    pub pointers: Vec<LfsFile>,
    /// A file whose new content is not a pointer, although it belongs in Git LFS.
    pub content: Option<PathBuf>,
}

/// A path with the ID of its content.
type Entry = (PathBuf, String);

impl Mirror {
    /// Returns the cache of the repository's objects on this machine.
    #[must_use]
    pub fn lfs_cache(&self) -> LfsCache {
        LfsCache::new(self.path.with_extension("lfs"))
    }

    /// Returns the files of a commit in Git LFS.
    ///
    /// # Errors
    /// Git or the disk failed.
    pub async fn lfs_tree(&self, commit: &Sha, scratch: &Scratch, job: JobId) -> Result<Arc<LfsTree>, RepositoryError> {
        let attributes = attributes_of(self, commit).await?;
        if let Some(tree) = self.tree_sizes.lfs(commit) {
            return Ok(tree);
        }
        let tree = match self.mention_lfs(&attributes).await? {
            true => self.find_lfs(commit, scratch, job).await?,
            false => LfsTree::default(),
        };
        let tree = Arc::new(tree);
        self.tree_sizes.remember_lfs(commit, &tree);
        Ok(tree)
    }

    /// Returns whether one of the files with attributes may name the filter `lfs`.
    async fn mention_lfs(&self, attributes: &[String]) -> Result<bool, RepositoryError> {
        if attributes.is_empty() {
            return Ok(false);
        }
        let contents = self.contents(attributes.iter().map(String::as_str)).await?;
        Ok(contents.values().any(|text| text.windows(3).any(|part| part == b"lfs")))
    }

    async fn find_lfs(&self, commit: &Sha, scratch: &Scratch, job: JobId) -> Result<LfsTree, RepositoryError> {
        let index = Index::of(self, commit, scratch, job).await?;
        let entries = index.entries().await?;
        let has_config = entries.iter().any(|(path, _)| path.as_os_str() == LFS_CONFIG);
        let in_lfs = index.in_lfs(entries).await?;
        index.remove().await?;
        let (files, _) = self.lfs_pointers(in_lfs).await?;
        let other_server = if has_config { self.other_server(commit).await? } else { None };
        Ok(LfsTree { is_used: true, files, other_server })
    }

    async fn other_server(&self, commit: &Sha) -> Result<Option<String>, RepositoryError> {
        let blob = format!("{commit}:{LFS_CONFIG}");
        let arguments = ["config", "--no-includes", "--blob", &blob, "--name-only", "--get-regexp", OTHER_SERVER];
        match self.git.at(&self.path, arguments).run().await {
            Ok(found) => Ok(found.text()?.lines().next().map(str::to_owned)),
            // The file has no such setting.
            Err(GitError::Failed { code: Some(1), stderr, .. }) if stderr.trim().is_empty() => Ok(None),
            // Git cannot parse the file. Then git-lfs cannot either.
            Err(GitError::Failed { .. }) => Ok(Some("a setting that git cannot read".to_owned())),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the files in Git LFS that the commits after `base` up to `head` have added or changed, without the commits
    /// that `upstream` has. The attributes are those of `head`.
    ///
    /// # Errors
    /// Git or the disk failed.
    pub async fn lfs_changes(
        &self,
        base: &Sha,
        upstream: Option<&Sha>,
        head: &Sha,
        scratch: &Scratch,
        job: JobId,
    ) -> Result<LfsChanges, RepositoryError> {
        let attributes = attributes_of(self, head).await?;
        if !self.mention_lfs(&attributes).await? {
            return Ok(LfsChanges::default());
        }
        let range = [format!("{base}..{head}")].into_iter().chain(upstream.map(|upstream| format!("^{upstream}")));
        let form =
            ["log", "--format=", "--raw", "-r", "-z", "--no-renames", "--no-abbrev", "--diff-merges=first-parent"];
        let arguments = form.map(str::to_owned).into_iter().chain(range).chain(["--".to_owned()]);
        let output = self.git.at(&self.path, arguments).stdout_bytes(CONTENT_BYTES).run().await?.stdout;
        let changed = changed(&output);
        if changed.is_empty() {
            return Ok(LfsChanges::default());
        }
        let index = Index::of(self, head, scratch, job).await?;
        let in_lfs = index.in_lfs(changed).await?;
        index.remove().await?;
        let (pointers, content) = self.lfs_pointers(in_lfs).await?;
        Ok(LfsChanges { pointers, content })
    }

    /// Reads files that belong in Git LFS. Returns those whose content is a pointer, and one with other content.
    async fn lfs_pointers(&self, entries: Vec<Entry>) -> Result<(Vec<LfsFile>, Option<PathBuf>), RepositoryError> {
        if entries.is_empty() {
            return Ok((Vec::new(), None));
        }
        let names: String = entries.iter().map(|(_, object)| format!("{object}\n")).collect();
        let sizes = self.git.at(&self.path, ["cat-file", "--batch-check=%(objectname) %(objectsize)"]).stdin(names);
        let sizes = sizes.run().await?.text()?;
        let sizes: HashMap<&str, u64> = sizes
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(id, size)| Some((id, size.parse().ok()?)))
            .collect();
        let is_small = |object: &str| sizes.get(object).is_some_and(|size| *size < POINTER_BYTES);
        let contents = self.contents(sizes.keys().copied().filter(|object| is_small(object))).await?;
        let (mut files, mut content) = (Vec::new(), None);
        for (path, object) in entries {
            match contents.get(&object).map(|text| (text.is_empty(), Pointer::parse(text))) {
                Some((_, Some(pointer))) => files.push(LfsFile { path, pointer }),
                // An empty file needs no pointer.
                Some((true, _)) => {}
                _ => content = content.or(Some(path)),
            }
        }
        Ok((files, content))
    }

    /// Returns the contents of small objects, by their IDs.
    async fn contents<'a>(
        &self,
        objects: impl Iterator<Item = &'a str>,
    ) -> Result<HashMap<String, Vec<u8>>, RepositoryError> {
        let names: String = objects.map(|object| format!("{object}\n")).collect();
        let command = self.git.at(&self.path, ["cat-file", "--batch"]).stdin(names).stdout_bytes(CONTENT_BYTES);
        let output = command.run().await?.stdout;
        let (mut rest, mut contents) = (output.as_slice(), HashMap::new());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, body) = rest.split_at(end + 1);
            let head = String::from_utf8_lossy(head);
            let mut words = head.split_whitespace();
            let (Some(id), Some("blob"), Some(size)) = (words.next(), words.next(), words.next()) else {
                let text = format!("an object is missing: {}", head.trim());
                return Err(RepositoryError::MirrorDamaged(text));
            };
            let size: usize = size.parse().unwrap_or_default();
            contents.insert(id.to_owned(), body.get(..size).unwrap_or_default().to_vec());
            rest = body.get(size + 1..).unwrap_or_default();
        }
        Ok(contents)
    }
}

/// A temporary index of a commit in a mirror.
struct Index<'a> {
    mirror: &'a Mirror,
    path: PathBuf,
}

impl<'a> Index<'a> {
    async fn of(mirror: &'a Mirror, commit: &Sha, scratch: &Scratch, job: JobId) -> Result<Self, RepositoryError> {
        let path = scratch.file(job, "lfs-index").await?;
        let read = mirror.git.at(&mirror.path, ["read-tree", commit.as_str()]).env("GIT_INDEX_FILE", &path);
        read.run().await?;
        Ok(Self { mirror, path })
    }

    /// Returns the regular files.
    async fn entries(&self) -> Result<Vec<Entry>, RepositoryError> {
        let listing = self.mirror.git.at(&self.mirror.path, ["ls-files", "--stage", "-z"]);
        let listing = listing.env("GIT_INDEX_FILE", &self.path).stdout_bytes(CONTENT_BYTES).run().await?.stdout;
        let entry = |entry: &[u8]| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let (head, path) = entry.split_at(tab);
            let mut words = std::str::from_utf8(head).ok()?.split(' ');
            let (mode, object) = (words.next()?, words.next()?);
            mode.starts_with("100").then(|| (path_of(path.get(1..).unwrap_or_default()), object.to_owned()))
        };
        Ok(listing.split(|byte| *byte == 0).filter_map(entry).collect())
    }

    /// Returns those of the files that the attributes put into Git LFS.
    async fn in_lfs(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, RepositoryError> {
        let mut paths = Vec::new();
        for (path, _) in &entries {
            paths.extend_from_slice(path.as_os_str().as_bytes());
            paths.push(0);
        }
        let command = self.mirror.git.at(&self.mirror.path, ["check-attr", "--cached", "-z", "--stdin", "filter"]);
        let command = command.env("GIT_INDEX_FILE", &self.path).stdin(paths).stdout_bytes(CONTENT_BYTES);
        let output = command.run().await?.stdout;
        // Each answer is a path, the name of the attribute, and its value. The answers have the order of the paths.
        let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
        let values = fields.chunks_exact(3).map(|answer| answer.get(2) == Some(&b"lfs".as_slice()));
        Ok(entries.into_iter().zip(values).filter(|(_, is_in_lfs)| *is_in_lfs).map(|(entry, _)| entry).collect())
    }

    async fn remove(self) -> Result<(), RepositoryError> {
        Ok(tokio::fs::remove_file(&self.path).await?)
    }
}

/// Parses the output of `git log --raw -z`: the files that commits have added or changed.
fn changed(output: &[u8]) -> Vec<Entry> {
    let mut changed = Vec::new();
    let mut fields = output.split(|byte| *byte == 0);
    while let Some(field) = fields.next() {
        let Some(change) = field.trim_ascii_start().strip_prefix(b":") else { continue };
        let words: Vec<&str> = std::str::from_utf8(change).unwrap_or_default().split(' ').collect();
        let (&[_, mode, _, object, _], Some(path)) = (words.as_slice(), fields.next()) else { break };
        if mode.starts_with("100") {
            changed.push((path_of(path), object.to_owned()));
        }
    }
    changed
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests;
