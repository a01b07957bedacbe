//! The statements that accept requests.

use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::label::Attribute;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::model::Effort;
use journeyman_core::ports::{Answer, RateCharge, UpdateError};
use journeyman_core::rate::Window;
use journeyman_core::run::{ReasonCode, Run, RunStatus, Usage};
use journeyman_core::time::Timestamp;
use journeyman_core::trace::TraceParent;
use journeyman_core::usage::UsageSum;
use rusqlite::{Connection, params};

use super::error::{OpError, ReadError};
use super::tx::{execute, execute_all};
use super::write::Session;
use super::{feed, usage};
use crate::accept::Ledger;
use crate::rows::{self, name_of, to_json};
use crate::sql::checks::put_watch;
use crate::sql::code_hosts::{put_pull, set_pull_state};
use crate::sql::inbox::{events_done, put_issue_job};
use crate::sql::outbox::insert_task;

type Op<T> = Result<T, OpError<UpdateError>>;

/// The tables, inside a transaction.
pub(super) struct Tables<'a>(pub(super) &'a Session<'a>);

impl Ledger for Tables<'_> {
    type Error = OpError<UpdateError>;

    fn epoch(&self) -> u64 {
        self.0.epoch.base
    }

    fn remembered(&mut self, scope: &str, key: &str) -> Op<Option<Remembered<Answer>>> {
        let mut query = self.0.prepare_cached("SELECT * FROM idempotency_keys WHERE project = ?1 AND key = ?2")?;
        let mut rows = query.query([scope, key])?;
        Ok(rows.next()?.map(rows::remembered_job).transpose()?)
    }

    fn window(&mut self, charge: &RateCharge) -> Op<Option<Window>> {
        let mut query = self.0.prepare_cached("SELECT * FROM rate_windows WHERE project = ?1 AND kind = ?2")?;
        let mut rows = query.query([charge.project.as_str(), charge.kind.name()])?;
        Ok(rows.next()?.map(rows::window).transpose()?)
    }

    fn has_project(&mut self, project: &ProjectId) -> Op<bool> {
        Ok(self.0.prepare_cached("SELECT 1 FROM projects WHERE id = ?1")?.exists([project.as_str()])?)
    }

    fn job(&mut self, id: JobId) -> Op<Option<Job>> {
        match self.0.known(id) {
            Some(job) => Ok(Some(job)),
            None => Ok(job_by_id(self.0, id)?),
        }
    }

    fn branch_holder(&mut self, job: &Job) -> Op<Option<JobId>> {
        let mut query = self.0.prepare_cached(
            "SELECT id FROM jobs WHERE project = ?1 AND branch = ?2 AND status <> 'archived' AND id <> ?3 LIMIT 1",
        )?;
        let mut rows = query.query(params![job.project.as_str(), job.branch_name(), job.id.to_string()])?;
        Ok(rows.next()?.map(rows::job_id).transpose()?)
    }

    fn remember(&mut self, claim: &Claim, known: Remembered<Answer>) -> Op<()> {
        let (scope, record) = (claim.scope(), to_json(&known.answer)?);
        self.0
            .prepare_cached(
                "INSERT OR REPLACE INTO idempotency_keys (project, key, fingerprint, at, record)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![scope, claim.stored_key(), known.fingerprint.0, known.at.as_micros(), record])?;
        Ok(())
    }

    fn count(&mut self, charge: &RateCharge, window: Window) -> Op<()> {
        let (project, kind) = (charge.project.as_str(), charge.kind.name());
        self.0
            .prepare_cached(
                "INSERT OR REPLACE INTO rate_windows (project, kind, started_at, used) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![project, kind, window.started_at.as_micros(), window.used])?;
        Ok(())
    }

    fn insert(&mut self, change: &Change) -> Op<()> {
        insert_job(self.0, &change.job)?;
        self.0.wrote(change.job.clone());
        write_rows(self.0, change)?;
        Ok(())
    }

    fn update(&mut self, change: &Change) -> Op<()> {
        write(self.0, change)?;
        Ok(())
    }
}

/// Reads a job.
pub(super) fn job_by_id(db: &Connection, id: JobId) -> Result<Option<Job>, ReadError> {
    let mut query = db.prepare_cached("SELECT id, state, diff, effort FROM jobs WHERE id = ?1")?;
    let mut rows = query.query([id.to_string()])?;
    rows.next()?.map(rows::job).transpose()
}

fn insert_job(db: &Connection, job: &Job) -> Result<(), ReadError> {
    db.prepare_cached(
        // A new job neither waits for a cause nor avoids a worker.
        "INSERT INTO jobs (id, project, status, title, created_at, due_at, worker, prefers, rests_since, state,
                           branch, diff, effort)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        job.id.to_string(),
        job.project.as_str(),
        job.status().name(),
        job.title,
        job.created_at.as_micros(),
        job.due_at().map(Timestamp::as_micros),
        job.lease().map(|lease| lease.worker.to_string()),
        job.prefers().map(|worker| worker.to_string()),
        job.rests_since().map(Timestamp::as_micros),
        to_json(job)?,
        job.branch_name(),
        rows::job_diff(job)?,
        job.effort.map(Effort::name)
    ])?;
    Ok(())
}

