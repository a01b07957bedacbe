//! Locks by name.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{LockStore, StoreError};
use journeyman_core::time::Timestamp;
use uuid::Uuid;

use super::MemoryStore;

#[async_trait]
impl LockStore for MemoryStore {
    async fn lock(&self, name: String, holder: Uuid, now: Timestamp, time: Duration) -> Result<bool, StoreError> {
        let until = now + time;
        let mut tables = self.tables();
        let locked = tables.locks.get(&name);
        if locked.is_some_and(|(other, end)| *other != holder && *end > now && *end <= until) {
            return Ok(false);
        }
        tables.locks.insert(name, (holder, until));
        Ok(true)
    }

    async fn unlock(&self, name: String, holder: Uuid) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.locks.get(&name).is_some_and(|(other, _)| *other == holder) {
            tables.locks.remove(&name);
        }
        Ok(())
    }
}
