//! Whether a configured master key decrypts each stored secret. A key that is missing on one machine stops only what needs
//! its secrets, so it is no condition for requests.

use std::time::Duration;

use journeyman_core::ports::{SealedCensus, SealedKind, Store, StoreError};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// The time for which a result is reused: a check decrypts all secrets.
const INTERVAL: Duration = Duration::from_secs(60);

/// The time after which the store counts as not answering.
const LIMIT: Duration = Duration::from_secs(5);

/// The last check. Requests that arrive during a check wait for it.
#[derive(Debug, Default)]
pub(crate) struct Secrets(Mutex<Option<(Instant, SecretsState)>>);

/// The number of secrets that no configured key decrypts; `None` if the last check failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SecretsState(Option<u64>);

impl Secrets {
    /// Returns the result of the last check, or makes another one if it is old.
    pub(crate) async fn state(&self, store: &dyn Store) -> SecretsState {
        let mut last = self.0.lock().await;
        if let Some((begun, known)) = &*last
            && begun.elapsed() < INTERVAL
        {
            return *known;
        }
        let begun = Instant::now();
        let slow = |_| StoreError::Unavailable("the database did not answer a check of secrets in time".to_owned());
        let checked = timeout(LIMIT, store.sealed(SealedKind::LASTING.to_vec())).await;
        let state = match checked.map_err(slow).flatten() {
            Ok(census) => {
                report(&census);
                SecretsState(Some(census.unreadable()))
            }
            Err(error) => {
                tracing::warn!(%error, "the stored secrets could not be checked");
                SecretsState(None)
            }
        };
        *last = Some((begun, state));
        state
    }
}

impl SecretsState {
    /// Returns whether there are secrets that no configured key decrypts.
    pub(crate) fn fails(self) -> bool {
        self.0.is_some_and(|count| count > 0)
    }

    /// Returns the field of a health check. The log names the rows.
    pub(crate) fn field(self) -> Value {
        let text = "no configured master key decrypts some of the stored secrets: the work that needs them fails. See the \
                    log, journeyman doctor or journeyman key-encryption status";
        json!({
            "ok": self.0.map(|count| count == 0),
            "unreadable": self.0,
            "text": self.fails().then_some(text),
        })
    }
}

/// Logs the rows whose values no configured key decrypts.
fn report(census: &SealedCensus) {
    for row in &census.unreadable {
        tracing::error!(%row, "no configured master key decrypts a stored secret");
    }
}
