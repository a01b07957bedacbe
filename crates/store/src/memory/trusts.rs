//! Trusts.

use async_trait::async_trait;
use journeyman_core::ids::{KeyId, TrustId};
use journeyman_core::key::ApiKey;
use journeyman_core::ports::{StoreError, TrustStore};
use journeyman_core::trust::Trust;

use super::{MemoryStore, Tables};

#[async_trait]
impl TrustStore for MemoryStore {
    async fn trusts(&self) -> Result<Vec<Trust>, StoreError> {
        let mut all: Vec<Trust> = self.tables().trusts.values().cloned().collect();
        all.sort_by_key(|trust| (trust.created_at, trust.id));
        Ok(all)
    }

    async fn trust(&self, id: TrustId) -> Result<Option<Trust>, StoreError> {
        Ok(self.tables().trusts.get(&id).cloned())
    }
}

impl Tables {
    pub(super) fn put_trust(&mut self, trust: Trust) {
        let last_used_at = self.trusts.get(&trust.id).and_then(|known| known.last_used_at);
        self.trusts.insert(trust.id, Trust { last_used_at, ..trust });
    }

    /// Removes keys of trusts that expired at `end` or before, at most `limit`, and returns their number.
    pub(super) fn remove_expired_keys(&mut self, end: i64, limit: usize) -> usize {
        let is_old = |key: &&ApiKey| {
            let of_trust = key.creator.as_ref().is_some_and(|creator| creator.starts_with("trust_"));
            of_trust && key.expires_at.is_some_and(|at| at.as_micros() <= end)
        };
        let old: Vec<KeyId> = self.keys.values().filter(is_old).map(|key| key.id).take(limit).collect();
        self.keys.retain(|id, _| !old.contains(id));
        old.len()
    }
}
