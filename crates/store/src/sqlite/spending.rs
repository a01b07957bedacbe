//! The cost of model calls.

use async_trait::async_trait;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::model::price::Budgets;
use journeyman_core::ports::{Spend, SpendError, SpendingStore, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::error::OpError;
use crate::spending::{Sum, check_budgets, sums};

#[async_trait]
impl SpendingStore for SqliteStore {
    async fn spend(&self, spend: Spend) -> Result<(), SpendError> {
        self.writer
            .write(move |db| {
                check_budgets(&spend, held(db, &spend)?).map_err(|over| OpError::Refused(SpendError::from(over)))?;
                // A call that ends after its project was deleted is not recorded.
                // SQLite would turn a sum that is too large for an integer into an inexact number.
                let text = "INSERT INTO spending (project, kind, subject, micros)
                     SELECT id, ?2, ?3, max(0, ?4) FROM projects WHERE id = ?1
                     ON CONFLICT DO UPDATE SET micros = CASE
                         WHEN ?4 > 9223372036854775807 - micros THEN 9223372036854775807
                         ELSE max(0, micros + ?4) END";
                for Sum { kind, subject, .. } in sums(&spend) {
                    db.prepare_cached(text)?.execute(params![spend.project.as_str(), kind, subject, spend.micros])?;
                }
                Ok::<_, OpError<SpendError>>(())
            })
            .await
    }

    async fn spent(&self, project: ProjectId, job: JobId, day: i64) -> Result<[u64; 3], StoreError> {
        let spend = Spend { project, job, day, micros: 0, budgets: Budgets::default() };
        let held = self.readers.find(|db| Ok(held(db, &spend)?))?;
        Ok(held.map(|held| u64::try_from(held).unwrap_or(0)))
    }
}

fn held(db: &Connection, spend: &Spend) -> rusqlite::Result<[i64; 3]> {
    let mut found = [0; 3];
    for (place, Sum { kind, subject, .. }) in found.iter_mut().zip(sums(spend)) {
        let text = "SELECT micros FROM spending WHERE project = ?1 AND kind = ?2 AND subject = ?3";
        let mut query = db.prepare_cached(text)?;
        let row = query.query_row(params![spend.project.as_str(), kind, subject], |row| row.get(0)).optional()?;
        *place = row.unwrap_or_default();
    }
    Ok(found)
}
