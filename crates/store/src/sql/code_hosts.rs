//! Code hosts, and the index of pull requests.

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostSecrets, PullRef, PullRepository, PullState};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::ports::{CodeHostStore, PullCounts, PullFilter, PullIndex, StoreError};
use journeyman_core::pull::IndexedPull;
use journeyman_core::resource::{Key, Put};
use journeyman_core::time::Timestamp;

use super::admin::Sealing;
use super::comparisons::{wake, wake_of_pull};
use super::resource::{ResourceTable, statements};
use super::{Database, DbError, Row, SqlStore, Statement, Tx, sql};
use crate::rows::{self, Columns as _, HostDocument, to_json};
use crate::{lists, vault};

#[async_trait]
impl<B: Database> CodeHostStore for SqlStore<B> {
    async fn code_host_secrets(&self, id: CodeHostId) -> Result<HostSecrets, StoreError> {
        let query = sql!("SELECT name, value FROM code_host_secrets WHERE code_host = $1", id.as_str());
        let sealed =
            self.all(query, |row| Ok((row.text("name")?.unwrap_or_default(), row.bytes("value")?.unwrap_or_default())));
        vault::open_host(&self.master_keys, &id, sealed.await?)
    }
}

#[async_trait]
impl ResourceTable for CodeHost {
    statements!("code_hosts", by "id", named "name");

    fn read(row: &Row) -> Result<Self, StoreError> {
        rows::code_host(row)
    }

    fn put(Put { resource: host, secrets }: &Put<Self>, sealing: Sealing<'_>) -> Result<Vec<Statement>, StoreError> {
        let sealed = vault::seal_host(sealing.keys, sealing.ids, &host.id, secrets.clone())?;
        let store = sql!(
            "INSERT INTO code_hosts (id, name, settings, created_at, version) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (id) DO UPDATE SET name = $2, settings = $3, version = $5",
            host.id.as_str(),
            host.name().0,
            to_json(&HostDocument::of(host))?,
            host.created_at,
            host.version,
        );
        let secrets = sealed.into_iter().map(|(name, value)| put_secret(&host.id, name, value));
        Ok([store].into_iter().chain(secrets).collect())
    }

    async fn related(key: &Key<Self>, tx: &mut (dyn Tx + '_)) -> Result<bool, DbError> {
        let used = sql!(
            sqlite: "SELECT 1 FROM projects WHERE settings ->> '$.code_host.host' = ?1 LIMIT 1",
            postgres: "SELECT 1 FROM projects WHERE settings::jsonb #>> '{code_host,host}' = $1 LIMIT 1";
            key.id.as_str(),
        );
        tx.exists(used).await
    }
}

/// Returns the statement that stores an encrypted secret of a code host, or removes it.
fn put_secret(host: &CodeHostId, name: String, value: Option<Vec<u8>>) -> Statement {
    match value {
        Some(value) => sql!(
            "INSERT INTO code_host_secrets (code_host, name, value) VALUES ($1, $2, $3)
             ON CONFLICT (code_host, name) DO UPDATE SET value = excluded.value",
            host.as_str(),
            name,
            value,
        ),
        None => sql!("DELETE FROM code_host_secrets WHERE code_host = $1 AND name = $2", host.as_str(), name),
    }
}

#[async_trait]
impl<B: Database> PullIndex for SqlStore<B> {
    async fn indexed_pull(&self, repository: PullRepository, number: u64) -> Result<Option<IndexedPull>, StoreError> {
        let query = sql!(
            "SELECT * FROM job_pulls WHERE host = $1 AND repository = $2 AND number = $3",
            repository.host.0,
            repository.id,
            number,
        );
        self.find(query, rows::indexed_pull).await
    }

    async fn indexed_pulls_of(&self, jobs: Vec<JobId>) -> Result<Vec<IndexedPull>, StoreError> {
        self.all(pulls_of_jobs(jobs.iter().map(ToString::to_string).collect()), rows::indexed_pull).await
    }

    async fn remote_pulls(&self, filter: PullFilter) -> Result<Vec<IndexedPull>, StoreError> {
        self.all(remote_pulls(&filter), rows::indexed_pull).await
    }

