//! The reports of workers.

use async_trait::async_trait;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{StoreError, WorkerStore};
use journeyman_core::time::Timestamp;
use journeyman_core::worker::WorkerReport;

use super::MemoryStore;

#[async_trait]
impl WorkerStore for MemoryStore {
    async fn report_worker(&self, report: WorkerReport, forget_before: Timestamp) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.workers.insert(report.id, report);
        tables.workers.retain(|_, report| report.seen_at >= forget_before);
        Ok(())
    }

    async fn forget_worker(&self, id: WorkerId) -> Result<(), StoreError> {
        self.tables().workers.remove(&id);
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerReport>, StoreError> {
        Ok(self.tables().workers.values().cloned().collect())
    }
}
