//! Merges without a working tree: git computes the tree from the two commits, and the base branch is updated only if it
//! has not moved since.

use std::io;
use std::path::Path;

use journeyman_core::ids::Sha;
use journeyman_core::ports::{PullMerge, PullPagesError};
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::pull::{LocalPull, NewMerge};
use journeyman_git::{Failure, Folders, Merged};

use super::methods::{Merging, failed};
use super::{LocalHost, blocking};

/// The maximum number of attempts while others push to the base.
const MAX_ATTEMPTS: usize = 5;

fn not_synced(error: &io::Error) -> PullPagesError {
    PullPagesError::Failed(format!("the repository cannot be synced to disk: {error}"))
}

fn conflict(pull: &LocalPull) -> PullPagesError {
    PullPagesError::Conflict { base: pull.base.clone(), head: pull.head.clone() }
}

/// The maximum number of merges of the base among which an earlier merge is looked up, newest first.
const MERGES: &str = "--max-count=1000";

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

    /// Returns the files in which two commits conflict.
    pub(super) async fn conflicts_of(&self, path: &Path, ends: (Sha, Sha)) -> Result<Conflicts, PullPagesError> {
        self.known_conflicts.between(&self.git, path, ends).await.map_err(|error| failed(&error))
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
            let merged = self.git.merge(path, &base, &head).await.map_err(|error| failed(&error))?;
            let Merged::Tree(tree) = merged else { return Err(conflict(pull)) };
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