fn insert_attributes(db: &Connection, job: &Job, attributes: &[Attribute]) -> Result<(), ReadError> {
    let text = "INSERT INTO job_attributes (project, attribute, created_at, job) VALUES (?1, ?2, ?3, ?4)";
    let (project, at, id) = (job.project.as_str(), job.created_at.as_micros(), job.id.to_string());
    for attribute in attributes {
        db.prepare_cached(text)?.execute(params![project, attribute.to_string(), at, id])?;
    }
    Ok(())
}

/// Writes a change of an existing job, and returns the message that the change delivers, if any.
pub(super) fn write(db: &Session<'_>, change: &Change) -> Result<Option<Message>, ReadError> {
    let before = db.known(change.job.id);
    if before.is_some_and(|before| searched(&before) == searched(&change.job)) {
        // SQLite rewrites an index if the statement names one of its columns, even if the value stays the same.
        let text = "UPDATE jobs SET state = ?2, diff = ?3 WHERE id = ?1";
        let (document, diff) = (to_json(&change.job)?, rows::job_diff(&change.job)?);
        db.prepare_cached(text)?.execute(params![change.job.id.to_string(), document, diff])?;
    } else {
        update_job(db, &change.job)?;
    }
    db.wrote(change.job.clone());
    write_rows(db, change)
}

/// Returns the fields of a job that have a separate column in an index.
fn searched(job: &Job) -> Searched {
    Searched {
        status: job.status(),
        times: [job.due_at(), job.rests_since()],
        workers: [job.lease().map(|lease| lease.worker), job.prefers(), job.avoids()],
        waiting: job.waiting().map(|(waiting, _)| waiting.reason.code),
        branch: job.branch_name(),
    }
}

#[derive(PartialEq, Eq)]
struct Searched {
    status: JobStatus,
    times: [Option<Timestamp>; 2],
    workers: [Option<WorkerId>; 3],
    waiting: Option<ReasonCode>,
    branch: String,
}

fn update_job(db: &Connection, job: &Job) -> Result<(), ReadError> {
    let text = "UPDATE jobs
         SET status = ?2, due_at = ?3, worker = ?4, prefers = ?5, rests_since = ?6, trimmed = 0, state = ?7, avoids = ?8,
             waiting = ?9, branch = ?10, diff = ?11
         WHERE id = ?1";
    db.prepare_cached(text)?.execute(params![
        job.id.to_string(),
        job.status().name(),
        job.due_at().map(Timestamp::as_micros),
        job.lease().map(|lease| lease.worker.to_string()),
        job.prefers().map(|worker| worker.to_string()),
        job.rests_since().map(Timestamp::as_micros),
        to_json(job)?,
        job.avoids().map(|worker| worker.to_string()),
        job.waiting().map(|(waiting, _)| name_of(&waiting.reason.code)).transpose()?,
        job.branch_name(),
        rows::job_diff(job)?
    ])?;
    Ok(())
}

fn write_rows(db: &Session<'_>, change: &Change) -> Result<Option<Message>, ReadError> {
    let mut delivered = None;
    for (seq, message) in change.accepted() {
        insert_message(db, seq, message)?;
    }
    for row in &change.rows {
        match row {
            // Inserted above, with the sequence number in the log, which the row does not have.
            Row::InsertMessage(_) => {}
            Row::Feed(event) => feed::insert(db, event)?,
            Row::Attributes(attributes) => insert_attributes(db, &change.job, attributes)?,
            Row::MessageDelivered { id, run, at } => delivered = deliver_message(db, *id, *run, *at)?,
            Row::MessageEnded { id, status, at, commits, pr_link, answer } => {
                db.prepare_cached(
                    "UPDATE messages SET status = ?2, finished_at = ?3, commits = ?4, pr_link = ?5, answer = ?6 WHERE id = ?1",
                )?
                .execute(params![
                    id.to_string(),
                    name_of(status)?,
                    at.as_micros(),
                    to_json(commits)?,
                    pr_link,
                    answer
                ])?;
            }
            Row::MessagePublishedWith { id, with, commits, pr_link } => {
                db.prepare_cached("UPDATE messages SET published_with = ?2, commits = ?3, pr_link = ?4 WHERE id = ?1")?
                    .execute(params![id.to_string(), with.to_string(), to_json(commits)?, pr_link])?;
            }
            Row::MessageDiff { id, diff } => {
                db.prepare_cached("UPDATE messages SET diff = ?2 WHERE id = ?1")?
                    .execute(params![id.to_string(), to_json(diff)?])?;
            }
            Row::InsertRun(run) => insert_run(db, run)?,
            Row::MessageChanged { id, text } => {
                let source = text.source.as_deref().map(to_json).transpose()?;
                db.prepare_cached("UPDATE messages SET prompt = ?2, author = ?3, source = ?4 WHERE id = ?1")?
                    .execute(params![id.to_string(), text.prompt, text.author, source])?;
            }
            Row::InboxDone { numbers, outcome, job, message } => {
                execute(db, &events_done(numbers, *outcome, *job, *message)?)?;
            }
            Row::IssueJob { repository, number, job, project } => {
                execute(db, &put_issue_job(repository, *number, *job, project))?;
            }
            Row::Pull(pull) => {
                // It ends other pull requests of its branch.
                db.changed_related();
                execute_all(db, &put_pull(pull))?;
            }
            Row::PullState(pull, state, at) => {
                db.changed_related();
                execute_all(db, &set_pull_state(pull, *state, *at))?;
            }
            Row::WatchChecks { job, project, sha, since, due_at } => {
                execute(db, &put_watch(*job, project, sha, [*since, *due_at]))?;
            }
            Row::InsertTask { effect, at } => execute(db, &insert_task(effect, *at)?)?,
            Row::RunUsed { id, usage } => {
                add_usage(db, id, usage)?;
                usage::add(db, &change.job, *id, &UsageSum::of_late_calls(usage))?;
            }
            Row::RunEnded { id, status, reason, at, usage, commits } => {
                let reason = reason.as_ref().map(to_json).transpose()?;
                let (sum, usage, commits) = (UsageSum::of_run(usage), to_json(usage)?, to_json(commits)?);
                db.prepare_cached(
                    "UPDATE runs SET status = ?2, reason = ?3, finished_at = ?4, usage = ?5, commits = ?6 WHERE id = ?1",
                )?
                .execute(params![id.to_string(), name_of(status)?, reason, at.as_micros(), usage, commits])?;
                usage::add(db, &change.job, *id, &sum)?;
            }
        }
    }
    insert_lines(db, change)?;
    Ok(delivered)
}

