//! Projects and their sealed secrets.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ProjectStore, ProjectWriteError, StoreError};
use journeyman_core::project::{Project, SecretChanges, SecretValue};
use tokio_postgres::Row;

use super::PostgresStore;
use super::connect::PLAN_FOR_MANY;
use super::error::PgError;
use super::pipeline::{Call, call};
use super::session::Session;
use crate::rows::{self, to_json};
use crate::vault;

#[async_trait]
impl ProjectStore for PostgresStore {
    async fn create_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        let insert = call!(
            "INSERT INTO projects (id, repository, ref, agent, model, created_at, settings, concurrent_runs)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING RETURNING id",
            project.id.to_string(),
            project.repository.clone(),
            project.reference.clone(),
            project.agent.clone(),
            project.model.clone(),
            project.created_at.as_micros(),
            to_json(&project.settings)?,
            project.settings.limits.concurrent_runs.map(i64::from),
        );
        self.put(insert, project, secrets, ProjectWriteError::Exists).await
    }

    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        let update = call!(
            "UPDATE projects SET repository = $2, ref = $3, agent = $4, model = $5, settings = $6, concurrent_runs = $7
             WHERE id = $1 RETURNING id",
            project.id.to_string(),
            project.repository.clone(),
            project.reference.clone(),
            project.agent.clone(),
            project.model.clone(),
            to_json(&project.settings)?,
            project.settings.limits.concurrent_runs.map(i64::from),
        );
        self.put(update, project, secrets, ProjectWriteError::NotFound).await
    }

    async fn delete_project(&self, id: ProjectId) -> Result<(), ProjectWriteError> {
        let session = Session::open(&self.pool).await?;
        let text = || id.to_string();
        // The lock keeps new jobs out: to make one is to hold the project's row.
        let look = [
            call!("BEGIN"),
            call!("SELECT id FROM projects WHERE id = $1 FOR UPDATE", text()),
            call!("SELECT 1 FROM jobs WHERE project = $1 AND due_at IS NOT NULL LIMIT 1", text()),
        ];
        let found = session.run(&look).await?;
        let refused = match found.as_slice() {
            [_, project, _] if project.is_empty() => Some(ProjectWriteError::NotFound),
            [_, _, active] if !active.is_empty() => Some(ProjectWriteError::Busy),
            _ => None,
        };
        if let Some(refused) = refused {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Err(refused);
        }
        let delete = [
            // Many rows may go.
            call!("SET LOCAL statement_timeout = '10min'"),
            call!(PLAN_FOR_MANY[0]),
            call!(PLAN_FOR_MANY[1]),
            call!("DELETE FROM log WHERE job IN (SELECT id FROM jobs WHERE project = $1)", text()),
            call!("DELETE FROM runs WHERE job IN (SELECT id FROM jobs WHERE project = $1)", text()),
            call!("DELETE FROM messages WHERE job IN (SELECT id FROM jobs WHERE project = $1)", text()),
            call!("DELETE FROM jobs WHERE project = $1", text()),
            call!("DELETE FROM idempotency_keys WHERE project = $1", text()),
            call!("DELETE FROM rate_windows WHERE project = $1", text()),
            call!("DELETE FROM spending WHERE project = $1", text()),
            call!("DELETE FROM projects WHERE id = $1", text()),
            call!("COMMIT"),
        ];
        session.run_long(&delete).await.map_err(PgError::of_commit)?;
        session.release();
        Ok(())
    }

    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        let found = self.read_all(&[call!(PROJECT, id.to_string())]).await?;
        Ok(projects(&found)?.pop())
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        Ok(projects(&self.read_all(&[call!(PROJECTS)]).await?)?)
    }

    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        let text = "SELECT name, value FROM project_secrets WHERE project = $1";
        let found = self.read(call!(text, id.to_string())).await?;
        let sealed = found.iter().map(|row| Ok((row.try_get("name")?, row.try_get("value")?)));
        let sealed: Result<Vec<(String, Vec<u8>)>, tokio_postgres::Error> = sealed.collect();
        vault::open_all(&self.master_key, &id, sealed.map_err(PgError::from)?)
    }
}

impl PostgresStore {
    /// Writes the project's row by `put`, which answers with a row if it could, and its secrets.
    async fn put(
        &self,
        put: Call,
        project: Project,
        secrets: SecretChanges,
        refused: ProjectWriteError,
    ) -> Result<Project, ProjectWriteError> {
        let sealed = vault::seal_all(&self.master_key, &*self.ids, &project.id, secrets)?;
        let session = Session::open(&self.pool).await?;
        let done = session.run(&[call!("BEGIN"), put]).await?;
        if done.last().is_none_or(Vec::is_empty) {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Err(refused);
        }
        let id = project.id.to_string();
        let mut calls: Vec<Call> = sealed.into_iter().map(|(name, value)| secret(&id, name, value)).collect();
        calls.extend([call!(PROJECT, id), call!("COMMIT")]);
        let mut answers = session.run(&calls).await.map_err(PgError::of_commit)?;
        session.release();
        // That of the commit.
        answers.pop();
        projects(&answers)?.pop().ok_or(ProjectWriteError::NotFound)
    }
}

fn secret(project: &str, name: String, value: Option<Vec<u8>>) -> Call {
    let project = project.to_owned();
    match value {
        Some(value) => call!(
            "INSERT INTO project_secrets (project, name, value) VALUES ($1, $2, $3)
             ON CONFLICT (project, name) DO UPDATE SET value = excluded.value",
            project,
            name,
            value
        ),
        None => call!("DELETE FROM project_secrets WHERE project = $1 AND name = $2", project, name),
    }
}

/// Projects with the names of their secrets.
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

const PROJECT: &str = projects!("WHERE id = $1");
const PROJECTS: &str = projects!("ORDER BY id");

/// The projects in the answer to the last statement.
fn projects(answers: &[Vec<Row>]) -> Result<Vec<Project>, PgError> {
    answers.last().into_iter().flatten().map(rows::project).collect()
}
