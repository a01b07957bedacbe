//! A cache of committed jobs, so that a job that is polled or written repeatedly is not parsed each time. It also keeps
//! the data about a job that requests for details read.
//!
//! The writer stores every committed job here before it starts the next batch, so that its decisions are never based on
//! outdated jobs. If another process changes the database (the command line deletes a project), the writer notices it
//! by SQLite's `data_version`, and clears the cache. Readers trust an entry for [`FRESH`], and then read the database
//! again. The data about a job is dropped with each commit of the job, and with each commit that changes such data of
//! other jobs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::message::Message;
use journeyman_core::ports::JobExtras;

/// The time for which readers trust an entry.
const FRESH: Duration = Duration::from_secs(1);

/// The number of entries in a generation. When the young generation is full, it replaces the old one, whose entries are
/// dropped; an entry of the old generation that is used moves to the young one. A job takes about 2 KB, and 4 KB with a
/// full queue; the data about it takes about 1 KB, and its newest message at most [`MAX_MESSAGE`].
const GENERATION: usize = 3000;

/// The maximum length of a message that is kept, in bytes of its prompt and its answer.
const MAX_MESSAGE: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct JobCache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    young: HashMap<JobId, Entry>,
    old: HashMap<JobId, Entry>,
    /// Grows with each commit.
    commits: u64,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    job: Job,
    related: Related,
}

/// Data about a job that is not in its document, with the times at which it was read.
#[derive(Debug, Default)]
pub(crate) struct Related {
    extras: Option<(Instant, Extras)>,
    newest: Option<(Instant, Newest)>,
}

/// A part of [`Related`].
pub(crate) trait Part: Clone + Send {
    /// Returns the entry of this part.
    fn entry(related: &mut Related) -> &mut Option<(Instant, Self)>;

    /// Returns true if the part is small enough to be kept.
    fn is_small(&self) -> bool;
}

/// The result of a read of a job's extras; `None` if there are none.
#[derive(Debug, Clone)]
pub(crate) struct Extras(pub(crate) Option<JobExtras>);

impl Part for Extras {
    fn entry(related: &mut Related) -> &mut Option<(Instant, Self)> {
        &mut related.extras
    }

    fn is_small(&self) -> bool {
        true
    }
}

/// The result of a read of a job's newest message.
#[derive(Debug, Clone)]
pub(crate) struct Newest(pub(crate) Option<Message>);

impl Part for Newest {
    fn entry(related: &mut Related) -> &mut Option<(Instant, Self)> {
        &mut related.newest
    }

    fn is_small(&self) -> bool {
        let length = |message: &Message| message.prompt.len() + message.answer.as_ref().map_or(0, String::len);
        self.0.as_ref().is_none_or(|message| length(message) <= MAX_MESSAGE)
    }
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
            Some(Entry { at, job, .. }) if now.saturating_duration_since(*at) < FRESH => Ok(job.clone()),
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

    /// Returns data about a job to a reader if it is fresh; otherwise the version to pass to [`JobCache::put_related`].
    pub(super) fn related<T: Part>(&self, id: JobId, now: Instant) -> Result<T, CacheVersion> {
        let mut inner = self.inner();
        let version = CacheVersion(inner.commits);
        let known = inner.get(id).and_then(|entry| T::entry(&mut entry.related).as_ref());
        match known {
            Some((at, part)) if now.saturating_duration_since(*at) < FRESH => Ok(part.clone()),
            _ => Err(version),
        }
    }

    /// Stores data about a cached job that a reader has read after `version`, unless a later commit may have changed it.
    pub(super) fn put_related<T: Part>(&self, version: CacheVersion, id: JobId, part: &T, now: Instant) {
        let mut inner = self.inner();
        if inner.commits == version.0
            && part.is_small()
            && let Some(entry) = inner.get(id)
        {
            *T::entry(&mut entry.related) = Some((now, part.clone()));
        }
    }

    /// Removes the data about all jobs, after a commit that may have changed data about others than the committed jobs.
    pub(super) fn forget_related(&self) {
        let mut inner = self.inner();
        inner.commits += 1;
        let Inner { young, old, .. } = &mut *inner;
        young.values_mut().chain(old.values_mut()).for_each(|entry| entry.related = Related::default());
    }

    /// Returns the last committed state of a job to the writer, if it is cached.
    pub(super) fn committed(&self, id: JobId) -> Option<Job> {
        self.inner().get(id).map(|entry| entry.job.clone())
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
    fn get(&mut self, id: JobId) -> Option<&mut Entry> {
        if let Some(entry) = self.old.remove(&id) {
            self.insert(entry);
        }
        self.young.get_mut(&id)
    }

    fn put(&mut self, job: Job, at: Instant) {
        self.insert(Entry { at, job, related: Related::default() });
    }

    fn insert(&mut self, entry: Entry) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        // The old generation may have a previous state of the job.
        self.old.remove(&entry.job.id);
        self.young.insert(entry.job.id, entry);
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

    #[test]
    fn data_about_a_job_is_dropped_when_it_may_have_changed() {
        let (cache, now) = (JobCache::default(), Instant::now());
        let id = job(0, 1).id;
        let put = |cache: &JobCache| {
            let Err(version) = cache.related::<Extras>(id, now) else { panic!("nothing is known") };
            cache.put_related(version, id, &Extras(Some(JobExtras::default())), now);
        };
        let is_known = |cache: &JobCache| cache.related::<Extras>(id, now).is_ok();
        put(&cache);
        assert!(!is_known(&cache), "the job is not cached");
        cache.commit([job(0, 1)], now);
        put(&cache);
        assert!(is_known(&cache));
        assert!(cache.related::<Newest>(id, now).is_err(), "another part");
        assert!(cache.related::<Extras>(id, now + FRESH).is_err(), "it is no longer fresh");
        cache.commit([job(1, 1)], now);
        assert!(is_known(&cache), "another job");
        cache.commit([job(0, 2)], now);
        assert!(!is_known(&cache), "a commit of the job");
        put(&cache);
        cache.forget_related();
        assert!(!is_known(&cache), "a commit of data about other jobs");
        let Err(version) = cache.related::<Extras>(id, now) else { panic!("nothing is known") };
        cache.commit([job(1, 2)], now);
        cache.put_related(version, id, &Extras(None), now);
        assert!(!is_known(&cache), "it was read before a commit");
    }
}
