//! Imports into the repositories of projects.

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::import::Import;
use journeyman_core::ports::{AuditEntry, ImportStore, StoreError};

use super::PostgresStore;
use super::pipeline::call;
use crate::rows::{self, to_json};

/// Inserts the first row of a project, and an audit entry if its time is not null.
const FIRST: &str = "
    WITH put AS (
        INSERT INTO imports (project, state, version)
        SELECT id, $2::text, $3::bigint FROM projects WHERE id = $1
        ON CONFLICT DO NOTHING RETURNING project
    ), noted AS (
        INSERT INTO audit (at, actor, action, subject, address)
        SELECT $4::bigint, $5::text, $6::text, $7::text, $8::text FROM put WHERE $4::bigint IS NOT NULL
    )
    SELECT project FROM put";

/// Replaces the row of a project by its next version, and inserts an audit entry if its time is not null.
const NEXT: &str = "
    WITH put AS (
        UPDATE imports SET state = $2, version = $3 WHERE project = $1 AND version + 1 = $3 RETURNING project
    ), noted AS (
        INSERT INTO audit (at, actor, action, subject, address)
        SELECT $4::bigint, $5::text, $6::text, $7::text, $8::text FROM put WHERE $4::bigint IS NOT NULL
    )
    SELECT project FROM put";

#[async_trait]
impl ImportStore for PostgresStore {
    async fn import_of(&self, project: ProjectId) -> Result<Option<Import>, StoreError> {
        let found = self.read(call!("SELECT * FROM imports WHERE project = $1", project.to_string())).await?;
        Ok(found.first().map(rows::import).transpose()?)
    }

    async fn put_import(&self, import: Import, audit: Option<AuditEntry>) -> Result<bool, StoreError> {
        let (at, actor, action, subject, address) = match audit {
            Some(AuditEntry { at, actor, action, subject, address }) => {
                (Some(at.as_micros()), Some(actor), Some(action), Some(subject), address)
            }
            None => (None, None, None, None, None),
        };
        let put = call!(
            if import.version == 1 { FIRST } else { NEXT },
            import.project.to_string(),
            to_json(&import.state)?,
            i64::try_from(import.version).unwrap_or(i64::MAX),
            at,
            actor,
            action,
            subject,
            address,
        );
        let answers = self.write(vec![put]).await?;
        Ok(answers.iter().any(|rows| !rows.is_empty()))
    }
}
