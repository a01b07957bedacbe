//! Refuses commits that change files of CI pipelines ([`is_ci_file`]). A code host runs a pipeline as soon as its branch
//! is pushed, with the secrets of the repository, and before people have reviewed the change.
//!
//! Two comparisons must both find no change:
//!
//! - The newest commit is compared with the commit of the code host that it follows on. Files that are the same as on
//!   the branch that people merge into do not count, because people have accepted these.
//! - Each commit that the code host does not have is compared with its parents, because any of them can become the
//!   newest commit of a branch later.
//!
//! If only the second one finds a change, the agent has undone it. The commits are then pushed as one.

use journeyman_core::code_host::ci_files::is_ci_file;
use journeyman_core::ids::Sha;
use journeyman_core::job::Branch;
use journeyman_core::left_out::path_text;
use journeyman_core::run::ReasonCode;
use journeyman_git::{Failure, GitError};

use crate::{Mirror, RepositoryError};

/// The number of files that an error names.
const NAMED: usize = 5;

/// The result of [`check`].
pub(crate) enum CiCheck {
    /// The commits change no file of CI pipelines.
    Unchanged,
    /// The commits change these files, which must not be pushed.
    Changed(CiFilesChanged),
    /// The commits after `from`, which is on the code host, change such files and undo the changes.
    OnlyBetween {
        /// The newest commit in the history that the code host has.
        from: Sha,
    },
}

/// The files of CI pipelines that commits change.
pub(crate) struct CiFilesChanged(Vec<String>);

impl From<CiFilesChanged> for RepositoryError {
    fn from(CiFilesChanged(files): CiFilesChanged) -> Self {
        let named: Vec<String> = files.iter().take(NAMED).map(|file| format!("{file:?}")).collect();
        let more = match files.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!(
            "the commits change files of CI pipelines: {}{more}. The code host would run them with the repository's \
             secrets before a review, so nothing was pushed; the commits are kept. Set pullRequest.ciFiles of the \
             project to \"allow\" and send another message, or send a message that asks the agent to undo these changes",
            named.join(", ")
        );
        Self::failed(ReasonCode::CiFilesChanged, text)
    }
}

/// Checks the commits up to `head` that a push to `branch` would send. `base` is the branch that people merge into.
pub(crate) async fn check(
    mirror: &Mirror,
    branch: &Branch,
    head: &Sha,
    base: &str,
) -> Result<CiCheck, RepositoryError> {
    let from = start(mirror, branch, head).await?;
    let mut in_sum = changed(mirror, from.as_str(), head).await?;
    if !in_sum.is_empty()
        && let Some(base) = mirror.heads.get(base)
    {
        let others = changed(mirror, base.as_str(), head).await?;
        in_sum.retain(|file| others.contains(file));
    }
    if !in_sum.is_empty() {
        return Ok(CiCheck::Changed(CiFilesChanged(in_sum)));
    }
    let between = changed_between(mirror, head).await?;
    if between.is_empty() {
        return Ok(CiCheck::Unchanged);
    }
    // Commits before `from` would remain: the job starts from a commit that was never pushed.
    let before = changed_between(mirror, &from).await?;
    if before.is_empty() { Ok(CiCheck::OnlyBetween { from }) } else { Ok(CiCheck::Changed(CiFilesChanged(between))) }
}

/// Makes one commit after `from` of all commits up to `head`, with the message of the newest one.
pub(crate) async fn sum_of(mirror: &Mirror, from: &Sha, head: &Sha) -> Result<Sha, RepositoryError> {
    let show = ["log", "-1", "--format=%B", head.as_str(), "--"];
    let message = mirror.git.at(&mirror.path, show).run().await?.stdout;
    let tree = format!("{head}^{{tree}}");
    let commit = ["commit-tree", &tree, "-p", from.as_str(), "-F", "-"];
    Ok(mirror.git.at(&mirror.path, commit).stdin(message).run().await?.sha()?)
}

/// Returns the commit of the code host that the job's commits follow on: the newest one that they share with the branch
/// on the code host, or the one that a new branch starts from.
async fn start(mirror: &Mirror, branch: &Branch, head: &Sha) -> Result<Sha, RepositoryError> {
    // People may have pushed after `mirror.heads` was read; the ref is as new as the last fetch of any job.
    let theirs = format!("refs/heads/{}", branch.name);
    match mirror.git.at(&mirror.path, ["merge-base", head.as_str(), &theirs]).run().await {
        Ok(found) => Ok(found.sha()?),
        // The code host has no such branch, or one with a different history, to which the push is refused.
        Err(error @ GitError::Failed { .. }) if matches!(error.failure(), Failure::Other) => Ok(branch.base.clone()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the files of CI pipelines that differ between two commits, including those with another mode.
async fn changed(mirror: &Mirror, from: &str, to: &Sha) -> Result<Vec<String>, RepositoryError> {
    let arguments = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to.as_str(), "--"];
    Ok(ci_files(&mirror.git.at(&mirror.path, arguments).run().await?.stdout))
}

/// Returns the files of CI pipelines that any of the commits up to `head` changes, without the commits that the code
/// host has. Of a merge, the files count that differ from all of its parents.
async fn changed_between(mirror: &Mirror, head: &Sha) -> Result<Vec<String>, RepositoryError> {
    let form = ["log", "-z", "--name-only", "--no-renames", "--diff-merges=combined", "--root", "--format="];
    let arguments = form.into_iter().chain([head.as_str(), "--not", "--branches", "--"]);
    Ok(ci_files(&mirror.git.at(&mirror.path, arguments).run().await?.stdout))
}

/// Returns the files of CI pipelines in a list of paths that each end with a NUL.
fn ci_files(paths: &[u8]) -> Vec<String> {
    let paths = path_text(paths);
    let mut files: Vec<String> = paths
        .split('\0')
        .map(|path| path.trim_start_matches('\n'))
        .filter(|path| is_ci_file(path))
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests;
