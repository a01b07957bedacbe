//! The status of a job in words.

use journeyman_core::job::{Job, JobState, JobStatus, Work};
use journeyman_core::run::ReasonCode;

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
