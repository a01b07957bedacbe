//! The schedule of polls.

use async_trait::async_trait;
use journeyman_core::code_host::HostName;
use journeyman_core::ids::ProjectId;
use journeyman_core::poll::{LONGEST_DELAY, POLLED, Poll};
use journeyman_core::ports::{PollStore, StoreError};
use journeyman_core::pull::IndexedPull;
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::call;
use crate::rows;

#[async_trait]
impl PollStore for PostgresStore {
    async fn polls(&self) -> Result<Vec<Poll>, StoreError> {
        let found = self.read(call!("SELECT * FROM polls ORDER BY project")).await?;
        Ok(found.iter().map(rows::poll).collect::<Result<_, PgError>>()?)
    }

    async fn poll_of(&self, project: ProjectId) -> Result<Option<Poll>, StoreError> {
        let found = self.read(call!("SELECT * FROM polls WHERE project = $1", project.to_string())).await?;
        Ok(found.first().map(rows::poll).transpose()?)
    }

    async fn polled_hosts(&self) -> Result<Vec<HostName>, StoreError> {
        let found = self.read(call!("SELECT DISTINCT host FROM polls ORDER BY host")).await?;
        let hosts = found.iter().map(|row| Ok(HostName(row.try_get("host")?)));
        Ok(hosts.collect::<Result<_, tokio_postgres::Error>>().map_err(PgError::from)?)
    }

    async fn due_polls(&self, host: HostName, now: Timestamp, limit: usize) -> Result<Vec<Poll>, StoreError> {
        let text = "SELECT * FROM polls WHERE host = $1 AND (next_at <= $2 OR next_at > $3)
                    ORDER BY next_at, project LIMIT $4";
        let (now, never) = (now.as_micros(), (now + LONGEST_DELAY).as_micros());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.read(call!(text, host.0, now, never, limit)).await?;
        Ok(found.iter().map(rows::poll).collect::<Result<_, PgError>>()?)
    }

    async fn put_poll(&self, poll: Poll) -> Result<bool, StoreError> {
        let Poll { project, host, cursor, next_at, pulls, quiet, failures, problem, version } = poll;
        let first = "INSERT INTO polls (project, host, cursor, next_at, pulls, quiet, failures, version, problem,
                                        failing_since)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING 1";
        let next = "UPDATE polls
                    SET host = $2, cursor = $3, next_at = $4, pulls = $5, quiet = $6, failures = $7, version = $8,
                        problem = $9, failing_since = $10
                    WHERE project = $1 AND version + 1 = $8 RETURNING 1";
        let answers = self
            .write(vec![call!(
                if version == 1 { first } else { next },
                project.to_string(),
                host.0,
                cursor.map(|cursor| cursor.0),
                next_at.as_micros(),
                i64::from(pulls),
                i64::from(quiet),
                i64::from(failures),
                i64::try_from(version).unwrap_or(i64::MAX),
                problem.as_ref().map(|problem| problem.text.clone()),
                problem.map(|problem| problem.since.as_micros()),
            )])
            .await?;
        Ok(answers.iter().any(|rows| !rows.is_empty()))
    }

    async fn remove_poll(&self, project: ProjectId) -> Result<(), StoreError> {
        self.write(vec![call!("DELETE FROM polls WHERE project = $1", project.to_string())]).await?;
        Ok(())
    }

    async fn indexed_pulls_in(&self, project: ProjectId) -> Result<Vec<IndexedPull>, StoreError> {
        let text = "SELECT * FROM job_pulls WHERE project = $1 ORDER BY created_at, number";
        let found = self.read(call!(text, project.to_string())).await?;
        Ok(found.iter().map(rows::indexed_pull).collect::<Result<_, PgError>>()?)
    }

    async fn open_pulls(&self) -> Result<Vec<(ProjectId, u32)>, StoreError> {
        let text = "SELECT project, count(*) AS pulls FROM job_pulls WHERE state = 'open'
                    GROUP BY project ORDER BY project";
        let found = self.read(call!(text)).await?;
        Ok(found.iter().map(rows::project_pulls).collect::<Result<_, PgError>>()?)
    }

    async fn last_hook_at(&self, project: ProjectId) -> Result<Option<Timestamp>, StoreError> {
        let text = "SELECT received_at AS at FROM inbox WHERE project = $1 AND event <> $2
                    ORDER BY number DESC LIMIT 1";
        let found = self.read(call!(text, project.to_string(), POLLED)).await?;
        let at = found.first().map(|row| row.try_get::<_, i64>("at")).transpose().map_err(PgError::from)?;
        Ok(at.map(Timestamp::from_micros))
    }
}
