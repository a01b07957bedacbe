//! The choice of the branch that a turn works on.

use journeyman_core::branch::branch_name;
use journeyman_core::ids::Sha;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::job::{DEFAULT_BRANCH, Job};
use journeyman_core::ports::{Forge, ForgeError};
use journeyman_core::project::Project;
use journeyman_core::pull::PullState;
use journeyman_core::run::ReasonCode;

use crate::accepted::is_accepted_name;
use crate::{History, RepositoryError};

/// Chooses the branch of the next turn, and the commit that the turn starts from.
///
/// # Errors
/// The job may not push to the branch that it asks for, a ref does not exist, or the code host failed.
pub async fn choose_branch(
    job: &Job,
    project: &Project,
    history: &dyn History,
    forge: &dyn Forge,
) -> Result<TurnBegun, RepositoryError> {
    let begun = branch_of(job, project, history, forge).await?;
    let default_branch = history.names_default_branch().then(|| history.default_branch().to_owned());
    Ok(TurnBegun { default_branch: default_branch.filter(|_| job.source.reference == DEFAULT_BRANCH), ..begun })
}

async fn branch_of(
    job: &Job,
    project: &Project,
    history: &dyn History,
    forge: &dyn Forge,
) -> Result<TurnBegun, RepositoryError> {
    let wanted = |generation: u32| match (&job.options.branch, generation) {
        (Some(name), 1) => name.clone(),
        (Some(name), generation) => format!("{name}-{generation}"),
        (None, generation) => branch_name(&job.title, &job.id, generation),
    };
    let Some(branch) = &job.branch else {
        let start = history.resolve(&job.source.reference).await?;
        let (name, base) = (wanted(1), base_of(job, project, history));
        if name == base {
            let text = format!("the job's branch {name:?} is also the base of its pull request; choose another branch");
            return Err(RepositoryError::failed(ReasonCode::PushRefused, text));
        }
        return begin(name, 1, start, project, history);
    };
    let ended = match &job.pull {
        Some(pull) => matches!(
            forge.pull_state(pull.number).await.map_err(not_read)?,
            Some(PullState::Merged | PullState::Closed)
        ),
        None => false,
    };
    if ended {
        let generation = branch.generation + 1;
        let base = history.resolve(&base_of(job, project, history)).await?;
        return begin(wanted(generation), generation, base, project, history);
    }
    // The project may have been changed to name this branch.
    if is_accepted_name(&branch.name, project, history) {
        return Err(not_for_jobs(&branch.name));
    }
    let pushed = history.heads().get(&branch.name).cloned();
    let head = match &pushed {
        // The turn continues from the commits that people pushed. Our unpushed commits are rebased onto them later.
        Some(theirs) if !history.has(&branch.head).await || !history.contains(&branch.head, theirs).await => {
            theirs.clone()
        }
        _ if history.has(&branch.head).await => branch.head.clone(),
        _ => branch.base.clone(),
    };
    let (branch, generation, base) = (branch.name.clone(), branch.generation, branch.base.clone());
    Ok(TurnBegun { branch, generation, base, head, pushed, default_branch: None })
}

/// Begins a branch that this job has not used: from `base`, or from the branch's head if the code host has the branch.
/// Commits on a branch that people merge work into count as accepted, so no job pushes to such a branch.
fn begin(
    branch: String,
    generation: u32,
    base: Sha,
    project: &Project,
    history: &dyn History,
) -> Result<TurnBegun, RepositoryError> {
    if branch == history.default_branch() || is_accepted_name(&branch, project, history) {
        return Err(not_for_jobs(&branch));
    }
    let pushed = history.heads().get(&branch).cloned();
    let head = pushed.clone().unwrap_or_else(|| base.clone());
    Ok(TurnBegun { branch, generation, base, head, pushed, default_branch: None })
}

/// Returns the failure for a pull request whose state could not be read.
fn not_read(error: ForgeError) -> RepositoryError {
    let text = format!("the state of the job's pull request could not be read: {error}");
    match error {
        ForgeError::NoPulls(reason) => RepositoryError::Failed { reason, retry: false },
        ForgeError::AlreadyExists | ForgeError::Unclear(_) => {
            RepositoryError::may_pass(ReasonCode::PullRequestFailed, text)
        }
        ForgeError::Refused(_) => RepositoryError::failed(ReasonCode::PullRequestFailed, text),
    }
}

fn not_for_jobs(branch: &str) -> RepositoryError {
    let text = format!(
        "the job's branch {branch:?} is the default branch, or the project's ref or pullRequest.base, and jobs do not \
         push to those; choose another branch in a new job, or change the project"
    );
    RepositoryError::failed(ReasonCode::PushRefused, text)
}

/// Returns the branch that a job's work is merged into: the project's `pullRequest.base`, otherwise the branch that the
/// job started from, otherwise the default branch.
#[must_use]
pub fn base_of(job: &Job, project: &Project, history: &dyn History) -> String {
    let started = || Some(&job.source.reference).filter(|reference| history.heads().contains_key(*reference));
    let base = project.settings.pull_request.base.as_ref().or_else(started);
    base.map_or_else(|| history.default_branch().to_owned(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use async_trait::async_trait;

    use journeyman_core::time::Timestamp;

    use super::*;

    /// A code host with the default branch `main`.
    struct Heads(BTreeMap<String, Sha>, bool);

    #[async_trait]
    impl History for Heads {
        fn heads(&self) -> &BTreeMap<String, Sha> {
            &self.0
        }

        fn default_branch(&self) -> &'static str {
            "main"
        }

        fn names_default_branch(&self) -> bool {
            self.1
        }

        async fn resolve(&self, reference: &str) -> Result<Sha, RepositoryError> {
            Ok(self.0[reference].clone())
        }

        async fn has(&self, _: &Sha) -> bool {
            true
        }

        async fn contains(&self, _: &Sha, _: &Sha) -> bool {
            true
        }
    }

    #[test]
    fn no_job_pushes_to_a_branch_that_people_accept_work_into() {
        let commit: Sha = "a".repeat(40).parse().unwrap();
        let mut project = Project {
            reference: Some("refs/heads/develop".to_owned()),
            ..Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default())
        };
        project.settings.pull_request.base = Some("v1".to_owned());
        for is_named in [true, false] {
            let history = Heads(BTreeMap::from([("main".to_owned(), commit.clone())]), is_named);
            let begun = |branch: &str| begin(branch.to_owned(), 2, commit.clone(), &project, &history);
            for (branch, is_free) in [
                ("main", false),
                ("develop", false),
                ("refs/heads/develop", false),
                ("v1", false),
                ("journeyman/a-1", true),
                ("main-2", true),
            ] {
                match begun(branch) {
                    Ok(turn) => assert!(is_free && turn.branch == branch, "{branch}"),
                    Err(RepositoryError::Failed { reason, .. }) => {
                        assert!(!is_free && reason.text.contains("choose another"), "{branch}: {}", reason.text);
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
}
