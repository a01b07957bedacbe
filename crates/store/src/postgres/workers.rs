//! The reports of workers.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{StoreError, WorkerStore};
use journeyman_core::worker::WorkerReport;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::call;
use crate::rows::{self, to_json};

/// Stores a report with the current time. Each worker writes only its own row.
const REPORT: &str = "
    INSERT INTO workers (id, seen_at, state, stored_at)
    VALUES ($1, $2, $3, (extract(epoch FROM now()) * 1000000)::bigint)
    ON CONFLICT (id) DO UPDATE SET seen_at = $2, state = $3, stored_at = excluded.stored_at";

/// Removes old reports. Rows that another worker removes at the same time are left to it.
const FORGET: &str = "
    DELETE FROM workers WHERE id IN (
        SELECT id FROM workers
        WHERE id <> $1 AND coalesce(stored_at, seen_at) < (extract(epoch FROM now()) * 1000000)::bigint - $2
        ORDER BY id FOR UPDATE SKIP LOCKED
    )";

#[async_trait]
impl WorkerStore for PostgresStore {
    async fn report_worker(&self, report: WorkerReport, forget_after: Duration) -> Result<(), StoreError> {
        let put = call!(REPORT, report.id.to_string(), report.seen_at.as_micros(), to_json(&report.state)?);
        let forgotten = i64::try_from(forget_after.as_micros()).unwrap_or(i64::MAX);
        self.write(vec![put, call!(FORGET, report.id.to_string(), forgotten)]).await?;
        Ok(())
    }

    async fn forget_worker(&self, id: WorkerId) -> Result<(), StoreError> {
        self.write(vec![call!("DELETE FROM workers WHERE id = $1", id.to_string())]).await?;
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerReport>, StoreError> {
        let found = self.read(call!("SELECT * FROM workers ORDER BY id")).await?;
        Ok(found.iter().map(rows::worker).collect::<Result<_, PgError>>()?)
    }
}
