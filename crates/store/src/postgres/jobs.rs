//! Jobs, messages, runs and logs.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::change::Change;
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::summary::{JobSummary, STEP_WINDOW};
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::Message;
use journeyman_core::ports::{
    Accepted, ClaimFn, ClaimQuery, Decide, GONE, Guard, JobCounts, JobExtras, JobFilter, JobLists, JobOverview,
    JobStore, JobWatch, MessageFilter, PATIENCE, Picked, ProjectJobs, StatusCounts, StoreError, UpdateError,
};
use journeyman_core::retry::{LONGEST_BACKOFF, LONGEST_LEASE};
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;
use tracing::Instrument as _;

use super::accept::{Operation, Request};
use super::error::PgError;
use super::holds::Probe;
use super::pipeline::{Query, call};
use super::session::Session;
use super::write::Writes;
use super::{PostgresStore, holds};
use crate::lists::{self, Listing, Merge};
use crate::rows;
use crate::spans::transaction;
use crate::sql::code_hosts::pulls_of_jobs;
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

/// Selects messages in the order of the last change of their status, newest first.
const UPDATED_MESSAGES: &str = "
    SELECT * FROM messages
    WHERE ($1::text[] IS NULL OR EXISTS (SELECT 1 FROM jobs WHERE jobs.id = messages.job AND jobs.project = ANY($1)))
      AND ($2::text[] IS NULL OR status = ANY($2))
      AND coalesce(finished_at, delivered_at, created_at) BETWEEN $3 AND $4
      AND (coalesce(finished_at, delivered_at, created_at) < $4 OR id < $5)
    ORDER BY coalesce(finished_at, delivered_at, created_at) DESC, id DESC LIMIT $6";

/// Counts messages like [`UPDATED_MESSAGES`], without a start.
const UPDATED_MESSAGE_COUNT: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM messages
        WHERE ($1::text[] IS NULL OR EXISTS (SELECT 1 FROM jobs WHERE jobs.id = messages.job AND jobs.project = ANY($1)))
          AND ($2::text[] IS NULL OR status = ANY($2))
          AND coalesce(finished_at, delivered_at, created_at) >= $3
        LIMIT $4) AS found";

/// Returns the count that a statement has selected.
fn counted(found: &[Row]) -> Result<u64, PgError> {
    let count: Option<i64> = found.first().map(|row| row.try_get(0)).transpose()?;
    Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
}

/// The names of projects and of statuses; `None` means all.
type Selected = (Option<Vec<String>>, Option<Vec<String>>);

