//! Jobs, messages, runs and logs.

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::Job;
use journeyman_core::job::change::Change;
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::Message;
use journeyman_core::ports::{
    Accepted, ClaimFn, ClaimQuery, Decide, GONE, Guard, JobOverview, JobStore, JobWatch, PATIENCE, Picked, StoreError,
    UpdateError,
};
use journeyman_core::retry::{LONGEST_BACKOFF, LONGEST_LEASE};
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;
use tracing::Instrument as _;

use super::accept::{Operation, Request};
use super::error::PgError;
use super::holds::Probe;
use super::pipeline::call;
use super::session::Session;
use super::write::Writes;
use super::{Postgres, PostgresStore, holds};
use crate::rows;
use crate::spans::transaction;
use crate::sql::jobs::{self, JobReads};
use crate::sqlite::Part;
use crate::watch::Watch;

/// Selects a job.
pub(super) const JOB: &str = "SELECT id, state, diff, effort FROM jobs WHERE id = $1";

/// Selects entries of a job's log. The table `log` has all entries except those of accepted messages, which
/// [`rows::accepted_line`] derives from the messages that [`ACCEPTED`] selects.
pub(super) const LOG: &str = "SELECT * FROM log WHERE job = $1 AND seq > $2 ORDER BY seq LIMIT $3";
pub(super) const ACCEPTED: &str = "SELECT * FROM messages WHERE job = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// Selects the job that [`ClaimQuery`] describes, skipping jobs that another worker is picking. The first part walks
/// from project to project along the index over due jobs, so that the cost grows with the number of projects that have
/// due jobs, not with the number of jobs. It reads a few jobs of each project, because other workers may be picking the
/// first ones at the same time. If fewer are due by their time, it also looks for jobs that are due by their state,
/// among those with a later time.
pub(super) const DUE_JOB: &str = "
    WITH RECURSIVE owners (project) AS (
        (SELECT min(project) FROM jobs WHERE due_at IS NOT NULL)
        UNION ALL
        SELECT (SELECT min(project) FROM jobs WHERE due_at IS NOT NULL AND project > owners.project)
        FROM owners WHERE owners.project IS NOT NULL
    ), shares AS (
        SELECT project,
            (SELECT count(*) FROM jobs
             WHERE jobs.project = owners.project AND due_at > $1 AND worker IS NOT NULL) AS live,
            (SELECT concurrent_runs FROM projects WHERE id = owners.project) AS most,
            (SELECT next_probe_at FROM project_holds WHERE project_holds.project = owners.project) AS probe_at
        FROM owners WHERE project IS NOT NULL
    ), heads AS MATERIALIZED (
        SELECT shares.live, shares.most, shares.probe_at, head.id, head.due_at
        FROM shares CROSS JOIN LATERAL (
            (SELECT id, due_at FROM jobs
             WHERE jobs.project = shares.project AND due_at <= $1
                 AND (prefers IS NULL OR prefers = $2 OR due_at <= $3 AND (
                     state::json #>> '{state,active}' = 'waiting'
                     OR NOT EXISTS (
                         SELECT 1 FROM workers WHERE workers.id = jobs.prefers AND seen_at > $9 AND seen_at < $10
                     )
                 ))
                 AND (avoids IS NULL OR avoids <> $2 OR due_at <= $7)
             ORDER BY due_at, id LIMIT 8)
            UNION ALL
            (SELECT id, due_at FROM jobs
             WHERE jobs.project = shares.project AND due_at > $1 AND (worker IS NULL OR due_at > $6)
                 AND (prefers IS NULL OR prefers = $2 OR due_at > $4)
                 AND (avoids IS NULL OR avoids <> $2 OR due_at > $8)
                 AND (due_at > $5 OR state::json #>> '{state,active}' = 'waiting')
             ORDER BY due_at, id LIMIT 8)
            LIMIT 8
        ) AS head
        WHERE (shares.most IS NULL OR shares.live < shares.most)
            AND (shares.probe_at IS NULL OR shares.probe_at <= $1 OR shares.probe_at > $5)
    )
    SELECT jobs.id, jobs.state, jobs.diff, jobs.effort, jobs.project, heads.most, heads.probe_at
    FROM heads JOIN jobs ON jobs.id = heads.id
    WHERE jobs.due_at <= $1
        OR ((jobs.worker IS NULL OR jobs.due_at > $6) AND (jobs.due_at > $5 OR jobs.state::json #>> '{state,active}' = 'waiting'))
    ORDER BY heads.live, heads.due_at, heads.id LIMIT 1
    FOR UPDATE OF jobs SKIP LOCKED";

impl PostgresStore {
    async fn read_log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let (number, most) = (i64::try_from(after).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        // One snapshot for both tables; otherwise an entry that is committed between the two queries could be skipped.
        let mut found = self
            .read_all(&[
                call!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
                call!(LOG, job.to_string(), number, most),
                call!(ACCEPTED, job.to_string(), number, most),
                call!("COMMIT"),
            ])
            .await?;
        let (accepted, lines) = (found.swap_remove(2), found.swap_remove(1));
        let lines: Vec<LogEntry> = lines.iter().map(rows::log_entry).collect::<Result<_, PgError>>()?;
        let accepted: Vec<LogEntry> = accepted.iter().map(rows::accepted_line).collect::<Result<_, PgError>>()?;
        Ok(rows::merge_lines(lines, accepted, limit))
    }
}

#[async_trait]
impl JobReads for Postgres {
    const PROJECTS_AT_ONCE: usize = 50;

    async fn related<T: Part>(
        &self,
        _job: JobId,
        read: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        read.await
    }

    async fn overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError> {
        self.read_overview(id).await
    }
}

#[async_trait]
impl JobStore for PostgresStore {
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError> {
        self.batches
            .add(Request { operation: Operation::Create(Box::new(change)), guard, now })
            .instrument(transaction("postgresql"))
            .await
    }

    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError> {
        self.batches
            .add(Request { operation: Operation::Update { id, project, decide }, guard, now })
            .instrument(transaction("postgresql"))
            .await
    }

    async fn claim_job(&self, query: ClaimQuery, mut claim: ClaimFn) -> Result<Option<Picked>, StoreError> {
        let session = Session::open(&self.pool).await?;
        let (now, worker) = (query.now.as_micros(), query.worker.to_string());
        let ClaimQuery { now: at, avoidance, .. } = query;
        let times =
            [at - PATIENCE, at + PATIENCE, at + LONGEST_BACKOFF, at + LONGEST_LEASE, at - avoidance, at + avoidance];
        let [waited, early, never, leased, avoided, avoided_early] = times.map(Timestamp::as_micros);
        let [gone, ahead] = [at - GONE, at + GONE].map(Timestamp::as_micros);
        let due = call!(DUE_JOB, now, worker, waited, early, never, leased, avoided, avoided_early, gone, ahead);
        let mut found = session.run(&[call!("BEGIN"), due]).await?;
        let row = found.pop().and_then(|mut rows| rows.pop());
        let (mut picked, mut hold) = (None, None);
        if let Some(row) = row
            && has_free_run(&session, &row, now).await?
        {
            let probe = if row.try_get::<_, Option<i64>>("probe_at").map_err(PgError::from)?.is_some() {
                holds::begin_probe(&session, &row, query.now).await?
            } else {
                Probe::None
            };
            if probe != Probe::Taken {
                picked = Some(rows::job(&row)?.in_epoch(self.epochs.base()));
            }
            if let Probe::Begun(begun) = probe {
                hold = Some(*begun);
            }
        }
        // The job is due, so a refusal can only mean that there is nothing to do.
        let Some(Ok(change)) = picked.as_ref().map(&mut claim) else {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Ok(None);
        };
        let mut writes = Writes::default();
        writes.update(&change)?;
        let mut calls = writes.calls()?;
        calls.push(call!("COMMIT"));
        let answers = session.run(&calls).await.map_err(PgError::of_commit)?;
        session.release();
        self.news.committed(&change.job);
        // Only the statement that delivers the message returns rows.
        let message = answers.iter().flatten().next().map(rows::message).transpose()?;
        Ok(Some(Picked { job: change.job, message, hold }))
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let found = self.read(call!(JOB, id.to_string())).await?;
        Ok(found.first().map(rows::job).transpose()?)
    }

    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError> {
        jobs::leased_jobs(&self.database, worker).await
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        jobs::messages(&self.database, job).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        jobs::message(&self.database, id).await
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        jobs::run(&self.database, id).await
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        jobs::runs(&self.database, job).await
    }

    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.news.wakeups.lines(job, after, limit, self.read_log(job, after, limit)).await
    }

    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_> {
        Box::new(Watch::new(self, &self.news.wakeups, job, Some(self.recheck)))
    }

    fn work_version(&self) -> u64 {
        self.news.wakeups.work_version()
    }

    async fn work_changed(&self, seen: u64) {
        self.news.wakeups.work_changed(seen).await;
    }
}

/// Returns whether the project of the job in `row` may have one more run. Two workers that pick jobs of a project at
/// the same time see the same number of live runs, so they count again under a lock if the project has a limit.
async fn has_free_run(session: &Session, row: &Row, now: i64) -> Result<bool, PgError> {
    let Some(most) = row.try_get::<_, Option<i64>>("most")? else { return Ok(true) };
    let project: String = row.try_get("project")?;
    let lock = call!("SELECT pg_advisory_xact_lock(hashtextextended('runs/' || $1, 0))", project.clone());
    let count = "SELECT count(*) AS live FROM jobs WHERE project = $1 AND due_at > $2 AND worker IS NOT NULL";
    let mut answers = session.run(&[lock, call!(count, project, now)]).await?;
    let live = answers.pop().and_then(|mut rows| rows.pop()).map(|row| row.try_get::<_, i64>("live")).transpose()?;
    Ok(live.is_some_and(|live| live < most))
}

#[cfg(test)]
mod tests;
