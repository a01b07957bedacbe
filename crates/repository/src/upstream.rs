//! The branch that a job's work is merged into, if the job has merged it into its own branch meanwhile.

use std::path::Path;

use journeyman_core::ids::Sha;
use journeyman_git::{Git, GitError};

/// Returns the commit with which the work of a branch is compared: the newest commit of `upstream` in its history, if
/// the branch has merged commits of `upstream` that are newer than `base`, where it started; otherwise `base`.
///
/// # Errors
/// Git failed.
pub(crate) async fn start_of_work(
    git: &Git,
    mirror: &Path,
    base: &Sha,
    upstream: Option<&Sha>,
    head: &Sha,
) -> Result<Sha, GitError> {
    let Some(upstream) = upstream.filter(|upstream| *upstream != base) else { return Ok(base.clone()) };
    let merged = match git.at(mirror, ["merge-base", upstream.as_str(), head.as_str()]).run().await {
        Ok(found) => found.sha()?,
        // They have no commit in common (git-merge-base(1)).
        Err(GitError::Failed { code: Some(1), .. }) => return Ok(base.clone()),
        Err(error) => return Err(error),
    };
    if merged == *base {
        return Ok(merged);
    }
    let is_newer = git.at(mirror, ["merge-base", "--is-ancestor", base.as_str(), merged.as_str()]).run().await.is_ok();
    Ok(if is_newer { merged } else { base.clone() })
}
