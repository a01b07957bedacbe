//! The reports of workers.

use async_trait::async_trait;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{StoreError, WorkerStore};
use journeyman_core::time::Timestamp;
use journeyman_core::worker::WorkerReport;
use rusqlite::params;

use super::SqliteStore;
use super::error::OpError;
use super::rows::collect;
use crate::rows::{self, to_json};

#[async_trait]
impl WorkerStore for SqliteStore {
    async fn report_worker(&self, report: WorkerReport, forget_before: Timestamp) -> Result<(), StoreError> {
        let (id, state) = (report.id.to_string(), to_json(&report.state)?);
        let (seen_at, forgotten) = (report.seen_at.as_micros(), forget_before.as_micros());
        self.writer
            .write(move |db| {
                db.prepare_cached("INSERT OR REPLACE INTO workers (id, seen_at, state) VALUES (?1, ?2, ?3)")?
                    .execute(params![id, seen_at, state])?;
                db.prepare_cached("DELETE FROM workers WHERE seen_at < ?1")?.execute([forgotten])?;
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