/// Returns the projects and the statuses of a filter.
fn selected(filter: &MessageFilter) -> Result<Selected, StoreError> {
    let projects = filter.projects.as_ref().map(|projects| projects.iter().map(ToString::to_string).collect());
    let statuses = filter.statuses.iter().map(rows::name_of).collect::<Result<Vec<String>, StoreError>>()?;
    Ok((projects, Some(statuses).filter(|statuses| !statuses.is_empty())))
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
        let text = "SELECT id FROM jobs WHERE due_at IS NOT NULL AND worker = $1 ORDER BY id";
        let found = self.read(call!(text, worker.to_string())).await?;
        Ok(found.iter().map(rows::job_id).collect::<Result<_, PgError>>()?)
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        let found = self.read(call!("SELECT * FROM messages WHERE job = $1 ORDER BY seq", job.to_string())).await?;
        Ok(found.iter().map(rows::message).collect::<Result<_, PgError>>()?)
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        let found = self.read(call!("SELECT * FROM messages WHERE id = $1", id.to_string())).await?;
        Ok(found.first().map(rows::message).transpose()?)
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        let found = self.read(call!("SELECT * FROM runs WHERE id = $1", id.to_string())).await?;
        Ok(found.first().map(rows::run).transpose()?)
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        let found = self.read(call!("SELECT * FROM runs WHERE job = $1 ORDER BY number", job.to_string())).await?;
        Ok(found.iter().map(rows::run).collect::<Result<_, PgError>>()?)
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

#[async_trait]
impl JobLists for PostgresStore {
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError> {
        let projects = match filter.projects.clone() {
            Some(projects) => projects,
            None => {
                let found = self.read(call!("SELECT id FROM projects ORDER BY id")).await?;
                found.iter().map(rows::project_id).collect::<Result<_, PgError>>()?
            }
        };
        let mut merge = Merge::new(filter.limit);
        for some in projects.chunks(PROJECTS_AT_ONCE) {
            let calls: Vec<Query> = some.iter().map(|project| list(&merge.filter(&filter, project.clone()))).collect();
            for found in self.read_all(&calls).await? {
                merge.add(found.iter().map(rows::job).collect::<Result<_, PgError>>()?);
            }
        }
        Ok(merge.jobs())
    }

    async fn count_jobs(&self, project: Option<ProjectId>, limit: usize) -> Result<StatusCounts, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let count = |status: JobStatus| match &project {
            Some(project) => call!(COUNT_OF_PROJECT_AND_STATUS, status.name(), limit, project.to_string()),
            None => call!(COUNT_OF_STATUS, status.name(), limit),
        };
        let calls = JobStatus::ALL.map(count);
        let mut counts = StatusCounts::default();
        for (status, found) in JobStatus::ALL.into_iter().zip(self.read_all(&calls).await?) {
            counts.set(status, counted(&found)?);
        }
        Ok(counts)
    }

    async fn job_counts(&self, now: Timestamp) -> Result<JobCounts, StoreError> {
        let text = "SELECT count(*) AS active, count(*) FILTER (WHERE due_at > $1 AND worker IS NOT NULL) AS running,
                        count(*) FILTER (WHERE due_at <= $1) AS due, min(due_at) FILTER (WHERE due_at <= $1) AS oldest
                    FROM jobs WHERE due_at IS NOT NULL";
        let found = self.read(call!(text, now.as_micros())).await?;
        Ok(found.first().map(rows::job_counts).transpose()?.unwrap_or_default())
    }

    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let count = "SELECT waiting, count(*) AS jobs FROM jobs WHERE waiting IS NOT NULL GROUP BY waiting";
        let found = self.read(call!(count)).await?;
        let count = |row: &Row| Ok((row.try_get("waiting")?, row.try_get::<_, i64>("jobs")?));
        let counts: Result<Vec<(String, i64)>, tokio_postgres::Error> = found.iter().map(count).collect();
        let counts = counts.map_err(PgError::from)?;
        Ok(counts.into_iter().map(|(code, count)| (code, u64::try_from(count).unwrap_or(0))).collect())
    }

    async fn messages_after(
        &self,
        job: JobId,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError> {
        let text = "SELECT * FROM messages
                    WHERE job = $1
                      AND seq > CASE $2 WHEN '' THEN 0 ELSE (SELECT seq FROM messages WHERE id = $2 AND job = $1) END
                    ORDER BY seq LIMIT $3";
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let found = self.read(call!(text, job.to_string(), after, i64::try_from(limit).unwrap_or(i64::MAX))).await?;
        Ok(found.iter().map(rows::message).collect::<Result<_, PgError>>()?)
    }

    async fn newest_message(&self, job: JobId) -> Result<Option<Message>, StoreError> {
        let text = "SELECT * FROM messages WHERE job = $1 ORDER BY seq DESC LIMIT 1";
        let found = self.read(call!(text, job.to_string())).await?;
        Ok(found.first().map(rows::message).transpose()?)
    }

    async fn find_messages(&self, filter: MessageFilter) -> Result<Vec<Message>, StoreError> {
        let (projects, statuses) = selected(&filter)?;
        let since = filter.updated_since.map_or(i64::MIN, Timestamp::as_micros);
        let (before, id) = lists::message_beginning(&filter);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let found = self.read(call!(UPDATED_MESSAGES, projects, statuses, since, before, id, limit)).await?;
        Ok(found.iter().map(rows::message).collect::<Result<_, PgError>>()?)
    }

    async fn count_messages(&self, filter: MessageFilter) -> Result<u64, StoreError> {
        let (projects, statuses) = selected(&filter)?;
        let since = filter.updated_since.map_or(i64::MIN, Timestamp::as_micros);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let found = self.read(call!(UPDATED_MESSAGE_COUNT, projects, statuses, since, limit)).await?;
        Ok(counted(&found)?)
    }

    async fn runs_after(&self, job: JobId, after: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError> {
        let text = "SELECT * FROM runs
                    WHERE job = $1
                      AND number > CASE $2 WHEN '' THEN 0 ELSE (SELECT number FROM runs WHERE id = $2 AND job = $1) END
                    ORDER BY number LIMIT $3";
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let found = self.read(call!(text, job.to_string(), after, i64::try_from(limit).unwrap_or(i64::MAX))).await?;
        Ok(found.iter().map(rows::run).collect::<Result<_, PgError>>()?)
    }

    async fn extras_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobExtras>, StoreError> {
        let wanted: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        let calls = [
            call!(ATTRIBUTES_OF_JOBS, wanted.clone()),
            call!("SELECT job, id, usage FROM runs WHERE job = ANY ($1)", wanted.clone()),
            pulls_of_jobs(wanted.clone()).into(),
            call!(
                "SELECT jobs.id AS job, hold FROM jobs JOIN project_holds ON project_holds.project = jobs.project
                 WHERE jobs.id = ANY ($1)",
                wanted
            ),
        ];
        let mut found = self.read_all(&calls).await?.into_iter();
        let mut next = || found.next().unwrap_or_default();
        let (attributes, runs, pulls, holds) = (next(), next(), next(), next());
        Ok(lists::extras(
            attributes.iter().map(rows::attribute).collect::<Result<_, PgError>>()?,
            runs.iter().map(rows::usage_of_job).collect::<Result<_, PgError>>()?,
            pulls.iter().map(rows::indexed_pull).collect::<Result<_, PgError>>()?,
            holds.iter().map(rows::hold_of_job).collect::<Result<_, PgError>>()?,
        ))
    }

    async fn job_overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError> {
        self.read_overview(id).await
    }

    async fn summaries_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobSummary>, StoreError> {
        let wanted: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        let window = i64::try_from(STEP_WINDOW).unwrap_or(i64::MAX);
        let calls = [
            call!(SUMMARIES, wanted.clone()),
            call!(ATTRIBUTES_OF_JOBS, wanted.clone()),
            call!(PLANS, wanted.clone()),
            call!(STEPS, wanted, window),
        ];
        let mut found = self.read_all(&calls).await?.into_iter();
        let mut next = || found.next().unwrap_or_default();
        let (sums, attributes, plans, steps) = (next(), next(), next(), next());
        Ok(lists::summaries(
            sums.iter().map(rows::summary).collect::<Result<_, PgError>>()?,
            attributes.iter().map(rows::attribute).collect::<Result<_, PgError>>()?,
            plans.iter().map(rows::plan).collect::<Result<_, PgError>>()?,
            steps.iter().map(rows::tool_entry).collect::<Result<_, PgError>>()?,
        ))
    }

    async fn jobs_of_projects(&self) -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError> {
        let mut found = self.read_all(&[call!(RUNNING_OF_PROJECTS), call!(OPEN_PULLS_OF_PROJECTS)]).await?.into_iter();
        let mut next = || found.next().unwrap_or_default();
        let (running, pulls) = (next(), next());
        Ok(lists::project_jobs(
            running.iter().map(rows::project_running).collect::<Result<_, PgError>>()?,
            pulls.iter().map(rows::project_pulls).collect::<Result<_, PgError>>()?,
        ))
    }

    async fn plan_before(&self, job: JobId, before: u64) -> Result<Option<LogEntry>, StoreError> {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let found = self.read(call!(PLAN_BEFORE, job.to_string(), before)).await?;
        Ok(found.first().map(rows::log_entry).transpose()?)
    }

    async fn count_steps(&self, job: JobId, entries: Range<u64>) -> Result<u64, StoreError> {
        let bound = |seq| i64::try_from(seq).unwrap_or(i64::MAX);
        let found = self.read(call!(COUNT_STEPS, job.to_string(), bound(entries.start), bound(entries.end))).await?;
        Ok(counted(&found)?)
    }
}

const ATTRIBUTES_OF_JOBS: &str = "SELECT job, attribute FROM job_attributes WHERE job = ANY ($1)";

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

/// Selects the newest jobs of a project; filters that are not set have values that match everything. Only ASCII letters
/// match in either case, as in SQLite.
macro_rules! list {
    ($columns:literal, $status:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM jobs
             WHERE project = $1 AND created_at > $2 AND (created_at, id) < ($3, $4)
               AND strpos(lower(title), lower($5 COLLATE \"C\")) > 0",
            $status,
            " ORDER BY created_at DESC, id DESC"
        )
    };
}

pub(super) const LIST: &str = concat!(list!("id, state, diff, effort", " AND $7 = ''"), " LIMIT $6");

/// A separate query, because PostgreSQL would not use the index by status otherwise.
pub(super) const LIST_OF_STATUS: &str = concat!(list!("id, state, diff, effort", " AND status = $7"), " LIMIT $6");

/// Selects the newest jobs that match a search. The inner query needs only the index; the outer query reads the found
/// jobs, one after the other. `LIMIT $8` limits nothing: it keeps the inner query separate and in the order of the
/// index, because the planner expects to read only a fraction of it.
pub(super) const SEARCH: &str = concat!(
    "SELECT job.id, job.state, job.diff, job.effort FROM (",
    list!("id, created_at", ""),
    " LIMIT $8) AS hit CROSS JOIN LATERAL (
         SELECT id, state, diff, effort FROM jobs WHERE id = hit.id AND $7 IN ('', status) OFFSET 0
     ) AS job
     ORDER BY hit.created_at DESC, hit.id DESC LIMIT $6"
);

/// Selects the newest jobs by rarer properties: an inner query finds them, and the outer query reads them, one after the
/// other, like [`SEARCH`].
macro_rules! list_by {
    ($hits:literal) => {
        concat!(
            "SELECT job.id, job.state, job.diff, job.effort FROM (",
            $hits,
            ") AS hit CROSS JOIN LATERAL (
                 SELECT id, state, diff, effort FROM jobs
                 WHERE id = hit.id AND strpos(lower(title), lower($5 COLLATE \"C\")) > 0 AND $7 IN ('', status)
                   AND $8 IN ('', branch)
                   AND ($9::bigint < 0 OR EXISTS (SELECT 1 FROM job_pulls WHERE job = hit.id COLLATE \"default\" AND number = $9))
                   AND ($11 = '' OR EXISTS (SELECT 1 FROM job_pulls WHERE job = hit.id COLLATE \"default\" AND state = $11))
                   AND NOT EXISTS (
                       SELECT 1 FROM unnest($10::text[]) AS wanted (attribute)
                       WHERE NOT EXISTS (
                           SELECT 1 FROM job_attributes AS own
                           WHERE own.project = $1 AND own.attribute = wanted.attribute
                             AND own.created_at = hit.created_at AND own.job = hit.id
                       )
                   )
                   AND ($13::text[] = '{}' OR EXISTS (
                       SELECT 1 FROM unnest($13::text[]) AS wanted (attribute)
                       JOIN job_attributes AS own ON own.attribute = wanted.attribute
                       WHERE own.project = $1 AND own.created_at = hit.created_at AND own.job = hit.id
                   ))
                 OFFSET 0
             ) AS job
             ORDER BY hit.created_at DESC, hit.id DESC LIMIT $6"
        )
    };
}

/// `LIMIT $12` limits nothing, as in [`SEARCH`].
pub(super) const LIST_OF_ATTRIBUTE: &str = list_by!(
    "SELECT job AS id, created_at FROM job_attributes
     WHERE project = $1 AND attribute = ($10::text[])[1] AND created_at > $2 AND (created_at, job) < ($3, $4)
     ORDER BY created_at DESC, job DESC LIMIT $12"
);
pub(super) const LIST_OF_STATUS_WITH_ATTRIBUTES: &str = list_by!(
    "SELECT id, created_at FROM jobs
     WHERE project = $1 AND status = $7 AND created_at > $2 AND (created_at, id) < ($3, $4)
     ORDER BY created_at DESC, id DESC LIMIT $12"
);
pub(super) const LIST_OF_PULL: &str = list_by!(
    "SELECT DISTINCT jobs.id, jobs.created_at FROM job_pulls JOIN jobs ON jobs.id = job_pulls.job
     WHERE job_pulls.project = $1 AND job_pulls.number = $9 AND jobs.created_at > $2
       AND (jobs.created_at, jobs.id) < ($3, $4)
     LIMIT $12"
);
pub(super) const LIST_OF_BRANCH: &str = list_by!(
    "SELECT id, created_at FROM jobs
     WHERE project = $1 AND branch = $8 AND created_at > $2 AND (created_at, id) < ($3, $4) LIMIT $12"
);

pub(super) const LIST_OF_OPEN_PULL: &str = list_by!(
    "SELECT DISTINCT jobs.id, jobs.created_at FROM job_pulls JOIN jobs ON jobs.id = job_pulls.job
     WHERE job_pulls.project = $1 AND job_pulls.state = 'open' AND jobs.created_at > $2
       AND (jobs.created_at, jobs.id) < ($3, $4)
     LIMIT $12"
);
pub(super) const LIST_WITH_PROPERTIES: &str = list_by!(
    "SELECT id, created_at FROM jobs
     WHERE project = $1 AND created_at > $2 AND (created_at, id) < ($3, $4)
     ORDER BY created_at DESC, id DESC LIMIT $12"
);

/// Selects the sums over the messages and runs of jobs. The messages are counted in their index. An index is only used
/// for comparisons in the order of its column, so the keys of `spending` are compared in the default order.
pub(super) const SUMMARIES: &str = "
    SELECT jobs.id AS job,
        (SELECT count(*) FROM messages WHERE messages.job = jobs.id) AS messages,
        (SELECT sum(greatest(finished_at - started_at, 0))::bigint FROM runs
         WHERE runs.job = jobs.id AND finished_at IS NOT NULL) AS run_time,
        (SELECT max(started_at) FROM runs WHERE runs.job = jobs.id AND runs.status = 'running') AS running_since,
        (SELECT runs.id FROM runs WHERE runs.job = jobs.id AND runs.status = 'running' ORDER BY number DESC LIMIT 1) AS run,
        (SELECT micros FROM spending
         WHERE spending.project = jobs.project COLLATE \"default\" AND kind = 'job'
             AND subject = jobs.id COLLATE \"default\") AS cost_micros
    FROM jobs WHERE jobs.id = ANY ($1)";

/// Selects the newest plan of each job that a worker has a lease on. The partial index `log_plans` has only the plans.
pub(super) const PLANS: &str = "
    SELECT plan.job, plan.run, plan.data
    FROM jobs CROSS JOIN LATERAL (
        SELECT job, run, data FROM log WHERE log.job = jobs.id AND type = 'agent.plan' ORDER BY seq DESC LIMIT 1
    ) AS plan
    WHERE jobs.id = ANY ($1) AND jobs.worker IS NOT NULL";

/// Selects the newest plan among the entries of a job's log before one of them.
const PLAN_BEFORE: &str =
    "SELECT * FROM log WHERE job = $1 AND type = 'agent.plan' AND seq < $2 ORDER BY seq DESC LIMIT 1";

/// Counts the tool calls that began in some entries of a job's log.
const COUNT_STEPS: &str = "
    SELECT count(*) FROM log
    WHERE job = $1 AND seq >= $2 AND seq < $3 AND type = 'agent.tool_call'
        AND (data::json -> 'update')::text IS DISTINCT FROM 'true'";

/// Selects the entries of tool calls among the last entries of the log of each job that a worker has a lease on. `$2` is
/// the number of these entries. An agent may give a field another type than text. `OFFSET 0` keeps the planner from parsing
/// an entry, of up to 256 KB, once for each field.
pub(super) const STEPS: &str = "
    SELECT step.job, step.seq, step.run,
        CASE jsonb_typeof(step.data -> 'toolCallId') WHEN 'string' THEN step.data ->> 'toolCallId' END AS call,
        CASE jsonb_typeof(step.data -> 'title') WHEN 'string' THEN step.data ->> 'title' END AS title,
        CASE jsonb_typeof(step.data -> 'status') WHEN 'string' THEN step.data ->> 'status' END AS status
    FROM jobs CROSS JOIN LATERAL (
        SELECT job, seq, run, data::jsonb AS data FROM log
        WHERE log.job = jobs.id AND type = 'agent.tool_call'
            AND seq > (SELECT max(newest.seq) FROM log AS newest WHERE newest.job = jobs.id) - $2
        OFFSET 0
    ) AS step
    WHERE jobs.id = ANY ($1) AND jobs.worker IS NOT NULL";

const RUNNING_OF_PROJECTS: &str = "
    SELECT project, count(*) AS running FROM jobs WHERE due_at IS NOT NULL AND worker IS NOT NULL GROUP BY project";

/// Counts along the index for each project, instead of reading all pull requests. `OFFSET 0` keeps the server from
/// counting twice.
const OPEN_PULLS_OF_PROJECTS: &str = "
    SELECT project, pulls FROM (
        SELECT id AS project,
            (SELECT count(*) FROM job_pulls
             WHERE job_pulls.project = projects.id COLLATE \"default\" AND state = 'open') AS pulls
        FROM projects OFFSET 0
    ) AS counts WHERE pulls > 0";

/// Counts the jobs with a status, at most `$2`, of all projects and of one. The order makes the planner read the index,
/// which has it, and stop at the limit; a bitmap would be built of all jobs with the status first.
pub(super) const COUNT_OF_STATUS: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM projects CROSS JOIN LATERAL (
            SELECT 1 FROM jobs WHERE project = projects.id AND status = $1 ORDER BY created_at DESC, id DESC LIMIT $2
        ) AS job LIMIT $2
    ) AS counted";
pub(super) const COUNT_OF_PROJECT_AND_STATUS: &str = "
    SELECT count(*) FROM (
        SELECT 1 FROM jobs WHERE project = $3 AND status = $1 ORDER BY created_at DESC, id DESC LIMIT $2
    ) AS counted";

/// The number of projects whose jobs are read in one round trip.
const PROJECTS_AT_ONCE: usize = 50;

/// Returns the statement that reads the jobs of one project.
fn list(filter: &JobFilter) -> Query {
    let (before_at, before_id) = lists::beginning(filter);
    let listing = Listing::of(filter);
    let mut call = call!(
        match listing {
            Listing::All => LIST,
            Listing::OfStatus => LIST_OF_STATUS,
            Listing::Search => SEARCH,
            Listing::OfAttribute => LIST_OF_ATTRIBUTE,
            Listing::OfStatusWithAttributes => LIST_OF_STATUS_WITH_ATTRIBUTES,
            Listing::OfPull => LIST_OF_PULL,
            Listing::OfBranch => LIST_OF_BRANCH,
            Listing::OfOpenPull => LIST_OF_OPEN_PULL,
            Listing::WithProperties => LIST_WITH_PROPERTIES,
        },
        filter.projects.iter().flatten().next().map_or_else(String::new, ToString::to_string),
        filter.created_after.map_or(i64::MIN, Timestamp::as_micros),
        before_at,
        before_id,
        filter.title_contains.clone().unwrap_or_default(),
        i64::try_from(filter.limit).unwrap_or(i64::MAX),
        filter.status.map(|status| status.name()).unwrap_or_default(),
    );
    if listing.has_properties() {
        call.values.push(Box::new(filter.branch.clone().unwrap_or_default()));
        call.values.push(Box::new(filter.pull.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX))));
        call.values.push(Box::new(filter.attributes.iter().map(ToString::to_string).collect::<Vec<String>>()));
        call.values.push(Box::new(filter.pull_state.map(|state| state.name()).unwrap_or_default()));
    }
    if !matches!(listing, Listing::All | Listing::OfStatus) {
        call.values.push(Box::new(i64::MAX));
    }
    if listing.has_properties() {
        call.values.push(Box::new(filter.any_of.iter().map(ToString::to_string).collect::<Vec<String>>()));
    }
    call
}

#[cfg(test)]
mod tests;
