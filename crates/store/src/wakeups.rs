//! Wake-ups of waiters in this process after a commit. A wake-up is only a hint: the woken waiter reads the store.
//!
//! If many waiters watch one job (a thousand event streams), one of them reads the new log entries, and the others take
//! them from here. This is safe because log entries never change.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::job::event::LogEntry;
use journeyman_core::ports::Accepted;
use tokio::sync::watch;
use tokio::time::Instant;

/// The waiters of this process: workers that wait for work, and listeners for the logs of jobs.
#[derive(Debug)]
pub(crate) struct Wakeups {
    work: watch::Sender<u64>,
    /// Grows with each change of a job, because each may add events to the feed.
    feed: watch::Sender<u64>,
    jobs: Mutex<HashMap<JobId, Watched>>,
}

/// A job that has at least one listener.
#[derive(Debug)]
struct Watched {
    sender: watch::Sender<State>,
    /// The most recently read entries of the job's log.
    tail: Tail,
    /// The lock of the waiter that reads the log.
    reading: Arc<tokio::sync::Mutex<()>>,
}

impl Watched {
    /// Returns the log entries after `after`, if all of them, or at least `limit`, are cached.
    fn lines(&self, after: u64, limit: usize, now: Instant) -> Option<Vec<LogEntry>> {
        let lines = self.tail.entries_after(after, limit, now)?;
        // Entries that were announced must not be omitted.
        let last_seq = self.sender.borrow().last_seq;
        let all = last_seq > 0 && lines.last().is_some_and(|line| line.seq >= last_seq);
        (all || lines.len() == limit).then_some(lines)
    }
}

/// Cached entries of a log, without a gap.
#[derive(Debug, Default)]
struct Tail {
    /// The sequence number before the first entry.
    after: u64,
    lines: VecDeque<LogEntry>,
    /// The time of the last read that reached the end of the entries.
    read_at: Option<Instant>,
}

/// The time for which a tail is valid, because notifications of other processes may be lost.
const FRESH: Duration = Duration::from_secs(1);

/// The maximum number of entries in a tail. A stream that is further behind reads the store.
const TAIL: usize = 256;

impl Tail {
    /// Returns the entries after `after`, if they are cached.
    fn entries_after(&self, after: u64, limit: usize, now: Instant) -> Option<Vec<LogEntry>> {
        if after < self.after || self.read_at.is_none_or(|at| now.saturating_duration_since(at) > FRESH) {
            return None;
        }
        let lines: Vec<LogEntry> =
            self.lines.iter().skip_while(|line| line.seq <= after).take(limit).cloned().collect();
        (!lines.is_empty()).then_some(lines)
    }

    /// Adds entries that were read after `after`.
    fn add(&mut self, after: u64, lines: &[LogEntry], now: Instant) {
        let last = self.lines.back().map_or(self.after, |line| line.seq);
        if self.lines.is_empty() || after > last {
            *self = Self { after, ..Self::default() };
        }
        let last = self.lines.back().map_or(after, |line| line.seq);
        // A read that stopped earlier does not confirm that the later entries are still the last.
        if lines.last().map_or(after, |line| line.seq) >= last {
            self.read_at = Some(now);
        }
        self.lines.extend(lines.iter().filter(|line| line.seq > last).cloned());
        while self.lines.len() > TAIL {
            self.after = self.lines.pop_front().map_or(self.after, |line| line.seq);
        }
    }
}

/// The announced state of a job's log.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The last announced sequence number; 0 before the first announcement.
    last_seq: u64,
    /// Grows when notifications may have been missed.
    gap: u64,
}

impl Wakeups {
    pub(crate) fn new() -> Self {
        Self { work: watch::Sender::new(0), feed: watch::Sender::new(0), jobs: Mutex::new(HashMap::new()) }
    }

    /// Announces an accepted request. A replay changes nothing and is not announced.
    pub(crate) fn accepted(&self, accepted: &Accepted) {
        if let Some(job) = &accepted.job {
            self.committed(job);
        }
    }

    /// Announces a committed job.
    pub(crate) fn committed(&self, job: &Job) {
        self.announce(job.id, job.last_seq, job.may_be_claimed());
    }

    /// Announces that a job's log has grown to `last_seq`, and wakes workers if `work` is set.
    pub(crate) fn announce(&self, job: JobId, last_seq: u64, work: bool) {
        if let Some(Watched { sender, .. }) = self.watched().get(&job) {
            // A late announcement must not decrease the number.
            sender.send_modify(|known| known.last_seq = known.last_seq.max(last_seq));
        }
        if work {
            self.work.send_modify(|version| *version += 1);
        }
        self.feed.send_modify(|version| *version += 1);
    }

    /// Signals that work may have become available, for any job.
    pub(crate) fn work(&self) {
        self.work.send_modify(|version| *version += 1);
    }

    /// Wakes all waiters, because notifications may have been missed.
    pub(crate) fn wake_all(&self) {
        for Watched { sender, .. } in self.watched().values() {
            sender.send_modify(|known| known.gap += 1);
        }
        self.work.send_modify(|version| *version += 1);
        self.feed.send_modify(|version| *version += 1);
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<JobId, Watched>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns entries of a job's log after `after`: recently read entries of another waiter, or else the result of
    /// `read`.
    pub(crate) async fn lines<E>(
        &self,
        job: JobId,
        after: u64,
        limit: usize,
        read: impl Future<Output = Result<Vec<LogEntry>, E>>,
    ) -> Result<Vec<LogEntry>, E> {
        let known = || self.watched().get(&job).and_then(|watched| watched.lines(after, limit, Instant::now()));
        if let Some(lines) = known() {
            return Ok(lines);
        }
        let reading = self.watched().get(&job).map(|watched| Arc::clone(&watched.reading));
        // Without listeners, there is no concurrent reader to share with.
        let Some(reading) = reading else { return read.await };
        let _reading = reading.lock_owned().await;
        if let Some(lines) = known() {
            return Ok(lines);
        }
        let lines = read.await?;
        if let Some(watched) = self.watched().get_mut(&job) {
            watched.tail.add(after, &lines, Instant::now());
        }
        Ok(lines)
    }

    pub(crate) fn work_version(&self) -> u64 {
        *self.work.borrow()
    }

    pub(crate) async fn work_changed(&self, seen: u64) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.work.subscribe().wait_for(|version| *version != seen).await;
    }

