//! The commits whose checks are watched.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::checks::{Check, CheckWatch, LONGEST_DELAY};
use journeyman_core::ids::{JobId, ProjectId, Sha};
use journeyman_core::ports::{CheckStore, StoreError};
use journeyman_core::time::Timestamp;

use super::{Database, SqlStore, Statement, decoded, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl<B: Database> CheckStore for SqlStore<B> {
    async fn claim_watches(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<CheckWatch>, StoreError> {
        let never = now + LONGEST_DELAY;
        let due = sql!("SELECT 1 FROM check_watches WHERE due_at <= $1 OR due_at > $2 LIMIT 1", now, never);
        let claim = sql!(
            "UPDATE check_watches SET due_at = $3, looks = looks + 1
             WHERE job IN (SELECT job FROM check_watches WHERE due_at <= $1 OR due_at > $2
                           ORDER BY due_at, job LIMIT $4 FOR UPDATE SKIP LOCKED)
             RETURNING *",
            now,
            never,
            now + lease,
            limit,
        );
        decoded(&self.claim(due, claim).await?, rows::check_watch)
    }

    async fn end_look(
        &self,
        watch: &CheckWatch,
        checks: Option<Vec<Check>>,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let CheckWatch { job, sha, due_at, looks, .. } = watch;
        let end = sql!(
            "UPDATE check_watches
             SET checks = coalesce($4, checks),
                 due_at = CASE WHEN due_at < $6 THEN least(due_at, coalesce($5, due_at)) ELSE $5 END
             WHERE job = $1 AND sha = $2 AND looks = $3
             RETURNING 1",
            job.to_string(),
            sha.as_str(),
            *looks,
            checks.as_ref().map(to_json).transpose()?,
            next,
            *due_at,
        );
        self.changes(end).await
    }

    async fn wake_watches(&self, sha: Sha, at: Timestamp) -> Result<Vec<(JobId, ProjectId)>, StoreError> {
        let wake = sql!(
            "UPDATE check_watches SET due_at = least(coalesce(due_at, $2), $2) WHERE sha = $1 RETURNING *",
            sha.as_str(),
            at,
        );
        let woken = decoded(&self.run(vec![wake]).await?, rows::check_watch)?;
        Ok(woken.into_iter().map(|watch| (watch.job, watch.project)).collect())
    }

    async fn watch_of(&self, job: JobId) -> Result<Option<CheckWatch>, StoreError> {
        self.find(sql!("SELECT * FROM check_watches WHERE job = $1", job.to_string()), rows::check_watch).await
    }
}

/// Returns the statement that watches a commit instead of an earlier one of the job. The times are those of the push and
/// of the first look.
pub(crate) fn put_watch(job: JobId, project: &ProjectId, sha: &Sha, [since, due_at]: [Timestamp; 2]) -> Statement {
    sql!(
        "INSERT INTO check_watches (job, project, sha, since, due_at, checks) VALUES ($1, $2, $3, $4, $5, '[]')
         ON CONFLICT (job) DO UPDATE SET sha = $3, since = $4, due_at = $5, looks = 0, checks = '[]'",
        job.to_string(),
        project.as_str(),
        sha.as_str(),
        since,
        due_at,
    )
}
