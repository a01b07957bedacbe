//! Projects on hold.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{HoldStore, PROBE_TIME, StoreError};
use journeyman_core::project::hold::{Hold, HoldFailure};
use journeyman_core::time::Timestamp;

use super::{MemoryStore, Tables};

#[async_trait]
impl HoldStore for MemoryStore {
    async fn hold_project(&self, id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError> {
        let mut tables = self.tables();
        if !tables.projects.contains_key(&id) {
            return Ok(None);
        }
        let hold = Hold::after(tables.holds.get(&id), &failure);
        tables.holds.insert(id, hold.clone());
        Ok(Some(hold))
    }

    async fn release_project(&self, id: ProjectId) -> Result<(), StoreError> {
        self.tables().holds.remove(&id);
        self.wakeups.work();
        Ok(())
    }

    async fn probe_project(&self, id: ProjectId, now: Timestamp) -> Result<(), StoreError> {
        if let Some(hold) = self.tables().holds.get_mut(&id) {
            hold.next_probe_at = hold.next_probe_at.min(now);
        }
        self.wakeups.work();
        Ok(())
    }

    async fn holds(&self) -> Result<BTreeMap<ProjectId, Hold>, StoreError> {
        Ok(self.tables().holds.clone())
    }
}

impl Tables {
    /// Postpones the next probe of the project of a claimed job, and returns the project's hold.
    pub(super) fn begin_probe(&mut self, project: &ProjectId, now: Timestamp) -> Option<Hold> {
        let hold = self.holds.get_mut(project)?;
        hold.next_probe_at = now + PROBE_TIME;
        Some(hold.clone())
    }
}