    pub(crate) fn feed_version(&self) -> u64 {
        *self.feed.borrow()
    }

    pub(crate) async fn feed_changed(&self, seen: u64) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.feed.subscribe().wait_for(|version| *version != seen).await;
    }

    /// Starts to listen for changes of a job. Callers listen first and read the store second, so that they do not miss
    /// a change in between.
    pub(crate) fn listen(&self, job: JobId) -> Listener<'_> {
        let fresh =
            || Watched { sender: watch::Sender::new(State::default()), tail: Tail::default(), reading: Arc::default() };
        let receiver = self.watched().entry(job).or_insert_with(fresh).sender.subscribe();
        let gap = receiver.borrow().gap;
        Listener { wakeups: self, job, gap, receiver: Some(receiver) }
    }
}

/// A listener for changes of one job. Dropping the last listener removes the entry of the job.
#[derive(Debug)]
pub(crate) struct Listener<'a> {
    wakeups: &'a Wakeups,
    job: JobId,
    gap: u64,
    receiver: Option<watch::Receiver<State>>,
}

impl Listener<'_> {
    /// Returns the last announced sequence number; 0 before the first announcement.
    pub(crate) fn last_seq(&self) -> u64 {
        self.receiver.as_ref().map_or(0, |receiver| receiver.borrow().last_seq)
    }

    /// Waits until the log has, or may have, grown beyond `after`.
    pub(crate) async fn beyond(&mut self, after: u64) {
        let gap = self.gap;
        if let Some(receiver) = &mut self.receiver
            && let Ok(known) = receiver.wait_for(|known| known.last_seq > after || known.gap != gap).await
        {
            self.gap = known.gap;
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.receiver = None;
        let mut jobs = self.wakeups.watched();
        if jobs.get(&self.job).is_some_and(|watched| watched.sender.receiver_count() == 0) {
            jobs.remove(&self.job);
        }
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use super::*;

    fn lines(numbers: std::ops::RangeInclusive<u64>) -> Vec<LogEntry> {
        let line = |seq| LogEntry {
            seq,
            kind: "agent.message".to_owned(),
            at: Timestamp::default(),
            run_id: None,
            data: serde_json::Value::Null,
        };
        numbers.map(line).collect()
    }

    fn numbers(lines: Option<Vec<LogEntry>>) -> Option<Vec<u64>> {
        lines.map(|lines| lines.iter().map(|line| line.seq).collect())
    }

    #[test]
    fn a_tail_has_no_gaps_and_a_maximum_length() {
        let (mut tail, now) = (Tail::default(), Instant::now());
        tail.add(3, &lines(4..=6), now);
        assert_eq!(numbers(tail.entries_after(3, 9, now)), Some(vec![4, 5, 6]));
        assert_eq!(numbers(tail.entries_after(4, 1, now)), Some(vec![5]), "at most the limit");
        assert_eq!(tail.entries_after(2, 9, now), None, "entry 3 is not cached");
        assert_eq!(tail.entries_after(6, 9, now), None, "no later entry is known");
        tail.add(5, &lines(6..=8), now);
        assert_eq!(numbers(tail.entries_after(3, 9, now)), Some(vec![4, 5, 6, 7, 8]));
        tail.add(20, &lines(21..=22), now);
        assert_eq!(numbers(tail.entries_after(8, 9, now)), None, "9 to 20 were never read");
        assert_eq!(numbers(tail.entries_after(20, 9, now)), Some(vec![21, 22]));
        assert_eq!(tail.entries_after(20, 9, now + 2 * FRESH), None, "no longer valid");
        tail.add(22, &lines(23..=600), now);
        assert_eq!(tail.lines.len(), TAIL);
        assert_eq!(tail.entries_after(100, 9, now), None);
    }

    // The clock stands still, so that the cached entries stay valid.
    #[tokio::test(start_paused = true)]
    async fn listeners_share_one_read() {
        let (wakeups, job) = (Wakeups::new(), JobId::from_uuid(uuid::Uuid::nil()));
        let reads = std::cell::Cell::new(0);
        let read = async || {
            reads.set(reads.get() + 1);
            tokio::task::yield_now().await;
            Ok::<_, ()>(lines(1..=2))
        };
        let listener = wakeups.listen(job);
        wakeups.announce(job, 2, false);
        let all = futures::future::join_all((0..50).map(|_| wakeups.lines(job, 0, 9, read()))).await;
        assert!(all.into_iter().all(|lines| numbers(lines.ok()) == Some(vec![1, 2])));
        assert_eq!(reads.get(), 1);
        wakeups.announce(job, 3, false);
        wakeups.lines(job, 0, 9, read()).await.unwrap();
        assert_eq!(reads.get(), 2, "there is more");
        drop(listener);
        wakeups.lines(job, 0, 9, read()).await.unwrap();
        assert_eq!(reads.get(), 3, "nothing is cached without a listener");
    }
}
