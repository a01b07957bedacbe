//! Projects and their sealed secrets.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ProjectStore, ProjectWriteError, StoreError};
use journeyman_core::project::{Project, SecretChanges, SecretValue};
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::rows::collect;
use super::write::OpError;
use crate::rows::{self, to_json};
use crate::vault::{self, Sealed};

type Op<T> = Result<T, OpError<ProjectWriteError>>;

#[async_trait]
impl ProjectStore for SqliteStore {
    async fn create_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        let sealed = vault::seal_all(&self.master_key, &*self.ids, &project.id, secrets)?;
        self.writer
            .write(move |db| {
                if exists(db, &project.id)? {
                    return Err(OpError::Refused(ProjectWriteError::Exists));
                }
                put(db, &project, &sealed)
            })
            .await
    }

    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        let sealed = vault::seal_all(&self.master_key, &*self.ids, &project.id, secrets)?;
        self.writer
            .write(move |db| {
                if !exists(db, &project.id)? {
                    return Err(OpError::Refused(ProjectWriteError::NotFound));
                }
                put(db, &project, &sealed)
            })
            .await
    }

    async fn delete_project(&self, id: ProjectId) -> Result<(), ProjectWriteError> {
        self.writer
            .write(move |db| {
                if !exists(db, &id)? {
                    return Err(OpError::Refused(ProjectWriteError::NotFound));
                }
                let busy = "SELECT 1 FROM jobs WHERE project = ?1 AND due_at IS NOT NULL LIMIT 1";
                if db.prepare_cached(busy)?.exists([id.as_str()])? {
                    return Err(OpError::Refused(ProjectWriteError::Busy));
                }
                for delete in [
                    "DELETE FROM log WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
                    "DELETE FROM runs WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
                    "DELETE FROM messages WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
                    "DELETE FROM jobs WHERE project = ?1",
                    "DELETE FROM idempotency_keys WHERE project = ?1",
                    "DELETE FROM rate_windows WHERE project = ?1",
                    "DELETE FROM spending WHERE project = ?1",
                    "DELETE FROM projects WHERE id = ?1",
                ] {
                    db.prepare_cached(delete)?.execute([id.as_str()])?;
                }
                db.removed_jobs();
                Ok(())
            })
            .await
    }

    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached(PROJECT)?;
            let mut rows = query.query([id.as_str()])?;
            rows.next()?.map(rows::project).transpose()
        })
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached(PROJECTS)?;
                let mut rows = query.query([])?;
                collect(&mut rows, |row| rows::project(row))
            })
            .await
    }

    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        let project = id.clone();
        let sealed = self.readers.read(move |db| {
            let mut query = db.prepare_cached("SELECT name, value FROM project_secrets WHERE project = ?1")?;
            let rows = query.query_map([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<Vec<(String, Vec<u8>)>, _>>()?)
        });
        vault::open_all(&self.master_key, &project, sealed.await?)
    }
}

/// Projects with the names of their secrets.
macro_rules! projects {
    ($which:literal) => {
        concat!(
            "SELECT *, (
                SELECT json_group_array(name)
                FROM (SELECT name FROM project_secrets WHERE project = projects.id ORDER BY name)
             ) AS secret_names
             FROM projects ",
            $which
        )
    };
}

const PROJECT: &str = projects!("WHERE id = ?1");
const PROJECTS: &str = projects!("ORDER BY id");

fn exists(db: &Connection, id: &ProjectId) -> Op<bool> {
    let found =
        db.prepare_cached("SELECT 1 FROM projects WHERE id = ?1")?.query_row([id.as_str()], |_| Ok(())).optional()?;
    Ok(found.is_some())
}

fn put(db: &Connection, project: &Project, secrets: &Sealed) -> Op<Project> {
    // An upsert and not REPLACE: that would delete the row first, and its secrets with it.
    db.prepare_cached(
        "INSERT INTO projects (id, repository, ref, agent, model, created_at, settings, concurrent_runs)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (id) DO UPDATE
         SET repository = ?2, ref = ?3, agent = ?4, model = ?5, settings = ?7, concurrent_runs = ?8",
    )?
    .execute(params![
        project.id.as_str(),
        project.repository,
        project.reference,
        project.agent,
        project.model,
        project.created_at.as_micros(),
        to_json(&project.settings)?,
        project.settings.limits.concurrent_runs
    ])?;
    for (name, value) in secrets {
        match value {
            Some(value) => db
                .prepare_cached("INSERT OR REPLACE INTO project_secrets (project, name, value) VALUES (?1, ?2, ?3)")?
                .execute(params![project.id.as_str(), name, value])?,
            None => db
                .prepare_cached("DELETE FROM project_secrets WHERE project = ?1 AND name = ?2")?
                .execute([project.id.as_str(), name])?,
        };
    }
    let stored = db.prepare_cached(PROJECT)?.query_row([project.id.as_str()], |row| Ok(rows::project(row)))?;
    Ok(stored?)
}
