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

/// Entries of a generation: when the young one has so many it becomes the old one, and what the old one had is forgotten,
/// so that what is used again and again stays. A job has about 2 KB, one with a full queue 4 KB.
const GENERATION: usize = 3000;

#[derive(Debug, Default)]
pub(super) struct JobCache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    young: HashMap<JobId, (Instant, Job)>,
    old: HashMap<JobId, (Instant, Job)>,
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
        let mut inner = self.inner();
        match inner.get(id) {
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
        self.inner().get(id).map(|(_, job)| job.clone())
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
        // The other generation may have it as it was before.
        self.old.remove(&job.id);
        self.young.insert(job.id, (now, job));
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::JobId;
    use journeyman_core::job::{JobOptions, JobState, Source, Token};
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn job(number: usize, last_seq: u64) -> Job {
        Job {
            id: JobId::from_uuid(Uuid::from_u128(number as u128)),
            project: "shop".parse().unwrap(),
            title: String::new(),
            source: Source { repository: String::new(), reference: String::new() },
            agent: String::new(),
            model: String::new(),
            options: JobOptions::default(),
            created_at: Timestamp::default(),
            state: JobState::Completed,
            waiting_since: Timestamp::default(),
            preferred_worker: None,
            settled_at: None,
            last: None,
            queue: Vec::new(),
            last_message_at: Timestamp::default(),
            branch: None,
            pull: None,
            session: None,
            archive: None,
            bundle: None,
            unpublished: Vec::new(),
            token: Token(0),
            last_seq,
        }
    }

    #[test]
    fn what_is_used_stays_and_is_never_as_it_was_before() {
        let (cache, now) = (JobCache::default(), Instant::now());
        let favourite = job(0, 1);
        cache.commit([favourite.clone()], now);
        for number in 1..4 * GENERATION {
            cache.commit([job(number, 1)], now);
            if number % 100 == 0 {
                assert!(cache.look(favourite.id, now).is_ok(), "after {number} others");
            }
        }
        assert!(cache.look(job(1, 1).id, now).is_err(), "nobody asked for it");
        cache.commit([job(0, 2)], now);
        assert_eq!(cache.committed(favourite.id).map(|job| job.last_seq), Some(2));
        let inner = cache.inner();
        assert!(inner.young.len() + inner.old.len() <= 2 * GENERATION);
    }

    #[test]
    fn what_was_read_before_a_commit_is_not_kept_after_it() {
        let (cache, now) = (JobCache::default(), Instant::now());
        let Err(moment) = cache.look(job(0, 1).id, now) else { panic!("nothing is known yet") };
        cache.commit([job(0, 2)], now);
        cache.read(moment, &job(0, 1), now);
        assert_eq!(cache.committed(job(0, 1).id).map(|job| job.last_seq), Some(2));
        assert!(cache.look(job(0, 1).id, now + FRESH).is_err(), "after a while the file is looked at");
        cache.forget();
        assert_eq!(cache.committed(job(0, 1).id), None);
    }
}
