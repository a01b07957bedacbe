//! Tells waiters in this process that something was committed. A hint and no more: whoever is woken looks at the store.
//!
//! Where many wait for news of one job (a thousand event streams), one of them reads what is new and the others take it
//! from here: lines of a log never change.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::job::event::LogEntry;
use journeyman_core::ports::Accepted;
use tokio::sync::watch;

/// Who waits for what.
#[derive(Debug)]
pub(crate) struct Wakeups {
    work: watch::Sender<u64>,
    jobs: Mutex<HashMap<JobId, Watched>>,
}

/// A job that somebody waits for.
#[derive(Debug)]
struct Watched {
    sender: watch::Sender<News>,
    /// The last lines of its log that were read.
    tail: Tail,
    /// Held by the one that reads.
    reading: Arc<tokio::sync::Mutex<()>>,
}

impl Watched {
    /// Lines of the log behind `after`, if they are here and there are no others.
    fn lines(&self, after: u64, limit: usize, now: Instant) -> Option<Vec<LogEntry>> {
        let lines = self.tail.behind(after, limit, now)?;
        // What was committed here, or told of, is never left out.
        let last_seq = self.sender.borrow().last_seq;
        let all = last_seq > 0 && lines.last().is_some_and(|line| line.seq >= last_seq);
        (all || lines.len() == limit).then_some(lines)
    }
}

/// Lines of a log without a gap.
#[derive(Debug, Default)]
struct Tail {
    /// The number before the first.
    after: u64,
    lines: VecDeque<LogEntry>,
    /// When the last of them were read.
    read_at: Option<Instant>,
}

/// How long a tail is believed: news of others may be lost on the way.
const FRESH: Duration = Duration::from_secs(1);

/// Lines of a tail; a stream that is further behind reads for itself.
const TAIL: usize = 256;

impl Tail {
    /// Lines behind `after`, if they are here.
    fn behind(&self, after: u64, limit: usize, now: Instant) -> Option<Vec<LogEntry>> {
        if after < self.after || self.read_at.is_none_or(|at| now.saturating_duration_since(at) > FRESH) {
            return None;
        }
        let lines: Vec<LogEntry> =
            self.lines.iter().skip_while(|line| line.seq <= after).take(limit).cloned().collect();
        (!lines.is_empty()).then_some(lines)
    }

    /// Adds lines that were read behind `after`.
    fn keep(&mut self, after: u64, lines: &[LogEntry], now: Instant) {
        let last = self.lines.back().map_or(self.after, |line| line.seq);
        if self.lines.is_empty() || after > last {
            *self = Self { after, ..Self::default() };
        }
        let last = self.lines.back().map_or(after, |line| line.seq);
        // A read that ended before says nothing of what comes behind.
        if lines.last().map_or(after, |line| line.seq) >= last {
            self.read_at = Some(now);
        }
        self.lines.extend(lines.iter().filter(|line| line.seq > last).cloned());
        while self.lines.len() > TAIL {
            self.after = self.lines.pop_front().map_or(self.after, |line| line.seq);
        }
    }
}

/// What is known of a job's log.
#[derive(Debug, Clone, Copy, Default)]
struct News {
    last_seq: u64,
    /// Grows when news may have been missed.
    gap: u64,
}

impl Wakeups {
    pub(crate) fn new() -> Self {
        Self { work: watch::Sender::new(0), jobs: Mutex::new(HashMap::new()) }
    }

    /// A request was accepted; a replay is no news.
    pub(crate) fn accepted(&self, accepted: &Accepted) {
        if let Some(job) = &accepted.job {
            self.committed(job);
        }
    }

    /// A job was written.
    pub(crate) fn committed(&self, job: &Job) {
        self.news(job.id, job.last_seq, job.may_be_claimed());
    }

    /// A job's log has grown to `last_seq`; workers are woken if there may be work.
    pub(crate) fn news(&self, job: JobId, last_seq: u64, work: bool) {
        if let Some(Watched { sender, .. }) = self.watched().get(&job) {
            // News that come late say nothing new.
            sender.send_modify(|known| known.last_seq = known.last_seq.max(last_seq));
        }
        if work {
            self.work.send_modify(|version| *version += 1);
        }
    }

    /// Signals that work may have become available, for any job.
    pub(crate) fn work(&self) {
        self.work.send_modify(|version| *version += 1);
    }

