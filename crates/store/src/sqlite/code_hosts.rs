//! Code hosts, locks, and the index of pull requests.

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostSecrets};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::PullRepository;
use journeyman_core::job::command::PullRef;
use journeyman_core::ports::{CodeHostStore, PullCounts, PullFilter, PullIndex, StoreError};
use journeyman_core::pull::{IndexedPull, PullState};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::comparisons::{wake, wake_of_pull};
use super::error::ReadError;
use super::rows::collect;
use crate::rows::to_json;
use crate::{lists, rows, vault};

/// Selects the pull requests of the jobs in a JSON array, oldest first.
const PULLS_OF_JOBS: &str =
    "SELECT * FROM job_pulls WHERE job IN (SELECT value FROM json_each(?1)) ORDER BY created_at, number";

#[async_trait]
impl CodeHostStore for SqliteStore {
    async fn code_hosts(&self) -> Result<Vec<CodeHost>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached("SELECT * FROM code_hosts ORDER BY id")?;
                collect(&mut query.query([])?, |row| rows::code_host(row))
            })
            .await
    }

    async fn code_host_secrets(&self, id: CodeHostId) -> Result<HostSecrets, StoreError> {
        let host = id.clone();
        let sealed = self.readers.read(move |db| {
            let mut query = db.prepare_cached("SELECT name, value FROM code_host_secrets WHERE code_host = ?1")?;
            let rows = query.query_map([host.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<Vec<(String, Vec<u8>)>, _>>()?)
        });
        vault::open_host(&self.master_keys, &id, sealed.await?)
    }
}

/// Selects the newest pull requests of a project on remote code hosts.
pub(super) const PULLS: &str = "SELECT * FROM job_pulls INDEXED BY job_pulls_listed
    WHERE project = ?1 AND state = ?2 AND (created_at, number) < (?3, ?4) AND host <> 'local:'
    ORDER BY created_at DESC, number DESC LIMIT ?5";

#[async_trait]
impl PullIndex for SqliteStore {
    async fn indexed_pull(&self, repository: PullRepository, number: u64) -> Result<Option<IndexedPull>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.readers.find(|db| {
            let text = "SELECT * FROM job_pulls WHERE host = ?1 AND repository = ?2 AND number = ?3";
            let mut query = db.prepare_cached(text)?;
            let mut found = query.query(params![repository.host.0, repository.id, number])?;
            found.next()?.map(rows::indexed_pull).transpose()
        })
    }

    async fn indexed_pulls_of(&self, jobs: Vec<JobId>) -> Result<Vec<IndexedPull>, StoreError> {
        let wanted = to_json(&jobs)?;
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(PULLS_OF_JOBS)?;
                collect(&mut query.query([wanted])?, |row| rows::indexed_pull(row))
            })
            .await
    }

    async fn remote_pulls(&self, filter: PullFilter) -> Result<Vec<IndexedPull>, StoreError> {
        let (created_at, number) = lists::beginning_of_pulls(&filter);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(PULLS)?;
                let values = params![filter.project.as_str(), filter.state.name(), created_at, number, limit];
                collect(&mut query.query(values)?, |row| rows::indexed_pull(row))
            })
            .await
    }

    async fn count_remote_pulls(&self, project: ProjectId) -> Result<PullCounts, StoreError> {
        let counts = self.readers.read(move |db| {
            let text = "SELECT state, count(*) AS pulls FROM job_pulls WHERE project = ?1 AND host <> 'local:'
                        GROUP BY state";
            let mut query = db.prepare_cached(text)?;
            collect(&mut query.query([project.as_str()])?, |row| rows::pull_count(row))
        });
        Ok(lists::pull_counts(counts.await?))
    }
}

/// Stores a pull request in the index, and ends other open ones of its branch.
pub(super) fn put_pull(db: &Connection, pull: &IndexedPull) -> Result<(), ReadError> {
    let PullRepository { host, id } = &pull.repository;
    let number = i64::try_from(pull.number).unwrap_or(i64::MAX);
    if pull.state == PullState::Open {
        db.prepare_cached(
            "UPDATE job_pulls SET state = 'closed', ended_at = ?5
             WHERE host = ?1 AND repository = ?2 AND head = ?3 AND state = 'open' AND number <> ?4",
        )?
        .execute(params![host.0, id, pull.head, number, pull.created_at.as_micros()])?;
    }
    db.prepare_cached(
        "INSERT INTO job_pulls
             (host, repository, number, job, project, url, head, head_sha, state, created_at, title, draft, ended_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (host, repository, number) DO UPDATE
         SET job = ?4, project = ?5, url = ?6, head = ?7, head_sha = ?8, state = ?9,
             title = coalesce(?11, job_pulls.title), draft = ?12,
             ended_at = CASE WHEN job_pulls.state = ?9 THEN job_pulls.ended_at ELSE ?13 END",
    )?
    .execute(params![
        host.0,
        id,
        number,
        pull.job.to_string(),
        pull.project.as_str(),
        pull.url,
        pull.head,
        pull.head_sha.as_ref().map(|sha| sha.as_str()),
        pull.state.name(),
        pull.created_at.as_micros(),
        pull.title,
        pull.draft,
        pull.ended_at.map(Timestamp::as_micros),
    ])?;
    if pull.state == PullState::Open {
        wake(db, &pull.project)?;
    }
    Ok(())
}

/// Stores the state of a pull request in the index. If another one of the same branch is open, this one stays ended.
pub(super) fn set_pull_state(
    db: &Connection,
    pull: &PullRef,
    state: PullState,
    at: Timestamp,
) -> Result<(), ReadError> {
    let ended_at = (state != PullState::Open).then(|| at.as_micros());
    db.prepare_cached(
        "UPDATE OR IGNORE job_pulls SET state = ?4, ended_at = CASE WHEN state = ?4 THEN ended_at ELSE ?5 END
         WHERE host = ?1 AND repository = ?2 AND number = ?3",
    )?
    .execute(params![
        pull.repository.host.0,
        pull.repository.id,
        i64::try_from(pull.number).unwrap_or(i64::MAX),
        state.name(),
        ended_at,
    ])?;
    if state == PullState::Open {
        wake_of_pull(db, pull)?;
    }
    Ok(())
}
