//! What a turn changed and its commits left out, between turns: an archive in the blob store, next to that of the agent's
//! home. If the workspace is lost, the next one gets the files back, and they are changes that can be committed.
//!
//! | module | task |
//! |---|---|
//! | [`save`] | chooses what fits into the limit, and writes the archive |
//! | [`extract`] | reads an archive into a folder of the service, and trusts nothing in it |
//! | [`restore`] | moves the files into a rebuilt tree, and replaces nothing that the branch has changed |

mod extract;
mod restore;
mod save;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use journeyman_core::checkout::{LossReason, Missing};
use journeyman_core::ids::Sha;
use journeyman_core::left_out::{LeftOut, path_text};
use journeyman_core::ports::Blobs;
use journeyman_repository::{History, Mirror};

use self::extract::Extracted;
pub(crate) use self::extract::{PACK_FILES, PACKS, STASH, STASH_LOG};
use super::Workspace;
use super::beneath::open_folder;
use super::home_archive::left_out_key;
use super::owner::{as_owner, create_like};
use super::remove::remove_folder;
use super::session::{Session, is_disk_full};
use crate::claim::deadline;
use crate::error::RunError;
use crate::lfs::index::mark;

/// The maximum size of what is stored, in bytes, before compression.
pub(crate) const LEFT_OUT_BYTES: u64 = 1 << 30;

/// A file or folder that was left out of a commit, and what there is to store of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    /// The path that is told.
    pub(crate) path: PathBuf,
    /// The files and links in the tree.
    pub(crate) files: Vec<PathBuf>,
    /// The files that are not in the tree any more, although the commit has them.
    pub(crate) removed: Vec<PathBuf>,
    /// Whether the path is a folder that is stored with everything in it, or has parts that cannot be stored.
    pub(crate) extent: Extent,
    /// True if the files are marked as local in the agent's index.
    pub(crate) is_marked: bool,
    /// True if it is in a submodule with this path.
    pub(crate) is_submodule: bool,
}

/// How much of something that was left out is in the lists of its files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    #[default]
    Files,
    /// Nothing: the path is a folder that is stored with everything in it, such as a repository with its git directory.
    Folder,
    /// Some of it; the rest cannot be stored.
    Part,
}

/// What was stored of what a commit left out.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    /// True if there is an archive.
    pub(crate) is_stored: bool,
    /// The paths of what is stored completely.
    pub(crate) kept: BTreeSet<PathBuf>,
}

/// What became of the stored files in a rebuilt tree.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// The paths that were left out and are in the tree again, as people see them.
    pub(crate) left_out: BTreeSet<String>,
    /// What is not in the tree.
    pub(crate) missing: Vec<Missing>,
    /// True if the tree was changed.
    pub(crate) has_changed: bool,
    /// True if the agent's index may have marks.
    pub(crate) has_marks: bool,
}

