//! Jobs as they were last committed, for the reads and decisions of this process: a job that is polled or written again
//! is not parsed again.
//!
//! The writer puts every job here that it has committed, before it takes the next batch: what it decides on is never
//! older than the file, because nobody else writes jobs while the service runs. What other processes do beside it (the
//! command line deletes a project) the writer sees by SQLite's `data_version`, and forgets everything; readers believe an
//! entry for [`FRESH`] and then look at the file again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journeyman_core::ids::JobId;
use journeyman_core::job::Job;

/// How long a reader believes an entry.
const FRESH: Duration = Duration::from_secs(1);

/// Entries; beyond that all are forgotten. A job has about 2 KB, one with a full queue 4 KB.
const MOST: usize = 2048;

#[derive(Debug, Default)]
pub(super) struct JobCache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    jobs: HashMap<JobId, (Instant, Job)>,
    /// Grows with every commit.
    commits: u64,
}

/// A moment in the history of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment(u64);

impl JobCache {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For readers: the job, if it was looked at a moment ago, else the moment at which to look.
    pub(super) fn look(&self, id: JobId, now: Instant) -> Result<Job, Moment> {
        let inner = self.inner();
        match inner.jobs.get(&id) {
            Some((at, job)) if now.saturating_duration_since(*at) < FRESH => Ok(job.clone()),
            _ => Err(Moment(inner.commits)),
        }
    }

    /// For readers: what was read after `moment`. Something that was committed since may be newer.
    pub(super) fn read(&self, moment: Moment, job: &Job, now: Instant) {
        let mut inner = self.inner();
        if inner.commits == moment.0 {
            inner.put(job.clone(), now);
        }
    }

    /// For the writer: the job as it was committed last, if it is here.
    pub(super) fn committed(&self, id: JobId) -> Option<Job> {
        self.inner().jobs.get(&id).map(|(_, job)| job.clone())
    }

    /// For the writer: these were committed.
    pub(super) fn commit(&self, jobs: impl IntoIterator<Item = Job>, now: Instant) {
        let mut inner = self.inner();
        inner.commits += 1;
        for job in jobs {
            inner.put(job, now);
        }
    }

    /// For the writer: somebody else has written, or a job is gone.
    pub(super) fn forget(&self) {
        let mut inner = self.inner();
        inner.commits += 1;
        inner.jobs.clear();
    }
}

impl Inner {
    fn put(&mut self, job: Job, now: Instant) {
        if self.jobs.len() >= MOST && !self.jobs.contains_key(&job.id) {
            self.jobs.clear();
        }
        self.jobs.insert(job.id, (now, job));
    }
}
