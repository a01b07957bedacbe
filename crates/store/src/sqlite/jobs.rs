//! Jobs, messages, runs and logs.

use async_trait::async_trait;
use journeyman_core::idempotency;
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::job::Job;
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::ports::{
    Accepted, ClaimFn, ClaimQuery, Decide, Guard, JobFilter, JobStore, PATIENCE, StoreError, UpdateError,
};
use journeyman_core::rate::{self, RateState, Window};
use journeyman_core::run::{Run, RunStatus};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::rows::{ReadError, collect};
use super::write::OpError;
use crate::rows::{self, name_of, to_json};

type Op<T> = Result<T, OpError<UpdateError>>;

#[async_trait]
impl JobStore for SqliteStore {
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError> {
        let wakeups = self.wakeups.clone();
        let accepted = self
            .writer
            .write(move |db| {
                if let Some(replay) = replay(db, &guard, now)? {
                    return Ok(replay);
                }
                let rate = charge(db, &guard, now)?;
                if !insert_job(db, &change.job)? {
                    return Err(OpError::Refused(UpdateError::NoProject));
                }
                Ok(accept(db, &guard, rate, &change, now)?)
            })
            .await?;
        wake(&wakeups, accepted.job.as_ref());
        Ok(accepted)
    }

    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        mut decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError> {
        let accepted = self
            .writer
            .write(move |db| {
                if let Some(replay) = replay(db, &guard, now)? {
                    return Ok(replay);
                }
                let job = job_by_id(db, id)?.filter(|job| project.as_ref().is_none_or(|own| *own == job.project));
                let job = job.ok_or(OpError::Refused(UpdateError::NotFound))?;
                let change = decide(&job).map_err(|rejected| OpError::Refused(rejected.into()))?;
                let rate = charge(db, &guard, now)?;
                if !change.is_empty(&job) {
                    update_job(db, &change.job)?;
                }
                Ok(accept(db, &guard, rate, &change, now)?)
            })
            .await?;
        wake(&self.wakeups, accepted.job.as_ref());
        Ok(accepted)
    }

    async fn claim_job(&self, query: ClaimQuery, mut claim: ClaimFn) -> Result<Option<Job>, StoreError> {
        let claimed: Option<Job> = self
            .writer
            .write(move |db| {
                let Some(job) = due_job(db, query)? else { return Ok(None) };
                // What was picked is due; a refusal can only mean that there is nothing to do after all.
                let Ok(change) = claim(&job) else { return Ok::<_, OpError<StoreError>>(None) };
                update_job(db, &change.job)?;
                write_rows(db, &change)?;
                Ok(Some(change.job))
            })
            .await?;
        wake(&self.wakeups, claimed.as_ref());
        Ok(claimed)
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.readers.find(|db| job_by_id(db, id))
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError> {
        self.readers.read(move |db| list(db, &filter)).await
    }

    async fn active_jobs(&self) -> Result<u64, StoreError> {
        let count = "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL";
        let count =
            self.readers.read(move |db| Ok(db.prepare_cached(count)?.query_row([], |row| row.get::<_, i64>(0))?));
        Ok(u64::try_from(count.await?).unwrap_or(0))
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM messages WHERE job = ?1 ORDER BY number")?;
                let mut rows = query.query([job.to_string()])?;
                collect(&mut rows, |row| rows::message(row))
            })
            .await
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM messages WHERE id = ?1")?;
                let mut rows = query.query([id.to_string()])?;
                rows.next()?.map(rows::message).transpose()
            })
            .await
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM runs WHERE job = ?1 ORDER BY number")?;
                let mut rows = query.query([job.to_string()])?;
                collect(&mut rows, |row| rows::run(row))
            })
            .await
    }

    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM log WHERE job = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
                let (after, limit) = (i64::try_from(after), i64::try_from(limit));
                let mut query = db.prepare_cached(text)?;
                let (after, limit) = (after.unwrap_or(i64::MAX), limit.unwrap_or(i64::MAX));
                let mut rows = query.query(params![job.to_string(), after, limit])?;
                collect(&mut rows, |row| rows::log_entry(row))
            })
            .await
    }

    async fn job_changed(&self, job: JobId, after: u64) {
        let mut listener = self.wakeups.listen(job);
        // A failing read wakes the caller too: it will meet the error itself.
        if !matches!(self.job(job).await, Ok(Some(job)) if job.last_seq <= after) {
            return;
        }
        listener.beyond(after).await;
    }

    fn work_version(&self) -> u64 {
        self.wakeups.work_version()
    }

    async fn work_changed(&self, seen: u64) {
        self.wakeups.work_changed(seen).await;
    }
}

fn wake(wakeups: &crate::wakeups::Wakeups, job: Option<&Job>) {
    if let Some(job) = job {
        let change = Change { job: job.clone(), rows: Vec::new(), log: Vec::new() };
        wakeups.committed(job.id, job.last_seq, change.wakes_workers());
    }
}

