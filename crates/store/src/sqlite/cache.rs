//! A cache of committed jobs, so that a job that is polled or written repeatedly is not parsed each time.
//!
//! The writer stores every committed job here before it starts the next batch, so that its decisions are never based on
//! outdated jobs. If another process changes the database (the command line deletes a project), the writer notices it
//! by SQLite's `data_version`, and clears the cache. Readers trust an entry for [`FRESH`], and then read the database
//! again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journeyman_core::ids::JobId;
use journeyman_core::job::Job;

/// The time for which readers trust an entry.
const FRESH: Duration = Duration::from_secs(1);

/// The number of entries in a generation. When the young generation is full, it replaces the old one, whose entries are
/// dropped; an entry of the old generation that is used moves to the young one. A job takes about 2 KB, and 4 KB with a
/// full queue.
const GENERATION: usize = 3000;

#[derive(Debug, Default)]
pub(super) struct JobCache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    young: HashMap<JobId, (Instant, Job)>,
    old: HashMap<JobId, (Instant, Job)>,
    /// Grows with each commit.
    commits: u64,
}

/// The number of commits when a reader looked up a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheVersion(u64);

impl JobCache {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a job to a reader if the entry is fresh; otherwise the version to pass to [`JobCache::put_read`].
    pub(super) fn look_up(&self, id: JobId, now: Instant) -> Result<Job, CacheVersion> {
        let mut inner = self.inner();
        match inner.get(id) {
            Some((at, job)) if now.saturating_duration_since(*at) < FRESH => Ok(job.clone()),
            _ => Err(CacheVersion(inner.commits)),
        }
    }

    /// Stores a job that a reader has read after `version`, unless a later commit may have changed it.
    pub(super) fn put_read(&self, version: CacheVersion, job: &Job, now: Instant) {
        let mut inner = self.inner();
        if inner.commits == version.0 {
            inner.put(job.clone(), now);
        }
    }

    /// Returns the last committed state of a job to the writer, if it is cached.
    pub(super) fn committed(&self, id: JobId) -> Option<Job> {
        self.inner().get(id).map(|(_, job)| job.clone())
    }

    /// Stores the jobs that the writer has committed.
    pub(super) fn commit(&self, jobs: impl IntoIterator<Item = Job>, now: Instant) {
        let mut inner = self.inner();
        inner.commits += 1;
        for job in jobs {
            inner.put(job, now);
        }
    }

    /// Removes all entries, after another process has written to the database or jobs were deleted.
    pub(super) fn clear(&self) {
        let mut inner = self.inner();
        inner.commits += 1;
        inner.young.clear();
        inner.old.clear();
    }
}

impl Inner {
    fn get(&mut self, id: JobId) -> Option<&(Instant, Job)> {
        if let Some((at, job)) = self.old.remove(&id) {
            self.put(job, at);
        }
        self.young.get(&id)
    }

    fn put(&mut self, job: Job, now: Instant) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        // The old generation may have a previous state of the job.
        self.old.remove(&job.id);
        self.young.insert(job.id, (now, job));
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::JobId;
    use journeyman_core::job::Source;
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn job(number: usize, last_seq: u64) -> Job {
        let (id, project) = (JobId::from_uuid(Uuid::from_u128(number as u128)), "shop".parse().unwrap());
        let source = Source { repository: String::new(), reference: String::new() };
        Job { last_seq, ..Job::new(id, project, source, Timestamp::default()) }
    }

    #[test]
    fn used_entries_stay_and_are_replaced_by_commits() {
        let (cache, now) = (JobCache::default(), Instant::now());
        let popular = job(0, 1);
        cache.commit([popular.clone()], now);
        for number in 1..4 * GENERATION {
            cache.commit([job(number, 1)], now);
            if number % 100 == 0 {
                assert!(cache.look_up(popular.id, now).is_ok(), "after {number} others");
            }
        }
        assert!(cache.look_up(job(1, 1).id, now).is_err(), "it was not used");
        cache.commit([job(0, 2)], now);
        assert_eq!(cache.committed(popular.id).map(|job| job.last_seq), Some(2));
        let inner = cache.inner();
        assert!(inner.young.len() + inner.old.len() <= 2 * GENERATION);
    }

    #[test]
    fn a_job_read_before_a_commit_is_not_cached_after_it() {
        let (cache, now) = (JobCache::default(), Instant::now());
        let Err(version) = cache.look_up(job(0, 1).id, now) else { panic!("nothing is known yet") };
        cache.commit([job(0, 2)], now);
        cache.put_read(version, &job(0, 1), now);
        assert_eq!(cache.committed(job(0, 1).id).map(|job| job.last_seq), Some(2));
        assert!(cache.look_up(job(0, 1).id, now + FRESH).is_err(), "the entry is no longer fresh");
        cache.clear();
        assert_eq!(cache.committed(job(0, 1).id), None);
    }
}
