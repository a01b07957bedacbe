//! Jobs, messages, runs and logs.

use async_trait::async_trait;
use journeyman_core::idempotency::{self, Fingerprint, Remembered};
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::job::Job;
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::ports::{Accepted, ClaimFn, Decide, Guard, JobFilter, JobStore, StoreError, UpdateError};
use journeyman_core::rate::{self, RateState, Window};
use journeyman_core::run::{Run, RunStatus};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::rows::{At, ReadError, name_of, to_json};
use super::write::OpError;

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
                insert_job(db, &change.job)?;
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

    async fn claim_job(&self, now: Timestamp, mut claim: ClaimFn) -> Result<Option<Job>, StoreError> {
        let claimed: Option<Job> = self
            .writer
            .write(move |db| {
                let Some(job) = due_job(db, now)? else { return Ok(None) };
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
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(message(row)?);
                }
                Ok(found)
            })
            .await
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM messages WHERE id = ?1")?;
                let mut rows = query.query([id.to_string()])?;
                rows.next()?.map(message).transpose()
            })
            .await
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM runs WHERE job = ?1 ORDER BY number")?;
                let mut rows = query.query([job.to_string()])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(run(row)?);
                }
                Ok(found)
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
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(log_entry(row)?);
                }
                Ok(found)
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
    let text = "SELECT project || '/' || key AS place, * FROM idempotency_keys WHERE project = ?1 AND key = ?2";
    let mut query = db.prepare_cached(text)?;
    let mut rows = query.query([claim.project.as_str(), &claim.key])?;
    let known = rows.next()?.map(|row| -> Result<Remembered, ReadError> {
        let at = At::new("idempotency_keys", row, "place")?;
        let fingerprint = Fingerprint(at.get("fingerprint")?);
        Ok(Remembered { fingerprint, at: at.time("at")?, record: at.json("record")? })
    });
    let known = known.transpose()?;
    let record = idempotency::check(claim, known, now).map_err(|reused| OpError::Refused(reused.into()))?;
    Ok(record.map(|record| Accepted { record, replayed: true, rate: None, job: None }))
}

/// The window to store and what is left of the limit.
fn charge(db: &Connection, guard: &Guard, now: Timestamp) -> Op<Option<(Window, RateState)>> {
    let Some(charge) = &guard.rate else { return Ok(None) };
    let window = db
        .prepare_cached("SELECT started_at, used FROM rate_windows WHERE project = ?1 AND kind = ?2")?
        .query_row([charge.project.as_str(), charge.kind.name()], |row| {
            Ok(Window { started_at: Timestamp::from_micros(row.get(0)?), used: row.get(1)? })
        })
        .optional()?;
    let refused = |state| OpError::Refused(UpdateError::RateLimited(charge.kind, state));
    rate::charge(window, charge.limit, now).map(Some).map_err(refused)
}

fn accept(
    db: &Connection,
    guard: &Guard,
    rate: Option<(Window, RateState)>,
    change: &Change,
    now: Timestamp,
) -> rusqlite::Result<Accepted> {
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

fn insert_job(db: &Connection, job: &Job) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO jobs (id, project, status, title, created_at, due_at, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        job.id.to_string(),
        job.project.as_str(),
        job.status().name(),
        job.title,
        job.created_at.as_micros(),
        job.due_at().map(Timestamp::as_micros),
        to_json(job)?
    ])?;
    Ok(())
}

fn update_job(db: &Connection, job: &Job) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE jobs SET status = ?2, due_at = ?3, state = ?4 WHERE id = ?1")?.execute(params![
        job.id.to_string(),
        job.status().name(),
        job.due_at().map(Timestamp::as_micros),
        to_json(job)?
    ])?;
    Ok(())
}

fn write_rows(db: &Connection, change: &Change) -> rusqlite::Result<()> {
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

fn write_row(db: &Connection, row: &Row) -> rusqlite::Result<()> {
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

fn job(row: &rusqlite::Row<'_>) -> Result<Job, ReadError> {
    At::new("jobs", row, "id")?.json("state")
}

fn job_by_id(db: &Connection, id: JobId) -> Result<Option<Job>, ReadError> {
    let mut query = db.prepare_cached("SELECT id, state FROM jobs WHERE id = ?1")?;
    let mut rows = query.query([id.to_string()])?;
    rows.next()?.map(job).transpose()
}

fn due_job(db: &Connection, now: Timestamp) -> Result<Option<Job>, ReadError> {
    let text = "SELECT id, state FROM jobs WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at, id LIMIT 1";
    let mut query = db.prepare_cached(text)?;
    let mut rows = query.query([now.as_micros()])?;
    rows.next()?.map(job).transpose()
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
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(job(row)?);
    }
    Ok(found)
}

fn message(row: &rusqlite::Row<'_>) -> Result<Message, ReadError> {
    let at = At::new("messages", row, "id")?;
    Ok(Message {
        id: at.parsed("id")?,
        job: at.parsed("job")?,
        prompt: at.get("prompt")?,
        origin: at.named("origin")?,
        author: at.get("author")?,
        delivery: at.named("delivery")?,
        status: at.named("status")?,
        created_at: at.time("created_at")?,
        delivered_at: at.time_or_null("delivered_at")?,
        finished_at: at.time_or_null("finished_at")?,
        run: at.parsed_or_null("run")?,
        commits: at.json("commits")?,
        pr_link: at.get("pr_link")?,
    })
}

fn run(row: &rusqlite::Row<'_>) -> Result<Run, ReadError> {
    let at = At::new("runs", row, "id")?;
    Ok(Run {
        id: at.parsed("id")?,
        job: at.parsed("job")?,
        message: at.parsed("message")?,
        attempt: at.get("attempt")?,
        status: at.named("status")?,
        reason: at.json_or_null("reason")?,
        worker: at.parsed("worker")?,
        started_at: at.time("started_at")?,
        finished_at: at.time_or_null("finished_at")?,
        usage: at.json("usage")?,
        commits: at.json("commits")?,
    })
}

fn log_entry(row: &rusqlite::Row<'_>) -> Result<LogEntry, ReadError> {
    let at = At::new("log", row, "job")?;
    let seq: i64 = at.get("seq")?;
    Ok(LogEntry {
        seq: u64::try_from(seq).map_err(|_| at.corrupt("seq is negative"))?,
        kind: at.get("type")?,
        at: at.time("at")?,
        run_id: at.parsed_or_null("run")?,
        data: at.json("data")?,
    })
}
