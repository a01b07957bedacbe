//! Imports into the repositories of projects.

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::import::Import;
use journeyman_core::ports::{AuditEntry, ImportStore, StoreError};
use rusqlite::{OptionalExtension, params};

use super::SqliteStore;
use super::error::OpError;
use super::keys;
use super::rows::collect;
use crate::rows::{self, to_json};

#[async_trait]
impl ImportStore for SqliteStore {
    async fn import_of(&self, project: ProjectId) -> Result<Option<Import>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM imports WHERE project = ?1")?;
            let found = collect(&mut query.query([project.as_str()])?, |row| rows::import(row))?;
            Ok(found.into_iter().next())
        })
    }

    async fn put_import(&self, import: Import, audit: Option<AuditEntry>) -> Result<bool, StoreError> {
        let state = to_json(&import.state)?;
        let (project, version) = (import.project, i64::try_from(import.version).unwrap_or(i64::MAX));
        self.writer
            .write(move |db| {
                let stored: Option<i64> = db
                    .prepare_cached("SELECT version FROM imports WHERE project = ?1")?
                    .query_row([project.as_str()], |row| row.get(0))
                    .optional()?;
                let exists = db.prepare_cached("SELECT 1 FROM projects WHERE id = ?1")?.exists([project.as_str()])?;
                if !exists || version != stored.unwrap_or(0) + 1 {
                    return Ok::<_, OpError<StoreError>>(false);
                }
                db.prepare_cached("INSERT OR REPLACE INTO imports (project, state, version) VALUES (?1, ?2, ?3)")?
                    .execute(params![project.as_str(), state, version])?;
                if let Some(entry) = &audit {
                    keys::audit(db, entry)?;
                }
                Ok(true)
            })
            .await
    }
}
