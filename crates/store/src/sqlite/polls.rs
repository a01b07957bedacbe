//! The schedule of polls.

use async_trait::async_trait;
use journeyman_core::code_host::HostName;
use journeyman_core::ids::ProjectId;
use journeyman_core::poll::{LONGEST_DELAY, POLLED, Poll};
use journeyman_core::ports::{PollStore, StoreError};
use journeyman_core::pull::IndexedPull;
use journeyman_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::SqliteStore;
use super::error::OpError;
use super::rows::collect;
use crate::rows;

#[async_trait]
impl PollStore for SqliteStore {
    async fn polls(&self) -> Result<Vec<Poll>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached("SELECT * FROM polls ORDER BY project")?;
                collect(&mut query.query([])?, |row| rows::poll(row))
            })
            .await
    }

    async fn poll_of(&self, project: ProjectId) -> Result<Option<Poll>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM polls WHERE project = ?1")?;
            let found = collect(&mut query.query([project.as_str()])?, |row| rows::poll(row))?;
            Ok(found.into_iter().next())
        })
    }

    async fn polled_hosts(&self) -> Result<Vec<HostName>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached("SELECT DISTINCT host FROM polls ORDER BY host")?;
                collect(&mut query.query([])?, |row| Ok(HostName(row.get(0)?)))
            })
            .await
    }

    async fn due_polls(&self, host: HostName, now: Timestamp, limit: usize) -> Result<Vec<Poll>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM polls WHERE host = ?1 AND (next_at <= ?2 OR next_at > ?3)
                            ORDER BY next_at, project LIMIT ?4";
                let mut query = db.prepare_cached(text)?;
                let (now, never) = (now.as_micros(), (now + LONGEST_DELAY).as_micros());
                collect(&mut query.query(params![host.0, now, never, limit])?, |row| rows::poll(row))
            })
            .await
    }

    async fn put_poll(&self, poll: Poll) -> Result<bool, StoreError> {
        self.writer
            .write(move |db| {
                let Poll { project, host, cursor, next_at, pulls, quiet, failures, problem, version } = &poll;
                let version = i64::try_from(*version).unwrap_or(i64::MAX);
                let stored: Option<i64> = db
                    .prepare_cached("SELECT version FROM polls WHERE project = ?1")?
                    .query_row([project.as_str()], |row| row.get(0))
                    .optional()?;
                if version != stored.unwrap_or(0) + 1 {
                    return Ok::<_, OpError<StoreError>>(false);
                }
                db.prepare_cached(
                    "INSERT OR REPLACE INTO polls (project, host, cursor, next_at, pulls, quiet, failures, version, problem,
                                                   failing_since)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )?
                .execute(params![
                    project.as_str(),
                    host.0,
                    cursor.as_ref().map(|cursor| cursor.0.as_str()),
                    next_at.as_micros(),
                    pulls,
                    quiet,
                    failures,
                    version,
                    problem.as_ref().map(|problem| problem.text.as_str()),
                    problem.as_ref().map(|problem| problem.since.as_micros()),
                ])?;
                Ok(true)
            })
            .await
    }

    async fn remove_poll(&self, project: ProjectId) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                db.prepare_cached("DELETE FROM polls WHERE project = ?1")?.execute([project.as_str()])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn indexed_pulls_in(&self, project: ProjectId) -> Result<Vec<IndexedPull>, StoreError> {
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM job_pulls WHERE project = ?1 ORDER BY created_at, number";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([project.as_str()])?, |row| rows::indexed_pull(row))
            })
            .await
    }

    async fn open_pulls(&self) -> Result<Vec<(ProjectId, u32)>, StoreError> {
        self.readers
            .read(|db| {
                let text = "SELECT project, count(*) AS pulls FROM job_pulls WHERE state = 'open'
                            GROUP BY project ORDER BY project";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([])?, |row| rows::project_pulls(row))
            })
            .await
    }

    async fn last_hook_at(&self, project: ProjectId) -> Result<Option<Timestamp>, StoreError> {
        self.readers.find(|db| {
            let text = "SELECT received_at FROM inbox WHERE project = ?1 AND event <> ?2 ORDER BY number DESC LIMIT 1";
            let found: Option<i64> =
                db.prepare_cached(text)?.query_row(params![project.as_str(), POLLED], |row| row.get(0)).optional()?;
            Ok(found.map(Timestamp::from_micros))
        })
    }
}
