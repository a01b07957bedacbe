//! The store of the reports of workers.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::WorkerId;
use crate::worker::WorkerReport;

/// Stores the last report of each worker ([`crate::worker`]).
#[async_trait]
pub trait WorkerStore: Send + Sync {
    /// Stores a report in place of the worker's previous one, and removes reports that were stored more than
    /// `forget_after` ago. The clock of the database decides, not those of the workers, so that a machine with a wrong
    /// clock neither removes the reports of others nor loses its own.
    async fn report_worker(&self, report: WorkerReport, forget_after: Duration) -> Result<(), StoreError>;

    /// Removes the report of a worker that stops.
    async fn forget_worker(&self, id: WorkerId) -> Result<(), StoreError>;

    /// Returns the reports, sorted by the ID of the worker.
    async fn workers(&self) -> Result<Vec<WorkerReport>, StoreError>;
}
