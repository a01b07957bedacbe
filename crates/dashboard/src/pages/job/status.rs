//! The status of a job in words.

use journeyman_core::job::{Job, JobState, JobStatus, Pull, Work};
use journeyman_core::run::ReasonCode;

use crate::in_project::InProject;
use crate::words;

/// Returns the class of the job's badge, and the word on it.
pub(crate) fn badge(job: &Job) -> (&'static str, &'static str) {
    match &job.state {
        JobState::Active(_) if job.archive_requested_at().is_some() => ("archived", "archived"),
        JobState::Active(Work::Running { .. }) => ("running", "running"),
        JobState::Active(Work::Waiting) => ("queued", "queued"),
        JobState::Active(Work::Retrying { .. }) => ("waiting", "waiting to retry"),
        JobState::Completed => ("completed", "completed"),
        JobState::Failed(reason) if reason.code == ReasonCode::Cancelled => ("cancelled", "cancelled"),
        JobState::Failed(_) => ("failed", "failed"),
        JobState::Archived { .. } => ("archived", "archived"),
    }
}

/// Returns true if the job is active, so that its state may change without another request.
pub(crate) fn is_active(job: &Job) -> bool {
    job.status() == JobStatus::Active
}

/// Returns the URL of a job's pull request: a page of the dashboard or of the code host. `None` if the code host's URL
/// is not an http or https URL.
pub(crate) fn pull_path(at: &InProject, job: &Job, pull: &Pull) -> Option<String> {
    if job.source.repository == at.project.repository && at.is_hosted() {
        return Some(at.path(&format!("/pulls/{}", pull.number)));
    }
    Some(pull.url.clone()).filter(|url| words::is_page(url))
}
