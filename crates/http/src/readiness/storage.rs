//! Whether the blob store can be written. It is no condition for requests: messages are accepted while it cannot, and
//! wait. All machines share it, so a load balancer must not take all of them out of service because of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journeyman_core::ports::{BlobError, Blobs};
use journeyman_core::time::{Clock, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// The time for which a result is reused. A write to a bucket has a price.
const INTERVAL: Duration = Duration::from_secs(15);

/// The time for which the result of a check that failed is reused.
const INTERVAL_OF_FAILURES: Duration = Duration::from_secs(5);

/// The time after which the blob store counts as not answering.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest time for which a health check waits for a check that it has begun. Then it shows the result before.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last check of the blob store, which goes on in the background: a bucket that hangs must not delay an answer to a
/// load balancer. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Storage(Arc<Check>);

#[derive(Debug)]
struct Check {
    is_running: AtomicBool,
    last: watch::Sender<Option<Checked>>,
}

impl Default for Check {
    fn default() -> Self {
        Self { is_running: AtomicBool::new(false), last: watch::Sender::new(None) }
    }
}

impl Storage {
    /// Returns the result of the last check, after beginning another one if it is old.
    pub(crate) async fn state(&self, blobs: &Arc<dyn Blobs>, clock: &Arc<dyn Clock>) -> StorageState {
        let known = *self.0.last.borrow();
        if known.is_some_and(Checked::is_recent) || self.0.is_running.swap(true, Ordering::SeqCst) {
            return StorageState(known);
        }
        let mut results = self.0.last.subscribe();
        let (storage, blobs, clock) = (self.clone(), Arc::clone(blobs), Arc::clone(clock));
        tokio::spawn(async move {
            let checked = check(&*blobs, &*clock).await;
            storage.0.last.send_replace(Some(checked));
            storage.0.is_running.store(false, Ordering::SeqCst);
        });
        // Without an answer in time, the result before is shown.
        let _ = timeout(PATIENCE, results.changed()).await;
        StorageState(*results.borrow())
    }
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checked {
    at: Timestamp,
    ended: Instant,
    works: bool,
}

impl Checked {
    fn is_recent(self) -> bool {
        self.ended.elapsed() < if self.works { INTERVAL } else { INTERVAL_OF_FAILURES }
    }
}

/// What a health check shows about the blob store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorageState(Option<Checked>);

impl StorageState {
    /// Returns whether the last check failed.
    pub(crate) fn fails(self) -> bool {
        self.0.is_some_and(|checked| !checked.works)
    }

    /// Returns the field of a health check. The log has the cause.
    pub(crate) fn field(self) -> Value {
        let text = "the blob store cannot be written: messages are accepted, and their work waits until it is stored. The \
                    log has the cause";
        json!({
            "ok": self.0.map(|checked| checked.works),
            "code": self.fails().then_some(CODE),
            "text": self.fails().then_some(text),
            "checkedAt": self.0.map(|checked| checked.at),
        })
    }
}

/// The code of the runs that wait meanwhile.
const CODE: &str = "storage_unavailable";

async fn check(blobs: &dyn Blobs, clock: &dyn Clock) -> Checked {
    let slow = |_| BlobError(format!("it did not answer within {} seconds", LIMIT.as_secs()));
    let result = timeout(LIMIT, blobs.check_writes()).await.map_err(slow).flatten();
    if let Err(error) = &result {
        tracing::warn!(%error, "the blob store cannot be written");
    }
    Checked { at: clock.now(), ended: Instant::now(), works: result.is_ok() }
}
