//! Finds the job that opened a pull request.

use journeyman_core::job::Job;
use journeyman_core::ports::{Cursor, JobFilter};
use journeyman_core::pull::LocalPull;

use super::Target;
use crate::Shared;
use crate::failure::Failure;

/// The number of jobs that are read at a time.
const BATCH: usize = 200;

/// The maximum number of batches that are read.
const MAX_BATCHES: usize = 25;

/// Returns the job that opened the pull request; `None` if it is not among the last 5,000 jobs that were created before
/// the pull request. The newest jobs are searched first, because it is usually one of them.
pub(super) async fn job_of(shared: &Shared, target: &Target, pull: &LocalPull) -> Result<Option<Job>, Failure> {
    let mut after = None;
    for _ in 0..MAX_BATCHES {
        let filter = JobFilter {
            created_before: Some(pull.created_at),
            after,
            ..JobFilter::newest(target.project.id.clone(), BATCH)
        };
        let jobs = shared.services.store.jobs(filter).await?;
        let is_it = |job: &&Job| {
            let has_it = job.pull.as_ref().is_some_and(|pull| pull.number == target.number);
            // The project may have had another repository, whose pull requests have the same numbers.
            has_it && job.source.repository.strip_prefix("local:") == Some(&pull.repository)
        };
        if let Some(job) = jobs.iter().find(is_it) {
            return Ok(Some(job.clone()));
        }
        match jobs.last().filter(|_| jobs.len() == BATCH) {
            Some(last) => after = Some(Cursor { created_at: last.created_at, id: last.id }),
            None => break,
        }
    }
    Ok(None)
}
