//! The stores of API keys and of the audit log.

use async_trait::async_trait;

use super::StoreError;
use crate::ids::KeyId;
use crate::key::{ApiKey, KeyHash};
use crate::time::Timestamp;

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time of the action.
    pub at: Timestamp,
    /// The ID of a key, user or trust, or `cli`; for a failed sign-in, the name that was entered.
    pub actor: String,
    /// The action, such as `key.created`.
    pub action: String,
    /// The object of the action, such as the ID of a key.
    pub subject: String,
    /// The IP address of the client, if the request came over the network.
    pub address: Option<String>,
}

/// A stored entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// The number, which increases from entry to entry.
    pub number: u64,
    /// The entry.
    pub entry: AuditEntry,
}

/// Stores API keys and the audit log.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Finds a key by the hash of its secret, or of the secret before its last rotation, which may have ended.
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError>;

    /// Returns all keys, including revoked ones, newest first.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Returns the keys after the key `after` in the list of all keys, newest first, at most `limit`. If there is no such
    /// key, there are none after it.
    async fn keys_after(&self, after: Option<KeyId>, limit: usize) -> Result<Vec<ApiKey>, StoreError>;

    /// Finds a key.
    async fn key(&self, id: KeyId) -> Result<Option<ApiKey>, StoreError>;

    /// Records the time of a use of a key.
    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError>;

    /// Writes an entry of the audit log that belongs to no other change.
    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// Returns at most `limit` entries of the audit log, newest first. If `before` is given, returns only entries with
    /// a lower number.
    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, StoreError>;
}
