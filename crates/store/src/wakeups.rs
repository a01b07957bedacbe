//! Tells waiters in this process that something was committed. A hint and no more: whoever is woken looks at the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::ports::Accepted;
use tokio::sync::watch;

/// Who waits for what.
#[derive(Debug)]
pub(crate) struct Wakeups {
    work: watch::Sender<u64>,
    jobs: Mutex<HashMap<JobId, watch::Sender<News>>>,
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
        if let Some(sender) = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).get(&job) {
            // News that come late say nothing new.
            sender.send_modify(|known| known.last_seq = known.last_seq.max(last_seq));
        }
        if work {
            self.work.send_modify(|version| *version += 1);
        }
    }

    /// News may have been missed: everybody looks.
    pub(crate) fn everyone(&self) {
        for sender in self.jobs.lock().unwrap_or_else(PoisonError::into_inner).values() {
            sender.send_modify(|known| known.gap += 1);
        }
        self.work.send_modify(|version| *version += 1);
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
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = jobs.entry(job).or_insert_with(|| watch::Sender::new(News::default())).subscribe();
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
    /// Returns when the log has grown beyond `after`, or may have.
    pub(crate) async fn beyond(&mut self, after: u64) {
        let gap = self.gap;
        if let Some(receiver) = &mut self.receiver {
            let _ = receiver.wait_for(|known| known.last_seq > after || known.gap != gap).await;
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.receiver = None;
        let mut jobs = self.wakeups.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.get(&self.job).is_some_and(|sender| sender.receiver_count() == 0) {
            jobs.remove(&self.job);
        }
    }
}
