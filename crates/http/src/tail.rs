//! Follows a job's log, for the event streams of the interface and for the dashboard.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::JobId;
use journeyman_core::job::event::LogEntry;
use journeyman_dashboard::{LogTail, LogTails, Tail};
use tokio::time::Instant;

use crate::app::App;

/// The maximum number of entries per read from the store.
const BATCH: usize = 200;

/// The number of entries of the first read, whose size is not known.
const FIRST_BATCH: usize = 20;

/// The size in bytes of the entries that a read should return: they are in memory until the client has taken them.
const BATCH_BYTES: usize = 256 << 10;

/// The pause before the next read after a wake-up without new entries.
const PAUSE: Duration = Duration::from_millis(50);

/// The time between two [`Tail::Quiet`].
const QUIET: Duration = Duration::from_secs(15);

/// Opens logs for the dashboard.
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

/// Reads the entries of a job's log after a given one.
pub(crate) struct Reader {
    app: App,
    job: JobId,
    after: u64,
    /// The number of entries of the next read.
    batch: usize,
    /// The time of the last [`Tail::Quiet`].
    quiet_at: Instant,
}

impl Reader {
    pub(crate) fn new(app: App, job: JobId, after: u64) -> Self {
        app.metrics.stream_opened();
        Self { app, job, after, batch: FIRST_BATCH, quiet_at: Instant::now() }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.app.metrics.stream_closed();
    }
}

/// Returns the number of entries to read next, if they are as large as these.
fn next_batch(entries: &[LogEntry]) -> usize {
    let bytes: usize = entries.iter().map(|entry| entry.data.to_string().len()).sum();
    (BATCH_BYTES * entries.len() / bytes.max(1)).clamp(1, BATCH)
}

#[async_trait]
impl LogTail for Reader {
    async fn next(&mut self) -> Tail {
        let mut woken = false;
        let quiet = tokio::time::sleep_until(self.quiet_at + QUIET);
        tokio::pin!(quiet);
        loop {
            // Even if there are entries all the time, the caller regularly checks whether it may still read.
            if self.quiet_at.elapsed() >= QUIET {
                self.quiet_at = Instant::now();
                return Tail::Quiet;
            }
            let store = &self.app.services.store;
            match store.log(self.job, self.after, self.batch).await {
                Ok(entries) if !entries.is_empty() => {
                    self.after = entries.last().map_or(self.after, |entry| entry.seq);
                    self.batch = next_batch(&entries);
                    return Tail::News(entries);
                }
                // The wake-up brought no entries: the store polls, or the job was deleted and no other wake-up follows.
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
                        () = &mut quiet => {}
                        () = self.app.shutdown.cancelled() => return Tail::Over,
                    }
                }
                // The client reconnects with the number of the last entry that it received.
                Err(error) => {
                    tracing::warn!(%error, job = %self.job, "the log of a job could not be read; its stream ends");
                    return Tail::Over;
                }
            }
        }
    }
}
