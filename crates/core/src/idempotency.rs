//! Idempotency keys: the same request, sent again, is answered as the first time and does nothing.
//!
//! The key is stored in the transaction that stores the message, so there is no moment at which a key is known and
//! its request is still under way: a duplicate that comes at the same time waits for that transaction and is replayed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::ProjectId;
use crate::job::JobRecord;
use crate::time::Timestamp;

/// How long a key is remembered.
pub const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The longest key, in characters.
pub const MAX_KEY_CHARS: usize = 255;

/// A request's claim to be done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Keys of one project do not meet those of another.
    pub project: ProjectId,
    /// The id of the API key or user that sent the request. Keys of different callers are independent.
    pub caller: String,
    /// What the client chose, 1 to [`MAX_KEY_CHARS`] visible ASCII characters.
    pub key: String,
    /// Tells requests apart that bear the same key.
    pub fingerprint: Fingerprint,
}

impl Claim {
    /// Returns the stored form of the key: the caller, a line break, and the client's key, which cannot contain a line
    /// break.
    #[must_use]
    pub fn stored_key(&self) -> String {
        format!("{}\n{}", self.caller, self.key)
    }
}

/// A hash over what a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Over the operation (method and path) and the body's bytes.
    #[must_use]
    pub fn of(operation: &str, body: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        hash.update((operation.len() as u64).to_le_bytes());
        hash.update(operation);
        hash.update(body);
        Self(hash.finalize().into())
    }
}

/// What is remembered of a request that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Of its body.
    pub fingerprint: Fingerprint,
    /// When it was done.
    pub at: Timestamp,
    /// The record that it was answered with.
    pub record: JobRecord,
}

/// The key was used for another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this Idempotency-Key was used with another request in the last 24 hours; use a new key for a new request")]
pub struct KeyReused;

/// Whether the request was done before: `Some` is the answer to give again.
///
/// # Errors
/// The key belongs to another request.
pub fn check(claim: &Claim, known: Option<Remembered>, now: Timestamp) -> Result<Option<JobRecord>, KeyReused> {
    match known.filter(|known| now.since(known.at) < LIFETIME) {
        None => Ok(None),
        Some(known) if known.fingerprint == claim.fingerprint => Ok(Some(known.record)),
        Some(_) => Err(KeyReused),
    }
}
