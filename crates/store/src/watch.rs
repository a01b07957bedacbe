//! Waits for news of one job, the same for every store.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::JobId;
use journeyman_core::ports::{JobStore, JobWatch};

use crate::wakeups::{Listener, Wakeups};

/// Listens for as long as it lives: what it has heard of is not read again.
pub(crate) struct Watch<'a, S> {
    store: &'a S,
    wakeups: &'a Wakeups,
    job: JobId,
    listener: Listener<'a>,
    /// How long it relies on being told, if that may fail.
    patience: Option<Duration>,
}

impl<'a, S: JobStore> Watch<'a, S> {
    pub(crate) fn new(store: &'a S, wakeups: &'a Wakeups, job: JobId, patience: Option<Duration>) -> Self {
        Self { store, wakeups, job, listener: wakeups.listen(job), patience }
    }
}

#[async_trait]
impl<S: JobStore> JobWatch for Watch<'_, S> {
    async fn changed(&mut self, after: u64) {
        if self.listener.last_seq() == 0 {
            // The first who waits finds out where the log stands; the others hear of it with him.
            match self.store.job(self.job).await {
                Ok(Some(job)) => self.wakeups.news(job.id, job.last_seq, false),
                // A failing read wakes the caller: it will meet the error itself.
                _ => return,
            }
        }
        let news = self.listener.beyond(after);
        match self.patience {
            None => news.await,
            // Waking without a reason is allowed.
            Some(patience) => drop(tokio::time::timeout(patience, news).await),
        }
    }
}
