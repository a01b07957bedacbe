//! Merges without a working tree: git computes the tree of two commits, or names the files that conflict.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_core::pull::base_comparison::{Conflicts, MAX_CONFLICTS};

use crate::{Git, GitError};

/// The maximum length of a path that is kept, in bytes. The rest of a longer one is cut off.
const PATH_BYTES: usize = 4096;

/// The maximum number of merges whose conflicts are kept.
const MAX_KNOWN: usize = 1000;

/// The prefix of the folders for the objects of merges that are only tried. `git prune` removes those that a killed
/// process has left behind (builtin/prune.c).
const FOLDER: &str = "tmp_objdir-merge-";

/// The result of a merge of two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The merged tree.
    Tree(Sha),
    /// The files that conflict.
    Conflicts(Conflicts),
}

impl Git {
    /// Merges two commits of a repository into a tree, which is written to it. No branch is changed.
    ///
    /// # Errors
    /// Git failed, for example because the commits have no history in common.
    pub async fn merge(&self, repository: &Path, base: &Sha, head: &Sha) -> Result<Merged, GitError> {
        self.merge_into(repository, None, base, head).await
    }

    /// Returns the files in which two commits of a repository conflict. Writes nothing that stays.
    async fn conflicts(&self, repository: &Path, base: &Sha, head: &Sha) -> Result<Conflicts, GitError> {
        let folder = tempfile::Builder::new().prefix(FOLDER).tempdir_in(repository.join("objects"));
        let folder = folder.map_err(|error| {
            GitError::NotStarted(format!("a folder for its temporary objects could not be made: {error}"))
        })?;
        let merged = self.merge_into(repository, Some(folder.path()), base, head).await?;
        Ok(match merged {
            Merged::Tree(_) => Conflicts::default(),
            Merged::Conflicts(conflicts) => conflicts,
        })
    }

    async fn merge_into(
        &self,
        repository: &Path,
        objects: Option<&Path>,
        base: &Sha,
        head: &Sha,
    ) -> Result<Merged, GitError> {
        // git 2.38 introduced --write-tree; Debian 12 has git 2.39.
        let options = ["merge-tree", "--write-tree", "--no-messages", "--name-only", "-z"];
        let command = self.at(repository, options.into_iter().chain([base.as_str(), head.as_str()]));
        // The attributes of the branch that is merged into, such as merge=union. Git before 2.43 uses none.
        let mut command = command.env("GIT_ATTR_SOURCE", base.as_str());
        if let Some(objects) = objects {
            let all = quoted(&repository.join("objects"));
            command = command.env("GIT_OBJECT_DIRECTORY", objects).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", all);
        }
        // The conflicts are in the output of a command that fails.
        let mut names = Names::default();
        let run = command.run_while(|piece| {
            names.take(piece);
            true
        });
        match run.await {
            Ok(_) => names
                .tree()
                .parse()
                .map(Merged::Tree)
                .map_err(|error| GitError::Unexpected { command: "merge-tree".to_owned(), detail: format!("{error}") }),
            Err(GitError::Failed { code: Some(1), .. }) => Ok(Merged::Conflicts(names.conflicts())),
            Err(error) => Err(error),
        }
    }
}

/// The conflicting files of pairs of commits, a base and a head, that were merged before. The commits determine the
/// files, so an entry stays valid when branches move. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct KnownConflicts(Arc<Mutex<FilesOfMerges>>);

/// The conflicting files by base and head.
type FilesOfMerges = HashMap<(Sha, Sha), Conflicts>;

impl KnownConflicts {
    /// Returns the files in which two commits of a repository, a base and a head, conflict. Writes nothing that stays.
    ///
    /// # Errors
    /// Git failed, for example because the commits have no history in common, or the disk failed.
    pub async fn between(&self, git: &Git, repository: &Path, ends: (Sha, Sha)) -> Result<Conflicts, GitError> {
        let known = self.known().get(&ends).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = git.conflicts(repository, &ends.0, &ends.1).await?;
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(ends, found.clone());
        Ok(found)
    }

    fn known(&self) -> MutexGuard<'_, FilesOfMerges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a path in the form in which git takes it for one entry of a list (git(1), GIT_ALTERNATE_OBJECT_DIRECTORIES).
fn quoted(path: &Path) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    bytes.push(b'"');
    std::ffi::OsString::from_vec(bytes)
}

/// The output of `git merge-tree`: names that end with NUL, first that of the tree. Only the first ones are kept.
#[derive(Debug, Default)]
struct Names {
    kept: Vec<Vec<u8>>,
    /// The name that has not ended.
    current: Vec<u8>,
    /// The number of names that are not kept.
    more: usize,
}

impl Names {
    fn take(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                0 if self.current.is_empty() => {}
                // The tree comes first.
                0 if self.kept.len() > MAX_CONFLICTS => {
                    self.current.clear();
                    self.more += 1;
                }
                0 => self.kept.push(std::mem::take(&mut self.current)),
                byte if self.current.len() < PATH_BYTES => self.current.push(*byte),
                _ => {}
            }
        }
    }

    fn tree(&self) -> String {
        self.kept.first().map(|name| path_text(name)).unwrap_or_default()
    }

    fn conflicts(&self) -> Conflicts {
        Conflicts { files: self.kept.iter().skip(1).map(|name| path_text(name)).collect(), more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_are_kept_and_the_others_counted() {
        let mut output = b"0123\0".to_vec();
        for number in 0..MAX_CONFLICTS + 3 {
            output.extend_from_slice(format!("file {number}\0").as_bytes());
        }
        let mut whole = Names::default();
        whole.take(&output);
        let mut pieces = Names::default();
        output.chunks(7).for_each(|piece| pieces.take(piece));
        assert_eq!(whole.conflicts(), pieces.conflicts());
        assert_eq!((whole.tree().as_str(), whole.conflicts().more), ("0123", 3));
        assert_eq!(whole.conflicts().files.last().map(String::as_str), Some("file 99"));
    }

    #[test]
    fn names_need_not_be_text() {
        let mut names = Names::default();
        names.take(b"0123\0caf\xe9\0\0");
        assert_eq!(names.conflicts(), Conflicts { files: vec!["caf\\xe9".to_owned()], more: 0 });
    }

    #[test]
    fn a_path_with_a_colon_is_one_entry() {
        assert_eq!(quoted(Path::new("/a:b/\"c\\")), "\"/a:b/\\\"c\\\\\"");
    }
}
