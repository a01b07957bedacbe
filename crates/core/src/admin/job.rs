//! The decision to delete a job.

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState};
use crate::audit::AuditEntry;
use crate::ids::ProjectId;
use crate::job::{Job, JobState};

/// Deletes the job with its messages, runs and log. Its branch and its pull request stay. Deleting it again changes
/// nothing.
///
/// # Errors
/// Returns an error if the project has no such job, if the job is active or its work is being published, or if the caller
/// expected it in another state.
pub fn delete(
    state: &AdminState,
    project: &ProjectId,
    is_expected: impl Fn(&Job) -> bool,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let Some(job) = state.job.as_ref().filter(|job| job.project == *project) else {
        return if state.was_deleted { Ok(AdminChange::nothing()) } else { Err(AdminRefusal::NoJob) };
    };
    if !is_expected(job) {
        return Err(AdminRefusal::JobChanged);
    }
    if matches!(job.state, JobState::Active(_)) {
        return Err(AdminRefusal::JobActive);
    }
    Ok(AdminChange::new([AdminRow::JobDeleted { id: job.id, project: job.project.clone(), at: audit.at }], audit))
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
        let state = |job: &Job| AdminState { job: Some(job.clone()), ..AdminState::default() };
        assert_eq!(job.state, JobState::Active(Work::Waiting));
        assert_eq!(delete(&state(&job), &shop, |_| true, audit()), Err(AdminRefusal::JobActive));
        job.state = JobState::Completed;
        assert_eq!(delete(&state(&job), &shop, |_| false, audit()), Err(AdminRefusal::JobChanged));
        let other = "other".parse().unwrap();
        assert_eq!(delete(&state(&job), &other, |_| true, audit()), Err(AdminRefusal::NoJob));
        assert_eq!(delete(&AdminState::default(), &shop, |_| true, audit()), Err(AdminRefusal::NoJob));
        let was_deleted = AdminState { was_deleted: true, ..AdminState::default() };
        assert_eq!(delete(&was_deleted, &shop, |_| true, audit()), Ok(AdminChange::nothing()));
        let deleted = AdminChange::new([AdminRow::JobDeleted { id: job.id, project: shop.clone(), at: now }], audit());
        assert_eq!(delete(&state(&job), &shop, |_| true, audit()), Ok(deleted));
    }
}
