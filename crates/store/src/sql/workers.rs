//! The reports of workers.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{StoreError, WorkerStore};
use journeyman_core::worker::WorkerReport;

use super::{Database, SqlStore, Statement, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl<B: Database> WorkerStore for SqlStore<B> {
    async fn report_worker(&self, report: WorkerReport, forget_after: Duration) -> Result<(), StoreError> {
        let forgotten = i64::try_from(forget_after.as_micros()).unwrap_or(i64::MAX);
        self.run(vec![put(&report)?, forget_others(report.id, forgotten)]).await?;
        Ok(())
    }

    async fn forget_worker(&self, id: WorkerId) -> Result<(), StoreError> {
        self.run(vec![sql!("DELETE FROM workers WHERE id = $1", id.to_string())]).await?;
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerReport>, StoreError> {
        self.all(sql!("SELECT * FROM workers ORDER BY id"), rows::worker).await
    }
}

/// Returns the statement that stores a report with the current time. Each worker writes only its own row.
fn put(report: &WorkerReport) -> Result<Statement, StoreError> {
    Ok(sql!(
        sqlite:
            "INSERT OR REPLACE INTO workers (id, seen_at, state, stored_at)
             VALUES (?1, ?2, ?3, CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER))",
        postgres:
            "INSERT INTO workers (id, seen_at, state, stored_at)
             VALUES ($1, $2, $3, (extract(epoch FROM now()) * 1000000)::bigint)
             ON CONFLICT (id) DO UPDATE SET seen_at = $2, state = $3, stored_at = excluded.stored_at";
        report.id.to_string(),
        report.seen_at,
        to_json(&report.state)?,
    ))
}

/// Returns the statement that removes old reports of other workers. Rows that another worker removes at the same time are
/// left to it.
fn forget_others(id: WorkerId, forgotten: i64) -> Statement {
    sql!(
        sqlite:
            "DELETE FROM workers
             WHERE id <> ?1
               AND coalesce(stored_at, seen_at) < CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER) - ?2",
        postgres:
            "DELETE FROM workers WHERE id IN (
                 SELECT id FROM workers
                 WHERE id <> $1 AND coalesce(stored_at, seen_at) < (extract(epoch FROM now()) * 1000000)::bigint - $2
                 ORDER BY id FOR UPDATE SKIP LOCKED
             )";
        id.to_string(),
        forgotten,
    )
}
