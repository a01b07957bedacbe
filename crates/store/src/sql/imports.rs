//! Imports into the repositories of projects.

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::ProjectId;
use journeyman_core::import::Import;
use journeyman_core::ports::{ImportStore, StoreError};

use super::{Database, DbError, SqlStore, Statement, Tx, audit, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl<B: Database> ImportStore for SqlStore<B> {
    async fn import_of(&self, project: ProjectId) -> Result<Option<Import>, StoreError> {
        self.find(sql!("SELECT * FROM imports WHERE project = $1", project.as_str()), rows::import).await
    }

    async fn put_import(&self, import: Import, audit: Option<AuditEntry>) -> Result<bool, StoreError> {
        let (project, state, version) = (import.project.as_str(), to_json(&import.state)?, import.version);
        let put = if version == 1 {
            sql!(
                "INSERT INTO imports (project, state, version)
                 SELECT id, $2::text, $3::bigint FROM projects WHERE id = $1
                 ON CONFLICT (project) DO NOTHING RETURNING 1",
                project,
                state,
                version,
            )
        } else {
            sql!(
                "UPDATE imports SET state = $2, version = $3 WHERE project = $1 AND version + 1 = $3 RETURNING 1",
                project,
                state,
                version,
            )
        };
        self.transact(move |tx| Box::pin(change(tx, put.clone(), audit.clone()))).await
    }
}

/// Writes the next version of a row with its audit entry. Returns false, and writes nothing, if it is not the next one.
async fn change(tx: &mut (dyn Tx + '_), put: Statement, entry: Option<AuditEntry>) -> Result<bool, DbError> {
    if !tx.exists(put).await? {
        return Ok(false);
    }
    if let Some(entry) = entry {
        tx.execute(audit::note(&entry)).await?;
    }
    Ok(true)
}
