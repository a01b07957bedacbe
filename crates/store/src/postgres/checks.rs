//! The commits whose checks are watched.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::checks::{CheckWatch, LONGEST_DELAY};
use journeyman_core::ids::{JobId, ProjectId, Sha};
use journeyman_core::ports::{Check, CheckStore, StoreError};
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, to_json};

#[async_trait]
impl CheckStore for PostgresStore {
    async fn claim_watches(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<CheckWatch>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        let text = "UPDATE check_watches SET due_at = $3, looks = looks + 1
                    WHERE job IN (SELECT job FROM check_watches WHERE due_at <= $1 OR due_at > $2
                                  ORDER BY due_at, job LIMIT $4 FOR UPDATE SKIP LOCKED)
                    RETURNING *";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let answers = self.write(vec![call!(text, from, never, until, limit)]).await?;
        Ok(answers.iter().flatten().map(rows::check_watch).collect::<Result<_, PgError>>()?)
    }

    async fn end_look(
        &self,
        watch: &CheckWatch,
        checks: Option<Vec<Check>>,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let CheckWatch { job, sha, due_at, looks, .. } = watch;
        let [next, lease] = [next, *due_at].map(|at| at.map(Timestamp::as_micros));
        let checks = checks.as_ref().map(to_json).transpose()?;
        let text = "UPDATE check_watches
                    SET checks = coalesce($4, checks),
                        due_at = CASE WHEN due_at < $6 THEN least(due_at, coalesce($5, due_at)) ELSE $5 END
                    WHERE job = $1 AND sha = $2 AND looks = $3
                    RETURNING 1";
        let end = call!(text, job.to_string(), sha.as_str().to_owned(), i64::from(*looks), checks, next, lease);
        Ok(self.write(vec![end]).await?.iter().any(|rows| !rows.is_empty()))
    }

    async fn wake_watches(&self, sha: Sha, at: Timestamp) -> Result<Vec<(JobId, ProjectId)>, StoreError> {
        let text = "UPDATE check_watches SET due_at = least(coalesce(due_at, $2), $2) WHERE sha = $1 RETURNING *";
        let answers = self.write(vec![call!(text, sha.as_str().to_owned(), at.as_micros())]).await?;
        let woken = answers.iter().flatten().map(rows::check_watch).collect::<Result<Vec<_>, PgError>>()?;
        Ok(woken.into_iter().map(|watch| (watch.job, watch.project)).collect())
    }

    async fn watch_of(&self, job: JobId) -> Result<Option<CheckWatch>, StoreError> {
        let found = self.read(call!("SELECT * FROM check_watches WHERE job = $1", job.to_string())).await?;
        Ok(found.first().map(rows::check_watch).transpose()?)
    }
}

/// Returns the statement that watches a commit instead of an earlier one of the job. The times are those of the push and
/// of the first look.
pub(super) fn put_watch(job: JobId, project: &ProjectId, sha: &Sha, [since, due_at]: [Timestamp; 2]) -> Call {
    call!(
        "INSERT INTO check_watches (job, project, sha, since, due_at, checks) VALUES ($1, $2, $3, $4, $5, '[]')
         ON CONFLICT (job) DO UPDATE SET sha = $3, since = $4, due_at = $5, looks = 0, checks = '[]'",
        job.to_string(),
        project.to_string(),
        sha.as_str().to_owned(),
        since.as_micros(),
        due_at.as_micros(),
    )
}
