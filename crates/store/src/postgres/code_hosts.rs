//! Code hosts, locks, and the index of pull requests.

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostSecrets};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::PullRepository;
use journeyman_core::job::command::PullRef;
use journeyman_core::ports::{CodeHostStore, PullCounts, PullFilter, PullIndex, StoreError};
use journeyman_core::pull::{IndexedPull, PullState};
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::comparisons::{wake, wake_of_pull};
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::{lists, rows, vault};

/// Selects the pull requests of some jobs, oldest first.
pub(super) const PULLS_OF_JOBS: &str = "SELECT * FROM job_pulls WHERE job = ANY ($1) ORDER BY created_at, number";

#[async_trait]
impl CodeHostStore for PostgresStore {
    async fn code_hosts(&self) -> Result<Vec<CodeHost>, StoreError> {
        let found = self.read(call!("SELECT * FROM code_hosts ORDER BY id")).await?;
        Ok(found.iter().map(rows::code_host).collect::<Result<_, PgError>>()?)
    }

    async fn code_host_secrets(&self, id: CodeHostId) -> Result<HostSecrets, StoreError> {
        let text = "SELECT name, value FROM code_host_secrets WHERE code_host = $1";
        let found = self.read(call!(text, id.to_string())).await?;
        let sealed = found.iter().map(|row| Ok((row.try_get("name")?, row.try_get("value")?)));
        let sealed: Result<Vec<(String, Vec<u8>)>, tokio_postgres::Error> = sealed.collect();
        vault::open_host(&self.master_keys, &id, sealed.map_err(PgError::from)?)
    }
}

#[async_trait]
impl PullIndex for PostgresStore {
    async fn indexed_pull(&self, repository: PullRepository, number: u64) -> Result<Option<IndexedPull>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let text = "SELECT * FROM job_pulls WHERE host = $1 AND repository = $2 AND number = $3";
        let found = self.read(call!(text, repository.host.0, repository.id, number)).await?;
        Ok(found.first().map(rows::indexed_pull).transpose()?)
    }

    async fn indexed_pulls_of(&self, jobs: Vec<JobId>) -> Result<Vec<IndexedPull>, StoreError> {
        let wanted: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        let found = self.read(call!(PULLS_OF_JOBS, wanted)).await?;
        Ok(found.iter().map(rows::indexed_pull).collect::<Result<_, PgError>>()?)
    }

    async fn remote_pulls(&self, filter: PullFilter) -> Result<Vec<IndexedPull>, StoreError> {
        let text = "SELECT * FROM job_pulls
                    WHERE project = $1 AND state = $2 AND (created_at, number) < ($3, $4) AND host <> 'local:'
                    ORDER BY created_at DESC, number DESC LIMIT $5";
        let (created_at, number) = lists::beginning_of_pulls(&filter);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let query = call!(text, filter.project.to_string(), filter.state.name(), created_at, number, limit);
        let found = self.read(query).await?;
        Ok(found.iter().map(rows::indexed_pull).collect::<Result<_, PgError>>()?)
    }

    async fn count_remote_pulls(&self, project: ProjectId) -> Result<PullCounts, StoreError> {
        let text = "SELECT state, count(*) AS pulls FROM job_pulls WHERE project = $1 AND host <> 'local:'
                    GROUP BY state";
        let found = self.read(call!(text, project.to_string())).await?;
        Ok(lists::pull_counts(found.iter().map(rows::pull_count).collect::<Result<Vec<_>, PgError>>()?))
    }
}

/// Returns the statements that store a pull request in the index, and end other open ones of its branch.
pub(super) fn put_pull(pull: &IndexedPull) -> Vec<Call> {
    let PullRepository { host, id } = &pull.repository;
    let number = i64::try_from(pull.number).unwrap_or(i64::MAX);
    let mut calls = Vec::new();
    if pull.state == PullState::Open {
        calls.push(call!(
            "UPDATE job_pulls SET state = 'closed', ended_at = $5
             WHERE host = $1 AND repository = $2 AND head = $3 AND state = 'open' AND number <> $4",
            host.0.clone(),
            id.clone(),
            pull.head.clone(),
            number,
            pull.created_at.as_micros()
        ));
    }
    calls.push(call!(
        "INSERT INTO job_pulls
             (host, repository, number, job, project, url, head, head_sha, state, created_at, title, draft, ended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (host, repository, number) DO UPDATE
         SET job = $4, project = $5, url = $6, head = $7, head_sha = $8, state = $9,
             title = coalesce($11, job_pulls.title), draft = $12,
             ended_at = CASE WHEN job_pulls.state = $9 THEN job_pulls.ended_at ELSE $13 END",
        host.0.clone(),
        id.clone(),
        number,
        pull.job.to_string(),
        pull.project.to_string(),
        pull.url.clone(),
        pull.head.clone(),
        pull.head_sha.as_ref().map(ToString::to_string),
        pull.state.name(),
        pull.created_at.as_micros(),
        pull.title.clone(),
        i64::from(pull.draft),
        pull.ended_at.map(Timestamp::as_micros),
    ));
    if pull.state == PullState::Open {
        calls.push(wake(&pull.project));
    }
    calls
}

/// Returns the statements that store the state of a pull request in the index. If another one of the same branch is
/// open, this one stays ended.
pub(super) fn set_pull_state(pull: &PullRef, state: PullState, at: Timestamp) -> Vec<Call> {
    let ended_at = (state != PullState::Open).then(|| at.as_micros());
    let mut calls = vec![call!(
        "UPDATE job_pulls AS this SET state = $4, ended_at = CASE WHEN state = $4 THEN ended_at ELSE $5 END
         WHERE host = $1 AND repository = $2 AND number = $3 AND ($4 <> 'open' OR NOT EXISTS (
             SELECT 1 FROM job_pulls AS other
             WHERE other.host = $1 AND other.repository = $2 AND other.head = this.head AND other.state = 'open'
                   AND other.number <> $3))",
        pull.repository.host.0.clone(),
        pull.repository.id.clone(),
        i64::try_from(pull.number).unwrap_or(i64::MAX),
        state.name(),
        ended_at,
    )];
    if state == PullState::Open {
        calls.push(wake_of_pull(pull));
    }
    calls
}