    /// News may have been missed: everybody looks.
    pub(crate) fn everyone(&self) {
        for Watched { sender, .. } in self.watched().values() {
            sender.send_modify(|known| known.gap += 1);
        }
        self.work.send_modify(|version| *version += 1);
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<JobId, Watched>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines of a job's log behind `after`: as they were read for another waiter a moment ago, else by `read`.
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
        // Nobody waits for the job: then nobody reads the same.
        let Some(reading) = reading else { return read.await };
        let _reading = reading.lock_owned().await;
        if let Some(lines) = known() {
            return Ok(lines);
        }
        let lines = read.await?;
        if let Some(watched) = self.watched().get_mut(&job) {
            watched.tail.keep(after, &lines, Instant::now());
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

    /// Begins to listen for news of a job. Subscribe first and read the store second: what is committed between is
    /// then not missed.
    pub(crate) fn listen(&self, job: JobId) -> Listener<'_> {
        let fresh =
            || Watched { sender: watch::Sender::new(News::default()), tail: Tail::default(), reading: Arc::default() };
        let receiver = self.watched().entry(job).or_insert_with(fresh).sender.subscribe();
        let gap = receiver.borrow().gap;
        Listener { wakeups: self, job, gap, receiver: Some(receiver) }
    }
}

/// Listens for news of one job; the last listener takes the job's entry with it.
#[derive(Debug)]
pub(crate) struct Listener<'a> {
    wakeups: &'a Wakeups,
    job: JobId,
    gap: u64,
    receiver: Option<watch::Receiver<News>>,
}

impl Listener<'_> {
    /// The number of the last line that was heard of; 0 before any.
    pub(crate) fn last_seq(&self) -> u64 {
        self.receiver.as_ref().map_or(0, |receiver| receiver.borrow().last_seq)
    }

    /// Returns when the log has grown beyond `after`, or may have.
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
    fn a_tail_has_no_gap_and_an_end() {
        let (mut tail, now) = (Tail::default(), Instant::now());
        tail.keep(3, &lines(4..=6), now);
        assert_eq!(numbers(tail.behind(3, 9, now)), Some(vec![4, 5, 6]));
        assert_eq!(numbers(tail.behind(4, 1, now)), Some(vec![5]), "not more than was asked for");
        assert_eq!(tail.behind(2, 9, now), None, "the line 3 is not here");
        assert_eq!(tail.behind(6, 9, now), None, "nothing is known behind it");
        tail.keep(5, &lines(6..=8), now);
        assert_eq!(numbers(tail.behind(3, 9, now)), Some(vec![4, 5, 6, 7, 8]));
        tail.keep(20, &lines(21..=22), now);
        assert_eq!(numbers(tail.behind(8, 9, now)), None, "9 to 20 were never read");
        assert_eq!(numbers(tail.behind(20, 9, now)), Some(vec![21, 22]));
        assert_eq!(tail.behind(20, 9, now + 2 * FRESH), None, "long ago");
        tail.keep(22, &lines(23..=600), now);
        assert_eq!(tail.lines.len(), TAIL);
        assert_eq!(tail.behind(100, 9, now), None);
    }

    #[tokio::test]
    async fn what_many_wait_for_is_read_once() {
        let (wakeups, job) = (Wakeups::new(), JobId::from_uuid(uuid::Uuid::nil()));
        let reads = std::cell::Cell::new(0);
        let read = async || {
            reads.set(reads.get() + 1);
            tokio::task::yield_now().await;
            Ok::<_, ()>(lines(1..=2))
        };
        let _waits = wakeups.listen(job);
        wakeups.news(job, 2, false);
        let all = futures::future::join_all((0..50).map(|_| wakeups.lines(job, 0, 9, read()))).await;
        assert!(all.into_iter().all(|lines| numbers(lines.ok()) == Some(vec![1, 2])));
        assert_eq!(reads.get(), 1);
        wakeups.news(job, 3, false);
        wakeups.lines(job, 0, 9, read()).await.unwrap();
        assert_eq!(reads.get(), 2, "there is more");
        drop(_waits);
        wakeups.lines(job, 0, 9, read()).await.unwrap();
        assert_eq!(reads.get(), 3, "nothing is kept for a job that nobody waits for");
    }
}
