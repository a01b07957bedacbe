//! The stores of API keys and of the audit log.

use std::collections::BTreeSet;

use crate::audit::{AuditEntry, AuditFilter, AuditLine};

use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::{KeyId, UserId};
use crate::key::{ApiKey, KeyHash, KeyOrigin};
use crate::time::Timestamp;

/// Stores API keys and the audit log.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Finds a key by the hash of its secret, or of the secret before its last rotation, which may have ended.
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError>;

    /// Returns all keys, including revoked ones, newest first.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Returns the keys of this origin after the key `after`, newest first, at most `limit`. If there is no such key,
    /// there are none after it.
    async fn keys_after(
        &self,
        origin: KeyOrigin,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, StoreError>;

    /// Returns the names of the keys of a user, including revoked ones, but without those that trusts have created.
    async fn names_of_keys(&self, owner: UserId) -> Result<BTreeSet<String>, StoreError>;

    /// Finds a key.
    async fn key(&self, id: KeyId) -> Result<Option<ApiKey>, StoreError>;

    /// Records the time of a use of a key.
    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError>;

    /// Writes an entry of the audit log that belongs to no other change.
    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// Returns the selected entries of the audit log, newest first.
    async fn find_audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, StoreError>;

    /// Returns at most `limit` entries of the audit log, newest first. If `before` is given, returns only entries with
    /// a lower number.
    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.find_audit(AuditFilter { before, ..AuditFilter::newest(limit) }).await
    }
}
