//! API keys and the audit log.

use std::collections::BTreeSet;

use async_trait::async_trait;
use journeyman_core::audit::{AuditEntry, AuditFilter, AuditLine};
use journeyman_core::ids::{KeyId, UserId};
use journeyman_core::key::{ApiKey, KeyHash, KeyOrigin};
use journeyman_core::ports::{KeyStore, StoreError};
use journeyman_core::time::Timestamp;

use super::MemoryStore;
use crate::lists;

#[async_trait]
impl KeyStore for MemoryStore {
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        let is_it = |key: &&ApiKey| key.hash == hash || key.old_secret.is_some_and(|old| old.hash == hash);
        Ok(self.tables().keys.values().find(is_it).cloned())
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let mut keys: Vec<ApiKey> = self.tables().keys.values().cloned().collect();
        keys.sort_by_key(|key| std::cmp::Reverse((key.created_at, key.id)));
        Ok(keys)
    }

    async fn keys_after(
        &self,
        origin: KeyOrigin,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let mut all = self.keys().await?;
        all.retain(|key| key.origin() == origin || Some(key.id) == after);
        let mut found = lists::after(all, after, |key| key.id, usize::MAX);
        found.retain(|key| key.origin() == origin);
        found.truncate(limit);
        Ok(found)
    }

    async fn names_of_keys(&self, owner: UserId) -> Result<BTreeSet<String>, StoreError> {
        let is_own = |key: &&ApiKey| {
            key.owner == Some(owner) && !key.creator.as_ref().is_some_and(|creator| creator.starts_with("trust_"))
        };
        Ok(self.tables().keys.values().filter(is_own).map(|key| key.name.clone()).collect())
    }

    async fn key(&self, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.tables().keys.get(&id).cloned())
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        if let Some(key) = self.tables().keys.get_mut(&id) {
            key.last_used_at = key.last_used_at.max(Some(at));
        }
        Ok(())
    }

    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.tables().note(entry);
        Ok(())
    }

    async fn find_audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, StoreError> {
        let tables = self.tables();
        let lines = tables.audit.iter().rev().filter(|line| filter.selects(line));
        Ok(lines.take(filter.limit).cloned().collect())
    }
}
