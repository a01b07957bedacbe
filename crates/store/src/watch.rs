//! Waiting for changes of one job, the same for every store.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::JobId;
use journeyman_core::ports::{JobStore, JobWatch};

use crate::wakeups::{Listener, Wakeups};

/// A listener for changes of a job. It reads the job from the store only if no change has been announced yet.
pub(crate) struct Watch<'a, S> {
    store: &'a S,
    wakeups: &'a Wakeups,
    job: JobId,
    listener: Listener<'a>,
    /// The time after which waiters wake up anyway, for stores whose notifications may be lost.
    recheck: Option<Duration>,
}

impl<'a, S: JobStore> Watch<'a, S> {
    pub(crate) fn new(store: &'a S, wakeups: &'a Wakeups, job: JobId, recheck: Option<Duration>) -> Self {
        Self { store, wakeups, job, listener: wakeups.listen(job), recheck }
    }
}

#[async_trait]
impl<S: JobStore> JobWatch for Watch<'_, S> {
    async fn changed(&mut self, after: u64) {
        if self.listener.last_seq() == 0 {
            // The first waiter reads the end of the log, and announces it to the other waiters.
            match self.store.job(self.job).await {
                Ok(Some(job)) => self.wakeups.announce(job.id, job.last_seq, false),
                // Wake the caller, whose own read will return the error.
                _ => return,
            }
        }
        let grown = self.listener.beyond(after);
        match self.recheck {
            None => grown.await,
            // Spurious wake-ups are allowed.
            Some(recheck) => drop(tokio::time::timeout(recheck, grown).await),
        }
    }
}
