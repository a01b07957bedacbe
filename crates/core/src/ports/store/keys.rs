//! The stores of API keys and of the audit log.

use async_trait::async_trait;

use super::StoreError;
use crate::ids::KeyId;
use crate::key::{ApiKey, KeyHash};
use crate::time::Timestamp;

/// A line of the audit log: who did what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// The id of a key or user, or `cli`; the name that was tried, where somebody could not sign in.
    pub actor: String,
    /// Such as `key.created`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// The address that it came from, where it came by the network.
    pub address: Option<String>,
}

/// A line of the audit log that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Grows from line to line.
    pub number: u64,
    /// What it says.
    pub entry: AuditEntry,
}

/// API keys and the audit log of what is done to them.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// The key with that hash.
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError>;

    /// All keys, newest first.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Notes that a key was used.
    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError>;

    /// Writes a line of the audit log by itself.
    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// The newest lines of the audit log, of those before `before` if it is given, newest first.
    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, StoreError>;
}
