//! Whether the store can be written.

use std::time::Duration;

use journeyman_core::ports::{Store, StoreError};
use journeyman_core::time::{Clock, Timestamp};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// The time for which the result of a write is reused.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// The time after which the store counts as not answering.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// The last check of writes. Requests that arrive during a check wait for it.
#[derive(Debug, Default)]
pub(crate) struct Writes(Mutex<Option<(Instant, Checked)>>);

/// The result of a write.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    pub(super) at: Timestamp,
    pub(super) result: Result<(), StoreError>,
}

impl Writes {
    /// Returns the result of the last check, or makes another one if it is old.
    pub(super) async fn check(&self, store: &dyn Store, clock: &dyn Clock) -> Checked {
        let mut last = self.0.lock().await;
        if let Some((begun, known)) = &*last
            && begun.elapsed() < INTERVAL
        {
            return known.clone();
        }
        let begun = Instant::now();
        let result = within(store.check_writes()).await;
        let checked = Checked { at: clock.now(), result };
        *last = Some((begun, checked.clone()));
        checked
    }
}

/// Returns the result of a check, or an error if it takes too long.
pub(super) async fn within(check: impl Future<Output = Result<(), StoreError>>) -> Result<(), StoreError> {
    let slow = |_| StoreError::Unavailable("the database did not answer a health check in time".to_owned());
    let result = timeout(LIMIT, check).await.map_err(slow).and_then(|result| result);
    if let Err(error) = &result {
        tracing::warn!(%error, "a health check failed");
    }
    result
}
