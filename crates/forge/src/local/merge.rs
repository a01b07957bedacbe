//! Merges without a working tree: git computes the tree from the two commits, and the base branch is updated only if it
//! has not moved since.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_core::ports::{PullMerge, PullPagesError};
use journeyman_core::pull::{LocalPull, NewMerge};
use journeyman_git::{Failure, Folders, Git, GitError};

use super::methods::Merging;
use super::{LocalHost, blocking};

/// The maximum number of attempts while others push to the base.
const MAX_ATTEMPTS: usize = 5;

pub(super) fn failed(error: &GitError) -> PullPagesError {
    PullPagesError::Failed(error.to_string())
}

fn not_synced(error: &io::Error) -> PullPagesError {
    PullPagesError::Failed(format!("the repository cannot be synced to disk: {error}"))
}

fn conflict(pull: &LocalPull) -> PullPagesError {
    PullPagesError::Conflict { base: pull.base.clone(), head: pull.head.clone() }
}

/// The maximum number of merges of the base among which an earlier merge is looked up, newest first.
const MERGES: &str = "--max-count=1000";

/// The maximum number of conflicting files that a page names.
const MAX_CONFLICTS: usize = 100;

/// The maximum number of merges whose conflicts are kept.
const MAX_KNOWN: usize = 1000;

/// The conflicting files of pairs of commits, a base and a head, that were merged before. The commits determine the files,
/// so an entry stays valid when branches move.
#[derive(Clone, Default)]
pub(super) struct KnownConflicts(Arc<Mutex<FilesOfMerges>>);

/// The conflicting files by base and head.
type FilesOfMerges = HashMap<(Sha, Sha), Vec<String>>;

impl KnownConflicts {
    pub(super) fn of(&self, ends: &(Sha, Sha)) -> Option<Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(ends).cloned()
    }

    pub(super) fn add(&self, ends: (Sha, Sha), files: Vec<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(ends, files);
    }
}

/// The result of a merge of two commits.
pub(super) enum Merged {
    /// The merged tree.
    Tree(Sha),
    /// The files that conflict.
    Conflicts(Vec<String>),
}

pub(super) async fn merged(git: &Git, path: &Path, base: &Sha, head: &Sha) -> Result<Merged, GitError> {
    // git 2.38 introduced --write-tree; Debian 12 has git 2.39.
    let options = ["merge-tree", "--write-tree", "--no-messages", "--name-only", "-z"];
    let arguments = options.into_iter().chain([base.as_str(), head.as_str()]);
    let mut output = Vec::new();
    // The conflicts are in the output of a command that fails.
    let take = |piece: &[u8]| {
        output.extend_from_slice(piece);
        true
    };
    let run = git.at(path, arguments).run_while(take).await;
    let text = path_text(&output);
    let mut parts = text.split('\0').filter(|part| !part.is_empty());
    let tree = parts.next().unwrap_or_default();
    match run {
        Ok(_) => tree
            .parse()
            .map(Merged::Tree)
            .map_err(|error| GitError::Unexpected { command: "merge-tree".to_owned(), detail: format!("{error}") }),
        Err(GitError::Failed { code: Some(1), .. }) => {
            Ok(Merged::Conflicts(parts.take(MAX_CONFLICTS).map(str::to_owned).collect()))
        }
        Err(error) => Err(error),
    }
}

impl LocalHost {
    /// Returns the commits of base and head; `None` if one of the branches was deleted.
    pub(super) async fn branch_ends(
        &self,
        path: &Path,
        pull: &LocalPull,
    ) -> Result<Option<(Sha, Sha)>, PullPagesError> {
        let base = self.branch(path, &pull.base).await.map_err(|error| failed(&error))?;
        let head = self.branch(path, &pull.head).await.map_err(|error| failed(&error))?;
        Ok(base.zip(head))
    }

    /// Tries a merge without changing anything.
    pub(super) async fn try_merge(&self, path: &Path, base: &Sha, head: &Sha) -> Result<Merged, PullPagesError> {
        merged(&self.git, path, base, head).await.map_err(|error| failed(&error))
    }

    /// Merges head into base.
    pub(super) async fn merge_branches(
        &self,
        path: &Path,
        pull: &LocalPull,
        merge: &NewMerge,
    ) -> Result<PullMerge, PullPagesError> {
        let look = path.to_owned();
        let folders = blocking(move || Folders::look(&look)).await.map_err(|error| not_synced(&error))?;
        for _ in 0..MAX_ATTEMPTS {
            let deleted = || PullPagesError::Failed("a branch of the pull request was deleted".to_owned());
            let (base, head) = self.branch_ends(path, pull).await?.ok_or_else(deleted)?;
            let contained =
                self.git.at(path, ["merge-base", "--is-ancestor", head.as_str(), base.as_str()]).run().await;
            if contained.is_ok() {
                // Merged by hand, or by this host before a crash, which may also have prevented the sync.
                let all = Folders::all(path);
                blocking(move || all.sync()).await.map_err(|error| not_synced(&error))?;
                return self.earlier_merge(path, base, head).await;
            }
            let Merged::Tree(tree) = self.try_merge(path, &base, &head).await? else { return Err(conflict(pull)) };
            let new = Merging { git: &self.git, path, pull, merge, base: &base, head: &head, tree: &tree };
            let Some(commit) = new.commit().await? else {
                // An earlier call has squashed or rebased the commits, but its result was not recorded.
                let all = Folders::all(path);
                blocking(move || all.sync()).await.map_err(|error| not_synced(&error))?;
                return Ok(PullMerge { between: (base, head), commit: None, is_new: false });
            };
            let name = format!("refs/heads/{}", pull.base);
            let update = self.git.at(path, ["update-ref", &name, commit.as_str(), base.as_str()]).run().await;
            match update {
                Ok(_) => {
                    blocking(move || folders.sync()).await.map_err(|error| not_synced(&error))?;
                    return Ok(PullMerge { between: (base, head), commit: Some(commit), is_new: true });
                }
                // Another push moved the branch or holds its lock.
                Err(error) if matches!(error.failure(), Failure::NonFastForward | Failure::LockHeld) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(PullPagesError::Failed("others moved or locked the base branch during each attempt; try again".to_owned()))
    }

    /// Finds the merge of a head that the base already contains. There is no merge commit after a fast-forward.
    async fn earlier_merge(&self, path: &Path, base: Sha, head: Sha) -> Result<PullMerge, PullPagesError> {
        let range = format!("{head}..{base}");
        let arguments = ["rev-list", "--merges", "--first-parent", "--parents", MERGES, range.as_str(), "--"];
        let listed = self.git.at(path, arguments).run().await.and_then(journeyman_git::Output::text);
        let listed = listed.map_err(|error| failed(&error))?;
        let merge = |line: &str| -> Option<(Sha, Sha)> {
            // The commit and its parents. The first parent is the head if the merge was made on its branch.
            let (commit, parents) = line.split_once(' ')?;
            let has_head = parents.split(' ').any(|parent| parent == head.as_str());
            let before = parents.split(' ').find(|parent| *parent != head.as_str()).filter(|_| has_head)?;
            Some((commit.parse().ok()?, before.parse().ok()?))
        };
        let found = listed.lines().find_map(merge);
        Ok(match found {
            Some((commit, before)) => PullMerge { between: (before, head), commit: Some(commit), is_new: false },
            None => PullMerge { between: (base, head), commit: None, is_new: false },
        })
    }
}
