//! The commits whose checks are watched.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::checks::{CheckWatch, LONGEST_DELAY};
use journeyman_core::ids::{JobId, ProjectId, Sha};
use journeyman_core::ports::{Check, CheckStore, StoreError};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use crate::rows::{self, to_json};

#[async_trait]
impl CheckStore for SqliteStore {
    async fn claim_watches(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<CheckWatch>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        // Most of the time nothing is due. A read shows this without a transaction of the writer.
        let text = "SELECT 1 FROM check_watches WHERE due_at <= ?1 OR due_at > ?2 LIMIT 1";
        if !self.readers.find(|db| Ok(db.prepare_cached(text)?.exists(params![from, never])?))? {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                let mut claim = db.prepare_cached(
                    "UPDATE check_watches SET due_at = ?3, looks = looks + 1
                     WHERE job IN (SELECT job FROM check_watches WHERE due_at <= ?1 OR due_at > ?2
                                   ORDER BY due_at, job LIMIT ?4)
                     RETURNING *",
                )?;
                let mut rows = claim.query(params![from, never, until, limit])?;
                Ok::<_, OpError<StoreError>>(collect(&mut rows, |row| rows::check_watch(row))?)
            })
            .await
    }

    async fn end_look(
        &self,
        watch: &CheckWatch,
        checks: Option<Vec<Check>>,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let CheckWatch { job, sha, due_at, looks, .. } = watch.clone();
        let [next, lease] = [next, due_at].map(|at| at.map(Timestamp::as_micros));
        let checks = checks.as_ref().map(to_json).transpose()?;
        self.writer
            .write(move |db| {
                let text = "UPDATE check_watches
                            SET checks = coalesce(?4, checks),
                                due_at = CASE WHEN due_at < ?6 THEN min(due_at, coalesce(?5, due_at)) ELSE ?5 END
                            WHERE job = ?1 AND sha = ?2 AND looks = ?3";
                let values = params![job.to_string(), sha.as_str(), looks, checks, next, lease];
                Ok::<_, OpError<StoreError>>(db.prepare_cached(text)?.execute(values)? > 0)
            })
            .await
    }

    async fn wake_watches(&self, sha: Sha, at: Timestamp) -> Result<Vec<(JobId, ProjectId)>, StoreError> {
        self.writer
            .write(move |db| {
                let mut wake = db.prepare_cached(
                    "UPDATE check_watches SET due_at = min(coalesce(due_at, ?2), ?2) WHERE sha = ?1 RETURNING *",
                )?;
                let mut rows = wake.query(params![sha.as_str(), at.as_micros()])?;
                let woken = collect(&mut rows, |row| rows::check_watch(row))?;
                Ok::<_, OpError<StoreError>>(woken.into_iter().map(|watch| (watch.job, watch.project)).collect())
            })
            .await
    }

    async fn watch_of(&self, job: JobId) -> Result<Option<CheckWatch>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM check_watches WHERE job = ?1")?;
            let mut found = query.query([job.to_string()])?;
            found.next()?.map(rows::check_watch).transpose()
        })
    }
}

/// Watches a commit instead of an earlier one of the job. The times are those of the push and of the first look.
pub(super) fn put_watch(
    db: &Connection,
    job: JobId,
    project: &ProjectId,
    sha: &Sha,
    [since, due_at]: [Timestamp; 2],
) -> Result<(), ReadError> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO check_watches (job, project, sha, since, due_at, checks)
         VALUES (?1, ?2, ?3, ?4, ?5, '[]')",
    )?
    .execute(params![job.to_string(), project.as_str(), sha.as_str(), since.as_micros(), due_at.as_micros()])?;
    Ok(())
}