/// Inserts all log entries in one statement.
fn insert_lines(db: &Connection, change: &Change) -> Result<(), ReadError> {
    let lines: Vec<&LogEntry> = change.other_lines().collect();
    if lines.is_empty() {
        return Ok(());
    }
    let rows = vec!["(?, ?, ?, ?, ?, ?)"; lines.len()].join(", ");
    let mut insert = db.prepare_cached(&format!("INSERT INTO log (job, seq, type, at, run, data) VALUES {rows}"))?;
    for (index, entry) in lines.iter().enumerate() {
        let first = index * 6 + 1;
        insert.raw_bind_parameter(first, change.job.id.to_string())?;
        insert.raw_bind_parameter(first + 1, i64::try_from(entry.seq).unwrap_or(i64::MAX))?;
        insert.raw_bind_parameter(first + 2, &entry.kind)?;
        insert.raw_bind_parameter(first + 3, entry.at.as_micros())?;
        insert.raw_bind_parameter(first + 4, entry.run_id.map(|run| run.to_string()))?;
        insert.raw_bind_parameter(first + 5, entry.data.to_string())?;
    }
    insert.raw_execute()?;
    Ok(())
}

fn insert_message(db: &Connection, seq: u64, message: &Message) -> Result<(), ReadError> {
    db.prepare_cached(
        "INSERT INTO messages (id, job, seq, prompt, origin, author, delivery, status, created_at, commits,
                               traceparent, source, key, via)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, '[]', ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        message.id.to_string(),
        message.job.to_string(),
        i64::try_from(seq).unwrap_or(i64::MAX),
        message.prompt,
        name_of(&message.origin.known_to_older_versions())?,
        message.author,
        name_of(&message.delivery)?,
        name_of(&message.status)?,
        message.created_at.as_micros(),
        message.traceparent.as_ref().map(TraceParent::as_str),
        message.source.as_ref().map(to_json).transpose()?,
        message.key.map(|key| key.to_string()),
        message.origin.newer().as_ref().map(name_of).transpose()?
    ])?;
    Ok(())
}

/// Marks a message as delivered, and returns its new state.
fn deliver_message(db: &Connection, id: MessageId, run: RunId, at: Timestamp) -> Result<Option<Message>, ReadError> {
    let mut update = db.prepare_cached(
        "UPDATE messages SET status = ?2, run = ?3, delivered_at = coalesce(delivered_at, ?4) WHERE id = ?1
         RETURNING *",
    )?;
    let status = name_of(&MessageStatus::Delivered)?;
    let mut rows = update.query(params![id.to_string(), status, run.to_string(), at.as_micros()])?;
    let message = rows.next()?.map(rows::message).transpose()?;
    // SQLite finishes the statement only after its last row was read.
    while rows.next()?.is_some() {}
    Ok(message)
}

fn add_usage(db: &Connection, run: &RunId, usage: &Usage) -> Result<(), ReadError> {
    let mut query = db.prepare_cached("SELECT id, usage FROM runs WHERE id = ?1")?;
    let mut rows = query.query([run.to_string()])?;
    let Some(known) = rows.next()?.map(rows::usage).transpose()? else { return Ok(()) };
    db.prepare_cached("UPDATE runs SET usage = ?2 WHERE id = ?1")?
        .execute(params![run.to_string(), to_json(&known.plus(usage))?])?;
    Ok(())
}

fn insert_run(db: &Connection, run: &Run) -> Result<(), ReadError> {
    db.prepare_cached(
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
    ])?;
    Ok(())
}
