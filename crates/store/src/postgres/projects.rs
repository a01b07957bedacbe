//! Projects and their encrypted secrets.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ProjectStore, StoreError};
use journeyman_core::project::{Project, RepositoryIdentity, SecretValue};
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::call;
use crate::retired;
use crate::rows::{self, to_json};
use crate::vault;

#[async_trait]
impl ProjectStore for PostgresStore {
    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        let found = self.read_all(&[call!(PROJECT, id.to_string())]).await?;
        Ok(projects(&found)?.pop())
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        Ok(projects(&self.read_all(&[call!(PROJECTS)]).await?)?)
    }

    async fn projects_after(&self, after: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(projects(&self.read_all(&[call!(PROJECTS_AFTER, after, limit)]).await?)?)
    }

    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        let text = "SELECT name, value FROM project_secrets WHERE project = $1";
        let found = self.read(call!(text, id.to_string())).await?;
        let sealed = found.iter().map(|row| Ok((row.try_get("name")?, row.try_get("value")?)));
        let sealed: Result<Vec<(String, Vec<u8>)>, tokio_postgres::Error> = sealed.collect();
        vault::open_all(&self.master_keys, &id, sealed.map_err(PgError::from)?)
    }

    async fn retired_secrets(&self, id: ProjectId, since: Timestamp) -> Result<Vec<(String, SecretValue)>, StoreError> {
        let text = "SELECT key, value FROM retired_secrets WHERE project = $1 AND at >= $2";
        let found = self.read(call!(text, id.to_string(), retired::earliest(since))).await?;
        let sealed = found.iter().map(|row| Ok((row.try_get("key")?, row.try_get("value")?)));
        let sealed: Result<Vec<(String, Vec<u8>)>, tokio_postgres::Error> = sealed.collect();
        Ok(retired::open_all(&self.master_keys, &id, sealed.map_err(PgError::from)?))
    }

    async fn identify_repository(&self, id: ProjectId, seen: RepositoryIdentity) -> Result<(), StoreError> {
        let text = "UPDATE projects SET identity = $3
                    WHERE id = $1 AND repository = $2 AND identity::json ->> 'address' IS DISTINCT FROM repository";
        let identity = to_json(&seen)?;
        self.write(vec![call!(text, id.to_string(), seen.address, identity)]).await?;
        Ok(())
    }
}

/// Selects projects with the names of their secrets.
macro_rules! projects {
    ($which:literal) => {
        concat!(
            "SELECT *, (
                SELECT coalesce(json_agg(name ORDER BY name), '[]')::text
                FROM project_secrets WHERE project = projects.id
             ) AS secret_names
             FROM projects ",
            $which
        )
    };
}

pub(super) const PROJECT: &str = projects!("WHERE id = $1");
const PROJECTS: &str = projects!("ORDER BY id");
/// No ID sorts before the empty text.
const PROJECTS_AFTER: &str = projects!("WHERE id > $1 ORDER BY id LIMIT $2");

/// Reads the projects from the rows of the last statement.
fn projects(answers: &[Vec<Row>]) -> Result<Vec<Project>, PgError> {
    answers.last().into_iter().flatten().map(rows::project).collect()
}
