//! The schedule of polls.

use async_trait::async_trait;
use journeyman_core::code_host::HostName;
use journeyman_core::ids::ProjectId;
use journeyman_core::poll::{LONGEST_DELAY, POLLED, Poll};
use journeyman_core::ports::{PollStore, StoreError};
use journeyman_core::pull::IndexedPull;
use journeyman_core::time::Timestamp;

use super::{Database, SqlStore, sql};
use crate::rows::{self, Columns as _};

#[async_trait]
impl<B: Database> PollStore for SqlStore<B> {
    async fn polls(&self) -> Result<Vec<Poll>, StoreError> {
        self.all(sql!("SELECT * FROM polls ORDER BY project"), rows::poll).await
    }

    async fn poll_of(&self, project: ProjectId) -> Result<Option<Poll>, StoreError> {
        self.find(sql!("SELECT * FROM polls WHERE project = $1", project.as_str()), rows::poll).await
    }

    async fn polled_hosts(&self) -> Result<Vec<HostName>, StoreError> {
        let query = sql!("SELECT DISTINCT host FROM polls ORDER BY host");
        self.all(query, |row| Ok(HostName(row.text("host")?.unwrap_or_default()))).await
    }

    async fn due_polls(&self, host: HostName, now: Timestamp, limit: usize) -> Result<Vec<Poll>, StoreError> {
        let query = sql!(
            "SELECT * FROM polls WHERE host = $1 AND (next_at <= $2 OR next_at > $3)
             ORDER BY next_at, project LIMIT $4",
            host.0,
            now,
            now + LONGEST_DELAY,
            limit,
        );
        self.all(query, rows::poll).await
    }

    async fn put_poll(&self, poll: Poll) -> Result<bool, StoreError> {
        let Poll { project, host, cursor, next_at, pulls, quiet, failures, problem, version } = poll;
        let (problem, failing_since) = problem.map(|problem| (problem.text, problem.since)).unzip();
        let mut put = sql!(
            "INSERT INTO polls (project, host, cursor, next_at, pulls, quiet, failures, version, problem, failing_since)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (project) DO NOTHING RETURNING 1",
            project.as_str(),
            host.0,
            cursor.map(|cursor| cursor.0),
            next_at,
            pulls,
            quiet,
            failures,
            version,
            problem,
            failing_since,
        );
        if version > 1 {
            put.text = sql!(
                "UPDATE polls
                 SET host = $2, cursor = $3, next_at = $4, pulls = $5, quiet = $6, failures = $7, version = $8,
                     problem = $9, failing_since = $10
                 WHERE project = $1 AND version + 1 = $8 RETURNING 1"
            )
            .text;
        }
        self.changes(put).await
    }

    async fn remove_poll(&self, project: ProjectId) -> Result<(), StoreError> {
        self.run(vec![sql!("DELETE FROM polls WHERE project = $1", project.as_str())]).await?;
        Ok(())
    }

    async fn indexed_pulls_in(&self, project: ProjectId) -> Result<Vec<IndexedPull>, StoreError> {
        let text = sql!("SELECT * FROM job_pulls WHERE project = $1 ORDER BY created_at, number", project.as_str());
        self.all(text, rows::indexed_pull).await
    }

    async fn open_pulls(&self) -> Result<Vec<(ProjectId, u32)>, StoreError> {
        let query = sql!(
            "SELECT project, count(*) AS pulls FROM job_pulls WHERE state = 'open' GROUP BY project ORDER BY project"
        );
        self.all(query, rows::project_pulls).await
    }

    async fn last_hook_at(&self, project: ProjectId) -> Result<Option<Timestamp>, StoreError> {
        let query = sql!(
            "SELECT received_at FROM inbox WHERE project = $1 AND event <> $2 ORDER BY number DESC LIMIT 1",
            project.as_str(),
            POLLED,
        );
        let at = self.find(query, |row| row.number("received_at")).await?.flatten();
        Ok(at.map(Timestamp::from_micros))
    }
}
