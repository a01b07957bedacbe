//! Projects and their encrypted secrets.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ProjectStore, StoreError};
use journeyman_core::project::{Project, RepositoryIdentity};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;

use super::{Database, SqlStore, Statement, decoded, sql};
use crate::rows::{self, to_json};
use crate::{retired, vault};

/// Creates the statement that selects projects with the names of their secrets.
macro_rules! projects {
    (sqlite: $sqlite:literal, postgres: $postgres:literal $(; $($value:expr),* $(,)?)?) => {
        sql!(
            sqlite: concat!(
                "SELECT *, (
                     SELECT json_group_array(name)
                     FROM (SELECT name FROM project_secrets WHERE project = projects.id ORDER BY name)
                 ) AS secret_names
                 FROM projects ",
                $sqlite
            ),
            postgres: concat!(
                "SELECT *, (
                     SELECT coalesce(json_agg(name ORDER BY name), '[]')::text
                     FROM project_secrets WHERE project = projects.id
                 ) AS secret_names
                 FROM projects ",
                $postgres
            )
            $(; $($value),*)?
        )
    };
}

#[async_trait]
impl<B: Database> ProjectStore for SqlStore<B> {
    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.find(by_id(&id), rows::project).await
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.all(projects!(sqlite: "ORDER BY id", postgres: "ORDER BY id"), rows::project).await
    }

    async fn projects_after(&self, after: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let query = projects!(
            sqlite: "WHERE id > ?1 ORDER BY id LIMIT ?2",
            postgres: "WHERE id > $1 ORDER BY id LIMIT $2";
            // No ID sorts before the empty text.
            after.as_ref().map_or("", ProjectId::as_str),
            limit,
        );
        self.all(query, rows::project).await
    }

    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        let query = sql!("SELECT name, value FROM project_secrets WHERE project = $1", id.as_str());
        vault::open_all(&self.master_keys, &id, self.all(query, rows::secret).await?)
    }

    async fn retired_secrets(&self, id: ProjectId, since: Timestamp) -> Result<Vec<(String, SecretValue)>, StoreError> {
        let query = sql!(
            "SELECT key AS name, value FROM retired_secrets WHERE project = $1 AND at >= $2",
            id.as_str(),
            retired::earliest(since),
        );
        Ok(retired::open_all(&self.master_keys, &id, decoded(&self.look_up(query).await?, rows::secret)?))
    }

    async fn identify_repository(&self, id: ProjectId, seen: RepositoryIdentity) -> Result<(), StoreError> {
        let identify = sql!(
            "UPDATE projects SET identity = $3
             WHERE id = $1 AND repository = $2 AND identity::json ->> 'address' IS DISTINCT FROM repository",
            id.as_str(),
            &seen.address,
            to_json(&seen)?,
        );
        self.run(vec![identify]).await?;
        Ok(())
    }
}

/// Returns the statement that selects a project.
pub(crate) fn by_id(id: &ProjectId) -> Statement {
    projects!(sqlite: "WHERE id = ?1", postgres: "WHERE id = $1"; id.as_str())
}

/// Returns the statement that locks a project for changes. New jobs lock the row with `FOR KEY SHARE`, which this permits.
pub(crate) fn lock(id: &ProjectId) -> Statement {
    sql!("SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE", id.as_str())
}

/// Returns the statement that stores a project.
pub(crate) fn put(project: &Project) -> Result<Statement, StoreError> {
    Ok(sql!(
        "INSERT INTO projects (id, repository, ref, agent, model, created_at, settings, concurrent_runs, version,
                               identity)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (id) DO UPDATE
         SET repository = $2, ref = $3, agent = $4, model = $5, settings = $7, concurrent_runs = $8, version = $9,
             identity = $10",
        project.id.as_str(),
        &project.repository,
        project.reference.as_ref(),
        &project.agent,
        &project.model,
        project.created_at,
        to_json(&project.settings)?,
        project.settings.limits.concurrent_runs,
        project.version,
        project.identity.as_ref().map(to_json).transpose()?,
    ))
}

/// Returns the statement that stores an encrypted secret of a project, or removes it.
pub(crate) fn put_secret(project: &ProjectId, name: &str, value: Option<Vec<u8>>) -> Statement {
    match value {
        Some(value) => sql!(
            "INSERT INTO project_secrets (project, name, value) VALUES ($1, $2, $3)
             ON CONFLICT (project, name) DO UPDATE SET value = excluded.value",
            project.as_str(),
            name,
            value,
        ),
        None => sql!("DELETE FROM project_secrets WHERE project = $1 AND name = $2", project.as_str(), name),
    }
}
