//! The reports of workers.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{StoreError, WorkerStore};
use journeyman_core::worker::WorkerReport;

use super::MemoryStore;

#[async_trait]
impl WorkerStore for MemoryStore {
    async fn report_worker(&self, report: WorkerReport, forget_after: Duration) -> Result<(), StoreError> {
        let (mut tables, id, now) = (self.tables(), report.id, Instant::now());
        tables.workers.insert(id, (now, report));
        tables.workers.retain(|other, (stored_at, _)| *other == id || now.duration_since(*stored_at) <= forget_after);
        Ok(())
    }

    async fn forget_worker(&self, id: WorkerId) -> Result<(), StoreError> {
        self.tables().workers.remove(&id);
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerReport>, StoreError> {
        Ok(self.tables().workers.values().map(|(_, report)| report.clone()).collect())
    }
}