/// The answer to give again, if the request was done before.
fn replay(db: &Connection, guard: &Guard, now: Timestamp) -> Op<Option<Accepted>> {
    let Some(claim) = &guard.idempotency else { return Ok(None) };
    let text = "SELECT * FROM idempotency_keys WHERE project = ?1 AND key = ?2";
    let mut query = db.prepare_cached(text)?;
    let mut rows = query.query([claim.project.as_str(), &claim.key])?;
    let known = rows.next()?.map(rows::remembered).transpose()?;
    let record = idempotency::check(claim, known, now).map_err(|reused| OpError::Refused(reused.into()))?;
    Ok(record.map(|record| Accepted { record, replayed: true, rate: None, job: None }))
}

/// The window to store and what is left of the limit.
fn charge(db: &Connection, guard: &Guard, now: Timestamp) -> Op<Option<(Window, RateState)>> {
    let Some(charge) = &guard.rate else { return Ok(None) };
    let text = "SELECT * FROM rate_windows WHERE project = ?1 AND kind = ?2";
    let mut query = db.prepare_cached(text)?;
    let mut rows = query.query([charge.project.as_str(), charge.kind.name()])?;
    let window = rows.next()?.map(rows::window).transpose()?;
    let refused = |state| OpError::Refused(UpdateError::RateLimited(charge.kind, state));
    rate::charge(window, charge.limit, now).map(Some).map_err(refused)
}

fn accept(
    db: &Connection,
    guard: &Guard,
    rate: Option<(Window, RateState)>,
    change: &Change,
    now: Timestamp,
) -> Result<Accepted, ReadError> {
    let record = change.job.record();
    if let (Some(charge), Some((window, _))) = (&guard.rate, rate) {
        db.prepare_cached(
            "INSERT OR REPLACE INTO rate_windows (project, kind, started_at, used) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            charge.project.as_str(),
            charge.kind.name(),
            window.started_at.as_micros(),
            window.used
        ])?;
    }
    if let Some(claim) = &guard.idempotency {
        db.prepare_cached(
            "INSERT OR REPLACE INTO idempotency_keys (project, key, fingerprint, at, record) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            claim.project.as_str(),
            claim.key,
            claim.fingerprint.0,
            now.as_micros(),
            to_json(&record)?
        ])?;
    }
    write_rows(db, change)?;
    Ok(Accepted { record, replayed: false, rate: rate.map(|(_, state)| state), job: Some(change.job.clone()) })
}

/// False if the job's project is not there.
fn insert_job(db: &Connection, job: &Job) -> Result<bool, ReadError> {
    let inserted = db
        .prepare_cached(
            "INSERT INTO jobs (id, project, status, title, created_at, due_at, worker, prefers, state)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE EXISTS (SELECT 1 FROM projects WHERE id = ?2)",
        )?
        .execute(params![
            job.id.to_string(),
            job.project.as_str(),
            job.status().name(),
            job.title,
            job.created_at.as_micros(),
            job.due_at().map(Timestamp::as_micros),
            job.lease().map(|lease| lease.worker.to_string()),
            job.prefers().map(|warm| warm.to_string()),
            to_json(job)?
        ])?;
    Ok(inserted > 0)
}

fn update_job(db: &Connection, job: &Job) -> Result<(), ReadError> {
    let text = "UPDATE jobs SET status = ?2, due_at = ?3, worker = ?4, prefers = ?5, state = ?6 WHERE id = ?1";
    db.prepare_cached(text)?.execute(params![
        job.id.to_string(),
        job.status().name(),
        job.due_at().map(Timestamp::as_micros),
        job.lease().map(|lease| lease.worker.to_string()),
        job.prefers().map(|warm| warm.to_string()),
        to_json(job)?
    ])?;
    Ok(())
}

fn write_rows(db: &Connection, change: &Change) -> Result<(), ReadError> {
    for row in &change.rows {
        write_row(db, row)?;
    }
    let insert = "INSERT INTO log (job, seq, type, at, run, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for entry in &change.log {
        db.prepare_cached(insert)?.execute(params![
            change.job.id.to_string(),
            i64::try_from(entry.seq).unwrap_or(i64::MAX),
            entry.kind,
            entry.at.as_micros(),
            entry.run_id.map(|run| run.to_string()),
            entry.data.to_string()
        ])?;
    }
    Ok(())
}

