//! A job's log as it grows: for streams of the interface, and for the pages.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::JobId;
use journeyman_dashboard::{LogTail, LogTails, Tail};

use crate::app::App;

/// Lines read from the store at a time.
const BATCH: usize = 200;

/// Before looking again after a wake-up without news.
const PAUSE: Duration = Duration::from_millis(50);

/// After so long without a line it is told that there is none.
const QUIET: Duration = Duration::from_secs(15);

/// Opens logs for the pages.
pub(crate) struct Tails(pub(crate) App);

#[async_trait]
impl LogTails for Tails {
    fn tail(&self, job: JobId, after: u64) -> Box<dyn LogTail> {
        Box::new(Reader::new(self.0.clone(), job, after))
    }

    async fn stopped(&self) {
        self.0.shutdown.cancelled().await;
    }
}

/// Reads on from a line.
pub(crate) struct Reader {
    app: App,
    job: JobId,
    after: u64,
}

impl Reader {
    pub(crate) const fn new(app: App, job: JobId, after: u64) -> Self {
        Self { app, job, after }
    }
}

#[async_trait]
impl LogTail for Reader {
    async fn next(&mut self) -> Tail {
        let mut woken = false;
        let quiet = tokio::time::sleep(QUIET);
        tokio::pin!(quiet);
        loop {
            let store = &self.app.services.store;
            match store.log(self.job, self.after, BATCH).await {
                Ok(entries) if !entries.is_empty() => {
                    self.after = entries.last().map_or(self.after, |entry| entry.seq);
                    return Tail::News(entries);
                }
                // Woken without news: the store looks again now and then, or the job is gone and nobody will wake us.
                Ok(_) if std::mem::take(&mut woken) => {
                    if !store.job(self.job).await.is_ok_and(|job| job.is_some()) {
                        return Tail::Over;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(_) => {
                    let mut watch = store.watch(self.job);
                    tokio::select! {
                        () = watch.changed(self.after) => woken = true,
                        () = &mut quiet => return Tail::Quiet,
                        () = self.app.shutdown.cancelled() => return Tail::Over,
                    }
                }
                // The client comes back with the last number it saw.
                Err(error) => {
                    tracing::warn!(%error, "a stream of events ends");
                    return Tail::Over;
                }
            }
        }
    }
}
