//! Sets the statuses of commits.

use std::sync::Arc;

use journeyman_core::checks::{CommitStatus, StatusState};
use journeyman_core::code_host::PullState;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::{Job, JobState, JobStatus};
use journeyman_core::ports::Forge;
use journeyman_core::run::ReasonCode;

use super::{Failed, is_at};
use crate::UseCases;
use crate::inbox::Problem;

impl UseCases {
    /// Sets the status of a commit to the state of the job now, because effects are not carried out in order.
    pub(super) async fn set_status(&self, job: JobId, sha: &Sha) -> Result<(), Failed> {
        let Some((job, forge)) = self.find_job(job).await? else { return Ok(()) };
        let Some(checks) = forge.checks() else { return Ok(()) };
        let repository = job.pull.as_ref().and_then(|pull| pull.repository.as_ref());
        match repository {
            Some(repository) if is_at(&*forge, repository).await? => {}
            _ => return Ok(()),
        }
        let is_newest = job.branch.as_ref().and_then(|branch| branch.pushed.as_ref()) == Some(sha);
        let is_open = job.pull.as_ref().is_some_and(|pull| pull.state == PullState::Open);
        let (state, description) = match job.status() {
            _ if is_newest && !is_open => (StatusState::Success, "The agent has finished"),
            _ if !is_newest => (StatusState::Success, "A newer commit follows"),
            JobStatus::Active => (StatusState::Pending, "The agent is working"),
            JobStatus::Completed | JobStatus::Archived => (StatusState::Success, "The agent has finished"),
            // The commit is the work of an earlier message, which did not fail.
            JobStatus::Failed if is_stopped(&job) => (StatusState::Success, "The agent was stopped"),
            JobStatus::Failed => (StatusState::Failure, "The job has failed"),
        };
        let status = CommitStatus {
            state,
            description: description.to_owned(),
            url: self.job_page(&job),
            branch: job.branch_name(),
        };
        Ok(checks.set_status(sha, &status).await?)
    }

    /// Sets the status of a commit, outside of the effects of its job. A host that refuses it is not asked again.
    pub(crate) async fn set_status_late(&self, job: JobId, sha: &Sha) -> Result<(), Problem> {
        match self.set_status(job, sha).await {
            Err(Failed::Later(text)) => Err(Problem(text)),
            Err(Failed::Never(text)) => {
                tracing::info!(%job, %sha, error = text, "the status of a commit is refused");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Returns a job with its repository; `None` if either no longer exists.
    async fn find_job(&self, job: JobId) -> Result<Option<(Job, Arc<dyn Forge>)>, Failed> {
        let parts = self.parts();
        let Some(job) = parts.store.job(job).await? else { return Ok(None) };
        let Some(project) = parts.store.project(job.project.clone()).await? else { return Ok(None) };
        let forge = parts.forges.of(&project).await?;
        Ok(Some((job, forge)))
    }
}

/// Returns whether the job's last work was canceled.
fn is_stopped(job: &Job) -> bool {
    matches!(&job.state, JobState::Failed(reason) if reason.code == ReasonCode::Cancelled)
}
