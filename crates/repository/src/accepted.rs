//! Finds commits that people have accepted: those of the branches that the code host and the project name. Jobs do not
//! push to these branches ([`crate::branch::choose_branch`]), so they contain an agent's work only if people have
//! merged it.
//!
//! The author of a commit is not checked: an agent that makes commits itself may use any name.

use journeyman_core::ids::Sha;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::project::Project;
use journeyman_core::run::ReasonCode;
use journeyman_git::GitError;

use crate::{History, Mirror, RepositoryError};

/// Returns the refs whose commits people have accepted: the default branch, if the code host names it, and the
/// project's `ref` and `pullRequest.base`. A job's own `ref` does not count, because its creator may name the branch of
/// another job.
fn accepted_refs<'a>(project: &'a Project, history: &'a dyn History) -> Vec<&'a str> {
    let default = history.default_branch().filter(|_| history.names_default_branch());
    // A guessed default branch may be the branch of a job.
    let own = project.reference.as_deref().filter(|name| *name != "HEAD");
    default.into_iter().chain(own).chain(project.settings.pull_request.base.as_deref()).collect()
}

/// Returns whether a branch with this name would count as one of the accepted refs.
#[must_use]
pub fn is_accepted_name(branch: &str, project: &Project, history: &dyn History) -> bool {
    let forms = ["", "refs/heads/", "heads/", "refs/tags/", "tags/"];
    let refs = accepted_refs(project, history);
    refs.iter().any(|name| forms.iter().any(|form| name.strip_prefix(form) == Some(branch)))
}

/// Returns the newest commit in the history of the turn's head that people have accepted.
///
/// # Errors
/// There is no such commit, or git failed.
pub async fn accepted_commit(project: &Project, mirror: &Mirror, turn: &TurnBegun) -> Result<Sha, RepositoryError> {
    let refs = accepted_refs(project, mirror);
    let mut accepted = Vec::new();
    // The project may have been changed to name the job's branch after the job pushed to it.
    for name in refs.iter().filter(|name| **name != turn.branch) {
        // A ref that no longer exists accepts nothing.
        accepted.extend(mirror.resolve(name).await.ok());
    }
    if accepted.contains(&turn.head) {
        return Ok(turn.head.clone());
    }
    let found = if accepted.is_empty() { None } else { merge_base(mirror, &turn.head, &accepted).await? };
    found.ok_or_else(|| nothing_accepted(&refs, turn))
}

/// Returns the best common ancestor of `head` and any of the others.
pub(crate) async fn merge_base(mirror: &Mirror, head: &Sha, others: &[Sha]) -> Result<Option<Sha>, RepositoryError> {
    let commits = [head].into_iter().chain(others).map(Sha::as_str);
    match mirror.git.at(&mirror.path, ["merge-base"].into_iter().chain(commits)).run().await {
        Ok(found) => Ok(Some(found.sha()?)),
        // This exit code only means that there is none (git-merge-base(1)).
        Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn nothing_accepted(refs: &[&str], turn: &TurnBegun) -> RepositoryError {
    let refs = match refs {
        [] => "the code host names no default branch, and the project sets neither ref nor pullRequest.base".to_owned(),
        refs => format!("the branch {:?} has no commit in common with {}", turn.branch, refs.join(", ")),
    };
    let text = format!(
        "the setup command was not run: it gets secrets that the agent does not get, so it must run on a commit that \
         people have accepted, but there is none: {refs}. Set pullRequest.base of the project to the branch that the \
         work is merged into, or give the agent the same secrets (secretUses)"
    );
    RepositoryError::failed(ReasonCode::SetupFailed, text)
}
