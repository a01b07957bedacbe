//! How a job stands, in words.

use journeyman_core::job::{Job, JobState, JobStatus, Pull, Work};
use journeyman_core::run::ReasonCode;

use crate::frame::InProject;
use crate::words;

/// The class of its badge, and the word on it.
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

/// Whether something may still happen by itself.
pub(crate) fn is_active(job: &Job) -> bool {
    job.status() == JobStatus::Active
}

/// The page of a job's pull request: ours, or its code host's.
pub(crate) fn pull_path(at: &InProject, job: &Job, pull: &Pull) -> Option<String> {
    if job.source.repository == at.project.repository && at.is_hosted() {
        return Some(at.path(&format!("/pulls/{}", pull.number)));
    }
    Some(pull.url.clone()).filter(|url| words::is_page(url))
}