    async fn count_remote_pulls(&self, project: ProjectId) -> Result<PullCounts, StoreError> {
        let query = sql!(
            "SELECT state, count(*) AS pulls FROM job_pulls WHERE project = $1 AND host <> 'local:' GROUP BY state",
            project.as_str(),
        );
        Ok(lists::pull_counts(self.all(query, rows::pull_count).await?))
    }
}

/// Returns the query for the pull requests of jobs, oldest first.
pub(crate) fn pulls_of_jobs(jobs: Vec<String>) -> Statement {
    sql!("SELECT * FROM job_pulls WHERE job = ANY (($1)) ORDER BY created_at, number", jobs)
}

/// Returns the query for the newest pull requests of a project on remote code hosts.
pub(crate) fn remote_pulls(filter: &PullFilter) -> Statement {
    let (created_at, number) = lists::beginning_of_pulls(filter);
    sql!(
        sqlite:
            "SELECT * FROM job_pulls INDEXED BY job_pulls_listed
             WHERE project = ?1 AND state = ?2 AND (created_at, number) < (?3, ?4) AND host <> 'local:'
             ORDER BY created_at DESC, number DESC LIMIT ?5",
        postgres:
            "SELECT * FROM job_pulls
             WHERE project = $1 AND state = $2 AND (created_at, number) < ($3, $4) AND host <> 'local:'
             ORDER BY created_at DESC, number DESC LIMIT $5";
        filter.project.as_str(),
        filter.state.name(),
        created_at,
        number,
        filter.limit,
    )
}

/// Returns the statements that store a pull request in the index, and end other open ones of its branch.
pub(crate) fn put_pull(pull: &IndexedPull) -> Vec<Statement> {
    let PullRepository { host, id } = &pull.repository;
    let mut statements = Vec::new();
    if pull.state == PullState::Open {
        statements.push(sql!(
            "UPDATE job_pulls SET state = 'closed', ended_at = $5
             WHERE host = $1 AND repository = $2 AND head = $3 AND state = 'open' AND number <> $4",
            &host.0,
            id,
            &pull.head,
            pull.number,
            pull.created_at,
        ));
    }
    statements.push(sql!(
        "INSERT INTO job_pulls
             (host, repository, number, job, project, url, head, head_sha, state, created_at, title, draft, ended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (host, repository, number) DO UPDATE
         SET job = $4, project = $5, url = $6, head = $7, head_sha = $8, state = $9,
             title = coalesce($11, job_pulls.title), draft = $12,
             ended_at = CASE WHEN job_pulls.state = $9 THEN job_pulls.ended_at ELSE $13 END",
        &host.0,
        id,
        pull.number,
        pull.job.to_string(),
        pull.project.as_str(),
        &pull.url,
        &pull.head,
        pull.head_sha.as_ref().map(|sha| sha.as_str()),
        pull.state.name(),
        pull.created_at,
        pull.title.as_ref(),
        pull.draft,
        pull.ended_at,
    ));
    if pull.state == PullState::Open {
        statements.push(wake(&pull.project));
    }
    statements
}

/// Returns the statements that store the state of a pull request in the index. If another one of the same branch is
/// open, this one stays ended.
pub(crate) fn set_pull_state(pull: &PullRef, state: PullState, at: Timestamp) -> Vec<Statement> {
    let mut statements = vec![sql!(
        "UPDATE job_pulls AS this SET state = $4, ended_at = CASE WHEN state = $4 THEN ended_at ELSE $5 END
         WHERE host = $1 AND repository = $2 AND number = $3 AND ($4 <> 'open' OR NOT EXISTS (
             SELECT 1 FROM job_pulls AS other
             WHERE other.host = $1 AND other.repository = $2 AND other.head = this.head AND other.state = 'open'
                   AND other.number <> $3))",
        &pull.repository.host.0,
        &pull.repository.id,
        pull.number,
        state.name(),
        Some(at).filter(|_| state != PullState::Open),
    )];
    if state == PullState::Open {
        statements.push(wake_of_pull(pull));
    }
    statements
}
