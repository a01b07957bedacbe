//! Idempotency keys: a request that is sent again gets the first answer and has no further effect.
//!
//! The key is stored in the same transaction as the change, so a key is never known while its request is still in
//! progress: a concurrent duplicate waits for that transaction and then gets its answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::ProjectId;
use crate::time::Timestamp;

/// The time for which a key is remembered.
pub const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The maximum length of a key, in characters.
pub const MAX_KEY_CHARS: usize = 255;

/// The idempotency key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The project whose jobs the request concerns; `None` for requests about projects and keys. Keys of different
    /// projects are independent.
    pub project: Option<ProjectId>,
    /// The ID of the API key or user that sent the request. Keys of different callers are independent.
    pub caller: String,
    /// The key that the client chose: 1 to [`MAX_KEY_CHARS`] visible ASCII characters.
    pub key: String,
    /// The fingerprint of the request, which distinguishes different requests with the same key.
    pub fingerprint: Fingerprint,
}

impl Claim {
    /// Returns the stored form of the project: its ID, or an empty text.
    #[must_use]
    pub fn scope(&self) -> &str {
        self.project.as_ref().map_or("", ProjectId::as_str)
    }

    /// Returns the stored form of the key: the caller, a line break, and the client's key, which cannot contain a line
    /// break.
    #[must_use]
    pub fn stored_key(&self) -> String {
        format!("{}\n{}", self.caller, self.key)
    }
}

/// A SHA-256 hash of the operation and the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of an operation (method and path) and the bytes of a body.
    #[must_use]
    pub fn of(operation: &str, body: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // The length distinguishes ("ab", "c") from ("a", "bc").
        hash.update((operation.len() as u64).to_le_bytes());
        hash.update(operation);
        hash.update(body);
        Self(hash.finalize().into())
    }
}

/// A completed request and its answer, as the store remembers them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered<A> {
    /// The fingerprint of the request.
    pub fingerprint: Fingerprint,
    /// The time at which the request was completed.
    pub at: Timestamp,
    /// The answer.
    pub answer: A,
}

/// An error for a key that was used with a different request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this Idempotency-Key was used with another request in the last 24 hours; use a new key for a new request")]
pub struct KeyReused;

/// Returns the stored answer if the same request was completed before; `None` if the key is new or has expired.
///
/// # Errors
/// Returns an error if the key was used with a different request.
pub fn check<A>(claim: &Claim, known: Option<Remembered<A>>, now: Timestamp) -> Result<Option<A>, KeyReused> {
    match known.filter(|known| now.since(known.at) < LIFETIME) {
        None => Ok(None),
        Some(known) if known.fingerprint == claim.fingerprint => Ok(Some(known.answer)),
        Some(_) => Err(KeyReused),
    }
}