impl Workspace {
    /// Stores what was left out of the commit `head` under the key that belongs to that of the session's archive. What
    /// does not fit and what cannot be read is not stored, which does not fail the turn.
    ///
    /// # Errors
    /// The disk or the blob store failed.
    pub(crate) async fn save_left_out(
        &self,
        blobs: &dyn Blobs,
        archive: &str,
        head: &Sha,
        held_back: Vec<HeldBack>,
    ) -> Result<Saved, RunError> {
        let file = self.scratch.file(self.job, "left-out").await?;
        let (tree, to, head) = (self.tree.clone(), file.clone(), head.clone());
        let end = Instant::now() + deadline::ARCHIVE;
        let saved = blocking(move || save::save(&tree, &to, &head, held_back, LEFT_OUT_BYTES, end)).await;
        let saved = match saved {
            Ok(saved) => saved,
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::FileTooLarge) => {
                tracing::warn!(job = %self.job, %error, "the files that were left out of the commits were not stored");
                None
            }
            Err(error) => return Err(error.into()),
        };
        let Some(kept) = saved else {
            super::remove_file(&file).await?;
            return Ok(Saved::default());
        };
        let key = left_out_key(archive);
        deadline::storing("storing left-out files", blobs.put(&key, &file)).await?;
        Ok(Saved { is_stored: true, kept })
    }

    /// Stores what was left out of earlier commits under the key of a new archive, for a turn that has not found out what
    /// its commits leave out. Returns whether there is something.
    ///
    /// # Errors
    /// The disk or the blob store failed.
    pub(crate) async fn carry_left_out(&self, session: &Session<'_>, archive: &str) -> Result<bool, RunError> {
        let Some(earlier) = session.archive.filter(|earlier| *earlier != archive) else { return Ok(false) };
        let file = self.scratch.file(self.job, "left-out").await?;
        let key = left_out_key(earlier);
        let found = session.blobs.get(&key, &file);
        if !deadline::storing("reading left-out files", found).await? {
            return Ok(false);
        }
        let key = left_out_key(archive);
        deadline::storing("storing left-out files", session.blobs.put(&key, &file)).await?;
        Ok(true)
    }

    /// Puts stored files back into the tree, which has `head` checked out, with the rights of its owner. `expected` is what the last turn has left out.
    /// No program may be running in the tree.
    ///
    /// # Errors
    /// The disk, git or the blob store failed.
    pub(crate) async fn restore_left_out(
        &self,
        session: &Session<'_>,
        mirror: &Mirror,
        head: &Sha,
        expected: &[LeftOut],
    ) -> Result<Restored, RunError> {
        let folder = self.root.join("left-out");
        remove_folder(&folder).await?;
        create_like(&folder, &self.tree)?;
        let mut restored = Restored::default();
        if let Some(extracted) = self.extract_left_out(session, &folder).await? {
            let changed = changed_since(mirror, &extracted, head).await?;
            let (from, tree) = (folder.clone(), self.tree.clone());
            let left_out = extracted.left_out.clone();
            restored.has_marks = !extracted.marked.is_empty();
            let written = blocking(move || {
                let (from, tree) = (open_folder(&from)?, open_folder(&tree)?);
                let marked: Vec<PathBuf> =
                    extracted.marked.iter().filter(|path| !changed.contains(*path)).cloned().collect();
                as_owner(&tree, || {
                    let unmarked = unmarked(&tree, &marked)?;
                    restore::restore(&from, &tree, &extracted, &changed, &unmarked)
                })
            });
            let written = written.await?;
            restored.has_changed = written.has_changed;
            let lost = written.lost.iter().map(|path| (path, LossReason::Lost));
            for (path, reason) in written.in_the_way.iter().map(|path| (path, LossReason::InTheWay)).chain(lost) {
                restored.missing.push(Missing::left_out(path_text(path.as_os_str().as_bytes()), reason));
            }
            let is_missing = |path: &String| restored.missing.iter().any(|one| one.path == *path);
            restored.left_out = left_out.into_iter().filter(|path| !is_missing(path)).collect();
        }
        remove_folder(&folder).await?;
        for LeftOut { path, .. } in expected.iter().filter(|one| one.reason.is_only_in_workspace()) {
            let is_known = restored.left_out.contains(path) || restored.missing.iter().any(|one| one.path == *path);
            if !is_known {
                restored.missing.push(Missing::left_out(path.clone(), LossReason::Lost));
            }
        }
        Ok(restored)
    }

    /// Downloads the stored files of a session to the empty folder `folder`; `None` if there are none. A damaged archive is not an error,
    /// like a missing one.
    async fn extract_left_out(&self, session: &Session<'_>, folder: &Path) -> Result<Option<Extracted>, RunError> {
        let Some(archive) = session.archive else { return Ok(None) };
        let file = self.scratch.file(self.job, "left-out").await?;
        if !session.blobs.get(&left_out_key(archive), &file).await? {
            return Ok(None);
        }
        let (from, to) = (file.clone(), folder.to_owned());
        let extracted = blocking(move || extract::extract(&from, &to, LEFT_OUT_BYTES)).await;
        tokio::fs::remove_file(&file).await?;
        match extracted {
            Ok(extracted) => Ok(Some(extracted)),
            Err(error) if is_disk_full(&error) => Err(error.into()),
            Err(error) => {
                tracing::warn!(job = %self.job, %error, "files that were left out of earlier commits could not be restored");
                Ok(None)
            }
        }
    }
}

/// Returns the paths at which `head` has something else than the commit from which the files were left out. The files
/// of a submodule count as its pointer.
async fn changed_since(mirror: &Mirror, extracted: &Extracted, head: &Sha) -> Result<HashSet<PathBuf>, RunError> {
    if extracted.head == *head {
        return Ok(HashSet::new());
    }
    let all: Vec<&PathBuf> = extracted.files.iter().chain(&extracted.removed).collect();
    let compared =
        |path: &Path| path.ancestors().find(|part| extracted.submodules.contains(*part)).unwrap_or(path).to_owned();
    let asked: BTreeSet<PathBuf> = all.iter().map(|path| compared(path)).collect();
    let asked: Vec<PathBuf> = asked.into_iter().collect();
    let after = mirror.tree_entries(head, &asked).await?;
    let is_changed: Box<dyn Fn(&Path) -> bool + Send> = match mirror.has(&extracted.head).await {
        true => {
            let before = mirror.tree_entries(&extracted.head, &asked).await?;
            Box::new(move |path| before.get(path) != after.get(path))
        }
        // What there was is not known.
        false => Box::new(move |path| after.contains_key(path)),
    };
    Ok(all.into_iter().filter(|path| is_changed(&compared(path))).cloned().collect())
}

/// Marks files as local in the index of a tree. Returns those that could not be marked: without their marks, the next turn
/// would publish them.
fn unmarked(tree: &File, files: &[PathBuf]) -> io::Result<HashSet<PathBuf>> {
    if files.is_empty() {
        return Ok(HashSet::new());
    }
    let marked = mark(tree, files)?;
    Ok(files.iter().filter(|file| !marked.contains(*file)).cloned().collect())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
