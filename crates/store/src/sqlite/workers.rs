//! The reports of workers.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{StoreError, WorkerStore};
use journeyman_core::worker::WorkerReport;
use rusqlite::params;

use super::SqliteStore;
use super::error::OpError;
use super::rows::collect;
use crate::rows::{self, to_json};

/// Stores a report with the current time.
const REPORT: &str = "
    INSERT OR REPLACE INTO workers (id, seen_at, state, stored_at)
    VALUES (?1, ?2, ?3, CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER))";

/// Removes the old reports of other workers.
const FORGET: &str = "
    DELETE FROM workers
    WHERE id <> ?1 AND coalesce(stored_at, seen_at) < CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER) - ?2";

#[async_trait]
impl WorkerStore for SqliteStore {
    async fn report_worker(&self, report: WorkerReport, forget_after: Duration) -> Result<(), StoreError> {
        let (id, state) = (report.id.to_string(), to_json(&report.state)?);
        let seen_at = report.seen_at.as_micros();
        let forgotten = i64::try_from(forget_after.as_micros()).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                db.prepare_cached(REPORT)?.execute(params![id, seen_at, state])?;
                db.prepare_cached(FORGET)?.execute(params![id, forgotten])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn forget_worker(&self, id: WorkerId) -> Result<(), StoreError> {
        let id = id.to_string();
        self.writer
            .write(move |db| {
                db.prepare_cached("DELETE FROM workers WHERE id = ?1")?.execute([&id])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn workers(&self) -> Result<Vec<WorkerReport>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached("SELECT * FROM workers ORDER BY id")?;
                collect(&mut query.query([])?, |row| rows::worker(row))
            })
            .await
    }
}
