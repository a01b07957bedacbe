//! The decision to delete a job.

use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::ids::{JobId, ProjectId};
use crate::job::{Job, JobState};
use crate::refusal::{Refusal, RefusalKind, ResourceKind};

/// A job of a project, which need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobToDelete(pub JobId, pub ProjectId);

/// The locked rows of [`JobToDelete`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedJob {
    /// The job.
    pub job: Option<Job>,
    /// `true` if the job was deleted in the last 30 days.
    pub was_deleted: bool,
}

/// Deletes the job with its messages, runs and log. Its branch and its pull request stay. Deleting it again changes
/// nothing.
///
/// # Errors
/// Returns an error if the project has no such job, if the job is active or its work is being published, or if the caller
/// expected it in another state.
pub fn delete(
    state: &LockedJob,
    project: &ProjectId,
    is_expected: impl Fn(&Job) -> bool,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let Some(job) = state.job.as_ref().filter(|job| job.project == *project) else {
        return if state.was_deleted { Ok(Change::nothing()) } else { Err(Refusal::not_found(ResourceKind::Job)) };
    };
    if !is_expected(job) {
        return Err(Refusal::new(
            RefusalKind::VersionMismatch,
            ResourceKind::Job,
            "the job has changed since you read it; read it again, and repeat the request",
        ));
    }
    if matches!(job.state, JobState::Active(_)) {
        return Err(Refusal::new(
            RefusalKind::Busy,
            ResourceKind::Job,
            "the job is active; cancel or archive it, and wait until it has stopped",
        ));
    }
    Ok(Change::new([Row::JobDeleted { id: job.id, project: job.project.clone(), at: audit.at }], audit))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::JobId;
    use crate::job::{Source, Work};
    use crate::time::Timestamp;

    #[test]
    fn only_a_job_at_rest_in_the_expected_state_is_deleted() {
        let (shop, now): (ProjectId, _) = ("shop".parse().unwrap(), Timestamp::from_micros(7));
        let source = Source { repository: "r".to_owned(), reference: "main".to_owned() };
        let mut job = Job::new(JobId::from_uuid(Uuid::from_u128(1)), shop.clone(), source, now);
        let audit = || AuditEntry {
            at: now,
            actor: "cli".to_owned(),
            action: "job.deleted".to_owned(),
            subject: String::new(),
            address: None,
        };
        let state = |job: &Job| LockedJob { job: Some(job.clone()), ..LockedJob::default() };
        assert_eq!(job.state, JobState::Active(Work::Waiting));
        assert_eq!(
            delete(&state(&job), &shop, |_| true, audit()),
            Err(Refusal::new(
                RefusalKind::Busy,
                ResourceKind::Job,
                "the job is active; cancel or archive it, and wait until it has stopped"
            ))
        );
        job.state = JobState::Completed;
        assert_eq!(
            delete(&state(&job), &shop, |_| false, audit()),
            Err(Refusal::new(
                RefusalKind::VersionMismatch,
                ResourceKind::Job,
                "the job has changed since you read it; read it again, and repeat the request"
            ))
        );
        let other = "other".parse().unwrap();
        assert_eq!(delete(&state(&job), &other, |_| true, audit()), Err(Refusal::not_found(ResourceKind::Job)));
        assert_eq!(delete(&LockedJob::default(), &shop, |_| true, audit()), Err(Refusal::not_found(ResourceKind::Job)));
        let was_deleted = LockedJob { was_deleted: true, ..LockedJob::default() };
        assert_eq!(delete(&was_deleted, &shop, |_| true, audit()), Ok(Change::nothing()));
        let deleted = Change::new([Row::JobDeleted { id: job.id, project: shop.clone(), at: now }], audit());
        assert_eq!(delete(&state(&job), &shop, |_| true, audit()), Ok(deleted));
    }
}
