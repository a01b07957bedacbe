//! Projects and their encrypted secrets.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ProjectStore, StoreError};
use journeyman_core::project::{Project, RepositoryIdentity, SecretValue};
use journeyman_core::time::Timestamp;
use rusqlite::params;

use super::SqliteStore;
use super::error::OpError;
use super::rows::collect;
use crate::retired;
use crate::rows::{self, to_json};
use crate::vault;

#[async_trait]
impl ProjectStore for SqliteStore {
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

    async fn projects_after(&self, after: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(PROJECTS_AFTER)?;
                let mut rows = query.query(params![after.as_ref().map_or("", ProjectId::as_str), limit])?;
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
        vault::open_all(&self.master_keys, &project, sealed.await?)
    }

    async fn retired_secrets(&self, id: ProjectId, since: Timestamp) -> Result<Vec<(String, SecretValue)>, StoreError> {
        let project = id.clone();
        let sealed = self.readers.find(move |db| {
            let text = "SELECT key, value FROM retired_secrets WHERE project = ?1 AND at >= ?2";
            let mut query = db.prepare_cached(text)?;
            let rows = query
                .query_map(params![id.as_str(), retired::earliest(since)], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<Vec<(String, Vec<u8>)>, _>>()?)
        });
        Ok(retired::open_all(&self.master_keys, &project, sealed?))
    }

    async fn identify_repository(&self, id: ProjectId, seen: RepositoryIdentity) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                let text = "UPDATE projects SET identity = ?3
                            WHERE id = ?1 AND repository = ?2 AND identity ->> '$.address' IS NOT repository";
                db.prepare_cached(text)?.execute([id.as_str(), &seen.address, &to_json(&seen)?])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }
}

/// Selects projects with the names of their secrets.
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

pub(super) const PROJECT: &str = projects!("WHERE id = ?1");
const PROJECTS: &str = projects!("ORDER BY id");
/// No ID sorts before the empty text.
const PROJECTS_AFTER: &str = projects!("WHERE id > ?1 ORDER BY id LIMIT ?2");
