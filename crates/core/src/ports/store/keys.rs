//! The stores of API keys and of the audit log.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::StoreError;
use crate::ids::{KeyId, UserId};
use crate::key::{ApiKey, KeyHash, KeyOrigin};
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

/// A selection of the audit log, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only entries of these actors; `None` means all.
    pub actors: Option<Vec<String>>,
    /// Only entries whose action begins with this text, such as `key.`.
    pub action: Option<String>,
    /// Only entries about one of these objects: the subject is equal, or begins with it and one of ` `, `#` and `/`.
    /// `None` means all objects.
    pub about: Option<Vec<String>>,
    /// Only entries at this time or later.
    pub from: Option<Timestamp>,
    /// Only entries before this time.
    pub until: Option<Timestamp>,
    /// Only entries with a lower number.
    pub before: Option<u64>,
    /// The maximum number of entries.
    pub limit: usize,
}

impl AuditFilter {
    /// Returns a filter for the newest entries.
    #[must_use]
    pub fn newest(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns whether the filter selects a line, apart from the maximum number.
    #[must_use]
    pub fn selects(&self, line: &AuditLine) -> bool {
        let AuditEntry { at, actor, action, subject, .. } = &line.entry;
        let is_about = |object: &String| {
            let rest = subject.strip_prefix(object.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '#', '/']))
        };
        self.actors.as_ref().is_none_or(|actors| actors.contains(actor))
            && self.action.as_ref().is_none_or(|start| action.starts_with(start.as_str()))
            && self.about.as_ref().is_none_or(|objects| objects.iter().any(is_about))
            && self.from.is_none_or(|from| *at >= from)
            && self.until.is_none_or(|until| *at < until)
            && self.before.is_none_or(|before| line.number < before)
    }
}

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