fn write_row(db: &Connection, row: &Row) -> Result<(), ReadError> {
    match row {
        Row::InsertMessage(message) => db
            .prepare_cached(
                "INSERT INTO messages (id, job, prompt, origin, author, delivery, status, created_at, commits)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '[]')",
            )?
            .execute(params![
                message.id.to_string(),
                message.job.to_string(),
                message.prompt,
                name_of(&message.origin)?,
                message.author,
                name_of(&message.delivery)?,
                name_of(&message.status)?,
                message.created_at.as_micros()
            ])?,
        Row::MessageDelivered { id, run, at } => db
            .prepare_cached(
                "UPDATE messages SET status = ?2, run = ?3, delivered_at = coalesce(delivered_at, ?4) WHERE id = ?1",
            )?
            .execute(params![id.to_string(), name_of(&MessageStatus::Delivered)?, run.to_string(), at.as_micros()])?,
        Row::MessageEnded { id, status, at, commits, pr_link } => db
            .prepare_cached(
                "UPDATE messages SET status = ?2, finished_at = ?3, commits = ?4, pr_link = ?5 WHERE id = ?1",
            )?
            .execute(params![id.to_string(), name_of(status)?, at.as_micros(), to_json(commits)?, pr_link])?,
        Row::InsertRun(run) => db
            .prepare_cached(
                "INSERT INTO runs (id, job, message, attempt, status, worker, started_at, usage, commits)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '[]')",
            )?
            .execute(params![
                run.id.to_string(),
                run.job.to_string(),
                run.message.to_string(),
                run.attempt,
                name_of(&RunStatus::Running)?,
                run.worker.to_string(),
                run.started_at.as_micros(),
                to_json(&run.usage)?
            ])?,
        Row::RunEnded { id, status, reason, at, usage, commits } => db
            .prepare_cached(
                "UPDATE runs SET status = ?2, reason = ?3, finished_at = ?4, usage = ?5, commits = ?6 WHERE id = ?1",
            )?
            .execute(params![
                id.to_string(),
                name_of(status)?,
                reason.as_ref().map(to_json).transpose()?,
                at.as_micros(),
                to_json(usage)?,
                to_json(commits)?
            ])?,
    };
    Ok(())
}

fn job_by_id(db: &Connection, id: JobId) -> Result<Option<Job>, ReadError> {
    let mut query = db.prepare_cached("SELECT id, state FROM jobs WHERE id = ?1")?;
    let mut rows = query.query([id.to_string()])?;
    rows.next()?.map(rows::job).transpose()
}

/// The job that [`ClaimQuery`] describes. The first part walks from project to project along the index over due jobs, so
/// that the cost grows with the projects that have any, and not with their jobs.
const DUE_JOB: &str = "
    WITH RECURSIVE owners (project) AS (
        SELECT min(project) FROM jobs WHERE due_at IS NOT NULL
        UNION ALL
        SELECT (SELECT min(project) FROM jobs WHERE due_at IS NOT NULL AND project > owners.project)
        FROM owners WHERE owners.project IS NOT NULL
    ), shares AS (
        SELECT project,
            (SELECT count(*) FROM jobs WHERE project = owners.project AND due_at > ?1 AND worker IS NOT NULL) AS live,
            (SELECT concurrent_runs FROM projects WHERE id = owners.project) AS most
        FROM owners WHERE project IS NOT NULL
    ), heads AS (
        SELECT live, (
            SELECT id FROM jobs
            WHERE project = shares.project AND due_at <= ?1 AND (prefers IS NULL OR prefers = ?2 OR due_at <= ?3)
            ORDER BY due_at, id LIMIT 1
        ) AS id
        FROM shares WHERE most IS NULL OR live < most
    )
    SELECT jobs.id, jobs.state FROM heads JOIN jobs ON jobs.id = heads.id
    ORDER BY heads.live, jobs.due_at, jobs.id LIMIT 1";

fn due_job(db: &Connection, ClaimQuery { now, worker }: ClaimQuery) -> Result<Option<Job>, ReadError> {
    let mut query = db.prepare_cached(DUE_JOB)?;
    let mut rows = query.query(params![now.as_micros(), worker.to_string(), (now - PATIENCE).as_micros()])?;
    rows.next()?.map(rows::job).transpose()
}

fn list(db: &Connection, filter: &JobFilter) -> Result<Vec<Job>, ReadError> {
    // instr and not LIKE: the text is taken as it is, with no wildcards in it.
    let mut query = db.prepare_cached(
        "SELECT id, state FROM jobs
         WHERE project = ?1
           AND (?2 IS NULL OR status = ?2)
           AND (?3 IS NULL OR created_at > ?3)
           AND (?4 IS NULL OR created_at < ?4)
           AND (?5 IS NULL OR (created_at, id) < (?5, ?6))
           AND (?7 IS NULL OR instr(lower(title), lower(?7)) > 0)
         ORDER BY created_at DESC, id DESC LIMIT ?8",
    )?;
    let mut rows = query.query(params![
        filter.project.as_str(),
        filter.status.map(|status| status.name()),
        filter.created_after.map(Timestamp::as_micros),
        filter.created_before.map(Timestamp::as_micros),
        filter.after.map(|place| place.created_at.as_micros()),
        filter.after.map(|place| place.id.to_string()),
        filter.title_contains,
        i64::try_from(filter.limit).unwrap_or(i64::MAX)
    ])?;
    collect(&mut rows, |row| rows::job(row))
}
