//! Projects on hold.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{HoldStore, PROBE_TIME, StoreError};
use journeyman_core::project::hold::{Hold, HoldFailure};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use super::write::Session;
use crate::rows::{self, to_json};

const HOLD: &str = "SELECT * FROM project_holds WHERE project = ?1";

#[async_trait]
impl HoldStore for SqliteStore {
    async fn hold_project(&self, id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError> {
        self.writer
            .write(move |db| {
                if !db.prepare_cached("SELECT 1 FROM projects WHERE id = ?1")?.exists([id.as_str()])? {
                    return Ok::<_, OpError<StoreError>>(None);
                }
                let hold = Hold::after(hold_of(db, &id)?.as_ref(), &failure);
                put(db, &id, &hold)?;
                Ok(Some(hold))
            })
            .await
    }

    async fn release_project(&self, id: ProjectId) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                db.changed_related();
                db.prepare_cached("DELETE FROM project_holds WHERE project = ?1")?.execute([id.as_str()])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await?;
        self.wakeups.work();
        Ok(())
    }

    async fn probe_project(&self, id: ProjectId, now: Timestamp) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                if let Some(hold) = hold_of(db, &id)? {
                    put(db, &id, &Hold { next_probe_at: hold.next_probe_at.min(now), ..hold })?;
                }
                Ok::<_, OpError<StoreError>>(())
            })
            .await?;
        self.wakeups.work();
        Ok(())
    }

    async fn holds(&self) -> Result<BTreeMap<ProjectId, Hold>, StoreError> {
        let read = self.readers.read(|db| {
            let mut query = db.prepare_cached("SELECT * FROM project_holds")?;
            collect(&mut query.query([])?, |row| rows::hold(row))
        });
        Ok(read.await?.into_iter().collect())
    }
}

/// Postpones the next probe of the project of a claimed job, and returns the project's hold.
pub(super) fn begin_probe(db: &Session<'_>, project: &ProjectId, now: Timestamp) -> Result<Option<Hold>, ReadError> {
    let Some(hold) = hold_of(db, project)? else { return Ok(None) };
    let hold = Hold { next_probe_at: now + PROBE_TIME, ..hold };
    put(db, project, &hold)?;
    Ok(Some(hold))
}

fn hold_of(db: &Connection, project: &ProjectId) -> Result<Option<Hold>, ReadError> {
    let mut query = db.prepare_cached(HOLD)?;
    let mut rows = query.query([project.as_str()])?;
    Ok(rows.next()?.map(rows::hold).transpose()?.map(|(_, hold)| hold))
}

fn put(db: &Session<'_>, project: &ProjectId, hold: &Hold) -> Result<(), ReadError> {
    db.changed_related();
    db.prepare_cached("INSERT OR REPLACE INTO project_holds (project, next_probe_at, hold) VALUES (?1, ?2, ?3)")?
        .execute(params![project.as_str(), hold.next_probe_at.as_micros(), to_json(hold)?])?;
    Ok(())
}
