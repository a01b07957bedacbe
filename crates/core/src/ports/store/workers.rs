//! The store of the reports of workers.

use async_trait::async_trait;

use super::StoreError;
use crate::ids::WorkerId;
use crate::time::Timestamp;
use crate::worker::WorkerReport;

/// Stores the last report of each worker ([`crate::worker`]).
#[async_trait]
pub trait WorkerStore: Send + Sync {
    /// Stores a report in place of the worker's previous one, and removes reports that are older than `forget_before`.
    async fn report_worker(&self, report: WorkerReport, forget_before: Timestamp) -> Result<(), StoreError>;

    /// Removes the report of a worker that stops.
    async fn forget_worker(&self, id: WorkerId) -> Result<(), StoreError>;

    /// Returns the reports, sorted by the ID of the worker.
    async fn workers(&self) -> Result<Vec<WorkerReport>, StoreError>;
}
