//! The statements that write changes of jobs: one for each kind of row, for any number of rows.

use std::collections::BTreeMap;

use journeyman_core::feed::FeedEvent;
use journeyman_core::idempotency::Remembered;
use journeyman_core::ids::{JobId, ProjectId, RunId};
use journeyman_core::job::Job;
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::effect::Effect;
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::model::Effort;
use journeyman_core::ports::{Answer, StoreError};
use journeyman_core::rate::{RateKind, Window};
use journeyman_core::run::{Run, RunStatus, Usage};
use journeyman_core::time::Timestamp;
use journeyman_core::usage::UsageSum;

use super::feed;
use super::pipeline::{Query, call};
use super::usage::{RunSum, add_sums};
use crate::rows::{job_diff, name_of, to_json};
use crate::sql::checks::put_watch;
use crate::sql::code_hosts::{put_pull, set_pull_state};
use crate::sql::inbox::{events_done, put_issue_job};

/// The rows that a transaction writes.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The new jobs.
    inserted: Vec<Job>,
    /// The final states of changed jobs.
    updated: BTreeMap<JobId, Job>,
    attributes: Vec<JobAttribute>,
    feed: Vec<FeedEvent>,
    messages: Vec<(u64, Message)>,
    delivered: Vec<Delivered>,
    ended: Vec<Ended>,
    published: Vec<Published>,
    runs: Vec<Run>,
    finished: Vec<Finished>,
    /// The usage to add to finished runs.
    used: BTreeMap<RunId, Usage>,
    /// The usage to add to the sums.
    sums: Vec<RunSum>,
    tasks: Vec<(Effect, Timestamp)>,
    /// The rows of kinds that are rare, in order.
    others: Vec<Row>,
    log: Vec<(JobId, LogEntry)>,
    windows: BTreeMap<(ProjectId, &'static str), Window>,
    keys: BTreeMap<(String, String), Remembered<Answer>>,
}

#[derive(Debug)]
struct JobAttribute {
    project: String,
    attribute: String,
    created_at: i64,
    job: String,
}

#[derive(Debug)]
struct Delivered {
    id: String,
    run: String,
    at: i64,
}

#[derive(Debug)]
struct Ended {
    id: String,
    status: String,
    at: i64,
    commits: String,
    pr_link: Option<String>,
    answer: Option<String>,
}

#[derive(Debug)]
struct Published {
    id: String,
    with: String,
    commits: String,
    pr_link: Option<String>,
}

#[derive(Debug)]
struct Finished {
    id: String,
    status: String,
    reason: Option<String>,
    at: i64,
    usage: String,
    commits: String,
}

impl Writes {
    pub(super) fn insert(&mut self, change: &Change) -> Result<(), StoreError> {
        self.inserted.push(change.job.clone());
        self.rows(change)
    }

    pub(super) fn update(&mut self, change: &Change) -> Result<(), StoreError> {
        self.updated.insert(change.job.id, change.job.clone());
        self.rows(change)
    }

    pub(super) fn count(&mut self, project: &ProjectId, kind: RateKind, window: Window) {
        self.windows.insert((project.clone(), kind.name()), window);
    }

    pub(super) fn remember(&mut self, scope: &str, key: &str, known: Remembered<Answer>) {
        self.keys.insert((scope.to_owned(), key.to_owned()), known);
    }

    fn rows(&mut self, change: &Change) -> Result<(), StoreError> {
        for row in &change.rows {
            match row {
                // Added below, with the sequence number in the log, which the row does not have.
                Row::InsertMessage(_) => {}
                Row::Feed(event) => self.feed.push((**event).clone()),
                Row::Attributes(attributes) => {
                    self.attributes.extend(attributes.iter().map(|attribute| JobAttribute {
                        project: change.job.project.to_string(),
                        attribute: attribute.to_string(),
                        created_at: change.job.created_at.as_micros(),
                        job: change.job.id.to_string(),
                    }))
                }
                Row::MessageDelivered { id, run, at } => {
                    let (id, run) = (id.to_string(), run.to_string());
                    self.delivered.push(Delivered { id, run, at: at.as_micros() });
                }
                Row::MessageEnded { id, status, at, commits, pr_link, answer } => self.ended.push(Ended {
                    id: id.to_string(),
                    status: name_of(status)?,
                    at: at.as_micros(),
                    commits: to_json(commits)?,
                    pr_link: pr_link.clone(),
                    answer: answer.clone(),
                }),
                Row::MessagePublishedWith { id, with, commits, pr_link } => self.published.push(Published {
                    id: id.to_string(),
                    with: with.to_string(),
                    commits: to_json(commits)?,
                    pr_link: pr_link.clone(),
                }),
                Row::InsertRun(run) => self.runs.push(run.clone()),
                Row::MessageChanged { .. }
                | Row::MessageDiff { .. }
                | Row::InboxDone { .. }
                | Row::IssueJob { .. }
                | Row::Pull(_)
                | Row::PullState(..)
                | Row::WatchChecks { .. } => {
                    self.others.push(row.clone());
                }
                Row::InsertTask { effect, at } => self.tasks.push((effect.clone(), *at)),
                Row::RunUsed { id, usage } => {
                    let sum = self.used.entry(*id).or_default();
                    *sum = sum.plus(usage);
                    self.sums.push(RunSum::new(&change.job, *id, UsageSum::of_late_calls(usage)));
                }
                Row::RunEnded { id, status, reason, at, usage, commits } => {
                    self.finished.push(Finished {
                        id: id.to_string(),
                        status: name_of(status)?,
                        reason: reason.as_ref().map(to_json).transpose()?,
                        at: at.as_micros(),
                        usage: to_json(usage)?,
                        commits: to_json(commits)?,
                    });
                    self.sums.push(RunSum::new(&change.job, *id, UsageSum::of_run(usage)));
                }
            }
        }
        self.messages.extend(change.accepted().map(|(seq, message)| (seq, message.clone())));
        self.log.extend(change.other_lines().map(|entry| (change.job.id, entry.clone())));
        Ok(())
    }

    /// Returns a query that finds a row if and only if the transaction was committed. Returns `None` if the transaction
    /// only writes states that can safely be written again: a heartbeat, or a turn that began or ended.
    pub(super) fn evidence(&self) -> Option<Query> {
        if let Some((_, message)) = self.messages.first() {
            return Some(call!("SELECT 1 FROM messages WHERE id = $1", message.id.to_string()));
        }
        let (job, entry) = self.log.first()?;
        // Another transaction may have reused the sequence number of a lost entry, but not for the same entry at the
        // same microsecond.
        Some(call!(
            "SELECT 1 FROM log WHERE job = $1 AND seq = $2 AND type = $3 AND at = $4 AND data = $5",
            job.to_string(),
            i64::try_from(entry.seq).unwrap_or(i64::MAX),
            entry.kind.clone(),
            entry.at.as_micros(),
            entry.data.to_string(),
        ))
    }

    /// Returns the statements that write the rows, in an order in which rows are inserted before they are updated;
    /// none if there is nothing to write.
    pub(super) fn calls(&self) -> Result<Vec<Query>, StoreError> {
        let mut calls = Vec::new();
        if !self.inserted.is_empty() {
            calls.push(insert_jobs(&self.inserted)?);
            calls.push(insert_attributes(&self.attributes));
        }
        if !self.updated.is_empty() {
            calls.push(update_jobs(self.updated.values())?);
        }
        if !self.messages.is_empty() {
            calls.push(insert_messages(&self.messages)?);
        }
        if !self.runs.is_empty() {
            calls.push(insert_runs(&self.runs)?);
        }
        if !self.delivered.is_empty() {
            calls.push(deliver_messages(&self.delivered)?);
        }
        if !self.ended.is_empty() {
            calls.push(end_messages(&self.ended));
        }
        if !self.published.is_empty() {
            calls.push(publish_messages(&self.published));
        }
        if !self.finished.is_empty() {
            calls.push(finish_runs(&self.finished));
        }
        if !self.used.is_empty() {
            calls.push(add_usage(&self.used)?);
        }
        if !self.sums.is_empty() {
            calls.push(add_sums(&self.sums));
        }
        if !self.tasks.is_empty() {
            calls.push(insert_tasks(&self.tasks)?);
        }
        for row in &self.others {
            calls.extend(other(row)?);
        }
        if !self.feed.is_empty() {
            calls.push(feed::insert(&self.feed));
        }
        if !self.log.is_empty() {
            calls.push(insert_log(&self.log));
        }
        if !self.windows.is_empty() {
            calls.push(put_windows(&self.windows));
        }
        if !self.keys.is_empty() {
            calls.push(put_keys(&self.keys)?);
        }
        Ok(calls)
    }
}

/// Returns the statements that write a row of a rare kind.
fn other(row: &Row) -> Result<Vec<Query>, StoreError> {
    Ok(match row {
        Row::MessageChanged { id, text } => {
            let source = text.source.as_deref().map(to_json).transpose()?;
            vec![call!(
                "UPDATE messages SET prompt = $2, author = $3, source = $4 WHERE id = $1",
                id.to_string(),
                text.prompt.clone(),
                text.author.clone(),
                source
            )]
        }
        Row::MessageDiff { id, diff } => {
            vec![call!("UPDATE messages SET diff = $2 WHERE id = $1", id.to_string(), to_json(diff)?)]
        }
        Row::InboxDone { numbers, outcome, job, message } => {
            vec![events_done(numbers, *outcome, *job, *message)?.into()]
        }
        Row::IssueJob { repository, number, job, project } => {
            vec![put_issue_job(repository, *number, *job, project).into()]
        }
        Row::Pull(pull) => put_pull(pull).into_iter().map(Query::from).collect(),
        Row::PullState(pull, state, at) => set_pull_state(pull, *state, *at).into_iter().map(Query::from).collect(),
        Row::WatchChecks { job, project, sha, since, due_at } => {
            vec![put_watch(*job, project, sha, [*since, *due_at]).into()]
        }
        _ => Vec::new(),
    })
}

/// Returns a column of many rows, for an array parameter.
fn column<'a, R: 'a, T>(rows: impl IntoIterator<Item = &'a R>, value: impl Fn(&R) -> T) -> Vec<T> {
    rows.into_iter().map(value).collect()
}

/// Returns a column like [`column`], for values whose conversion may fail.
fn try_column<'a, R: 'a, T>(
    rows: impl IntoIterator<Item = &'a R>,
    value: impl Fn(&R) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    rows.into_iter().map(value).collect()
}

fn due_at(job: &Job) -> Option<i64> {
    job.due_at().map(Timestamp::as_micros)
}

fn rests_since(job: &Job) -> Option<i64> {
    job.rests_since().map(Timestamp::as_micros)
}

fn worker(job: &Job) -> Option<String> {
    job.lease().map(|lease| lease.worker.to_string())
}

fn prefers(job: &Job) -> Option<String> {
    job.prefers().map(|worker| worker.to_string())
}

fn insert_jobs(jobs: &[Job]) -> Result<Query, StoreError> {
    Ok(call!(
        "INSERT INTO jobs (id, project, status, title, created_at, due_at, worker, prefers, rests_since, state,
                           branch, diff, effort)
         SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
                              $8::text[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[])",
        column(jobs, |job| job.id.to_string()),
        column(jobs, |job| job.project.to_string()),
        column(jobs, |job| job.status().name()),
        column(jobs, |job| job.title.clone()),
        column(jobs, |job| job.created_at.as_micros()),
        column(jobs, due_at),
        column(jobs, worker),
        column(jobs, prefers),
        column(jobs, rests_since),
        try_column(jobs, to_json)?,
        column(jobs, Job::branch_name),
        try_column(jobs, job_diff)?,
        column(jobs, |job| job.effort.map(Effort::name)),
    ))
}

fn insert_attributes(attributes: &[JobAttribute]) -> Query {
    call!(
        "INSERT INTO job_attributes (project, attribute, created_at, job)
         SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])",
        column(attributes, |row| row.project.clone()),
        column(attributes, |row| row.attribute.clone()),
        column(attributes, |row| row.created_at),
        column(attributes, |row| row.job.clone()),
    )
}

fn update_jobs<'a>(jobs: impl Iterator<Item = &'a Job> + Clone) -> Result<Query, StoreError> {
    Ok(call!(
        "UPDATE jobs
         SET status = new.status, due_at = new.due_at, worker = new.worker, prefers = new.prefers,
             rests_since = new.rests_since, trimmed = 0, state = new.state, avoids = new.avoids, waiting = new.waiting,
             branch = new.branch, diff = new.diff
         FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                     $8::text[], $9::text[], $10::text[], $11::text[])
             AS new (id, status, due_at, worker, prefers, rests_since, state, avoids, waiting, branch, diff)
         WHERE jobs.id = new.id",
        column(jobs.clone(), |job| job.id.to_string()),
        column(jobs.clone(), |job| job.status().name()),
        column(jobs.clone(), due_at),
        column(jobs.clone(), worker),
        column(jobs.clone(), prefers),
        column(jobs.clone(), rests_since),
        try_column(jobs.clone(), to_json)?,
        column(jobs.clone(), |job| job.avoids().map(|worker| worker.to_string())),
        try_column(jobs.clone(), |job| job.waiting().map(|(waiting, _)| name_of(&waiting.reason.code)).transpose())?,
        column(jobs.clone(), Job::branch_name),
        try_column(jobs, job_diff)?,
    ))
}

fn insert_messages(messages: &[(u64, Message)]) -> Result<Query, StoreError> {
    Ok(call!(
        "INSERT INTO messages (id, job, prompt, origin, author, delivery, status, created_at, seq, traceparent, source,
                               key, via, commits)
         SELECT *, '[]'
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
                     $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[])",
        column(messages, |(_, message)| message.id.to_string()),
        column(messages, |(_, message)| message.job.to_string()),
        column(messages, |(_, message)| message.prompt.clone()),
        try_column(messages, |(_, message)| name_of(&message.origin.known_to_older_versions()))?,
        column(messages, |(_, message)| message.author.clone()),
        try_column(messages, |(_, message)| name_of(&message.delivery))?,
        try_column(messages, |(_, message)| name_of(&message.status))?,
        column(messages, |(_, message)| message.created_at.as_micros()),
        column(messages, |(seq, _)| i64::try_from(*seq).unwrap_or(i64::MAX)),
        column(messages, |(_, message)| message.traceparent.as_ref().map(ToString::to_string)),
        try_column(messages, |(_, message)| message.source.as_ref().map(to_json).transpose())?,
        column(messages, |(_, message)| message.key.map(|key| key.to_string())),
        try_column(messages, |(_, message)| message.origin.newer().as_ref().map(name_of).transpose())?,
    ))
}

fn insert_runs(runs: &[Run]) -> Result<Query, StoreError> {
    let running = name_of(&RunStatus::Running)?;
    Ok(call!(
        "INSERT INTO runs (id, job, message, attempt, worker, started_at, usage, status, commits)
         SELECT id, job, message, attempt, worker, started_at, usage, $8::text, '[]'
         FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[])
             WITH ORDINALITY AS new (id, job, message, attempt, worker, started_at, usage, place)
         ORDER BY place",
        column(runs, |run| run.id.to_string()),
        column(runs, |run| run.job.to_string()),
        column(runs, |run| run.message.to_string()),
        column(runs, |run| i64::from(run.attempt)),
        column(runs, |run| run.worker.to_string()),
        column(runs, |run| run.started_at.as_micros()),
        try_column(runs, |run| to_json(&run.usage))?,
        running,
    ))
}

fn deliver_messages(delivered: &[Delivered]) -> Result<Query, StoreError> {
    Ok(call!(
        "UPDATE messages
         SET status = $4::text, run = new.run, delivered_at = coalesce(messages.delivered_at, new.at)
         FROM unnest($1::text[], $2::text[], $3::bigint[]) AS new (id, run, at) WHERE messages.id = new.id
         RETURNING messages.*",
        column(delivered, |row| row.id.clone()),
        column(delivered, |row| row.run.clone()),
        column(delivered, |row| row.at),
        name_of(&MessageStatus::Delivered)?,
    ))
}

fn end_messages(ended: &[Ended]) -> Query {
    call!(
        "UPDATE messages
         SET status = new.status, finished_at = new.at, commits = new.commits, pr_link = new.pr_link,
             answer = new.answer
         FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[])
             AS new (id, status, at, commits, pr_link, answer)
         WHERE messages.id = new.id",
        column(ended, |row| row.id.clone()),
        column(ended, |row| row.status.clone()),
        column(ended, |row| row.at),
        column(ended, |row| row.commits.clone()),
        column(ended, |row| row.pr_link.clone()),
        column(ended, |row| row.answer.clone()),
    )
}

fn publish_messages(published: &[Published]) -> Query {
    call!(
        "UPDATE messages
         SET published_with = new.later, commits = new.commits, pr_link = new.pr_link
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS new (id, later, commits, pr_link)
         WHERE messages.id = new.id",
        column(published, |row| row.id.clone()),
        column(published, |row| row.with.clone()),
        column(published, |row| row.commits.clone()),
        column(published, |row| row.pr_link.clone()),
    )
}

fn finish_runs(finished: &[Finished]) -> Query {
    call!(
        "UPDATE runs
         SET status = new.status, reason = new.reason, finished_at = new.at, usage = new.usage, commits = new.commits
         FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[])
             AS new (id, status, reason, at, usage, commits)
         WHERE runs.id = new.id",
        column(finished, |row| row.id.clone()),
        column(finished, |row| row.status.clone()),
        column(finished, |row| row.reason.clone()),
        column(finished, |row| row.at),
        column(finished, |row| row.usage.clone()),
        column(finished, |row| row.commits.clone()),
    )
}

/// Returns the statement that inserts the tasks of effects, which are due immediately.
pub(super) fn insert_tasks(tasks: &[(Effect, Timestamp)]) -> Result<Query, StoreError> {
    Ok(call!(
        "INSERT INTO tasks (kind, effect, created_at, due_at)
         SELECT kind, effect, at, at
         FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS new (kind, effect, at, place)
         ORDER BY place",
        column(tasks, |(effect, _)| effect.kind()),
        try_column(tasks, |(effect, _)| to_json(effect))?,
        column(tasks, |(_, at)| at.as_micros()),
    ))
}

/// Adds usage to runs as [`Usage::plus`] does: the cost is known if both costs are known, or if the run has used
/// nothing before.
fn add_usage(used: &BTreeMap<RunId, Usage>) -> Result<Query, StoreError> {
    Ok(call!(
        "UPDATE runs
         SET usage = json_build_object(
             'input_tokens', LEAST($4::text::numeric, (runs.usage::jsonb->>'input_tokens')::numeric
                 + (new.usage::jsonb->>'input_tokens')::numeric),
             'output_tokens', LEAST($4::text::numeric, (runs.usage::jsonb->>'output_tokens')::numeric
                 + (new.usage::jsonb->>'output_tokens')::numeric),
             'cached_tokens', LEAST($4::text::numeric, (runs.usage::jsonb->>'cached_tokens')::numeric
                 + (new.usage::jsonb->>'cached_tokens')::numeric),
             'cost_micros', CASE
                 WHEN runs.usage::jsonb - 'estimated_micros' = $3::text::jsonb - 'estimated_micros' THEN (new.usage::jsonb->>'cost_micros')::numeric
                 WHEN runs.usage::jsonb->>'cost_micros' IS NULL OR new.usage::jsonb->>'cost_micros' IS NULL THEN NULL
                 ELSE LEAST($4::text::numeric, (runs.usage::jsonb->>'cost_micros')::numeric
                     + (new.usage::jsonb->>'cost_micros')::numeric) END,
             'estimated_micros', LEAST($4::text::numeric,
                 coalesce((runs.usage::jsonb->>'estimated_micros')::numeric, 0)
                 + coalesce((new.usage::jsonb->>'estimated_micros')::numeric, 0))
         )::text
         FROM unnest($1::text[], $2::text[]) AS new (id, usage)
         WHERE runs.id = new.id",
        column(used.keys(), ToString::to_string),
        try_column(used.values(), to_json)?,
        to_json(&Usage::default())?,
        u64::MAX.to_string(),
    ))
}

fn insert_log(log: &[(JobId, LogEntry)]) -> Query {
    call!(
        "INSERT INTO log (job, seq, type, at, run, data)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[])",
        column(log, |(job, _)| job.to_string()),
        column(log, |(_, entry)| i64::try_from(entry.seq).unwrap_or(i64::MAX)),
        column(log, |(_, entry)| entry.kind.clone()),
        column(log, |(_, entry)| entry.at.as_micros()),
        column(log, |(_, entry)| entry.run_id.map(|run| run.to_string())),
        column(log, |(_, entry)| entry.data.to_string()),
    )
}

fn put_windows(windows: &BTreeMap<(ProjectId, &'static str), Window>) -> Query {
    call!(
        "INSERT INTO rate_windows (project, kind, started_at, used)
         SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
         ON CONFLICT (project, kind) DO UPDATE SET started_at = excluded.started_at, used = excluded.used",
        column(windows.keys(), |(project, _)| project.to_string()),
        column(windows.keys(), |(_, kind)| *kind),
        column(windows.values(), |window| window.started_at.as_micros()),
        column(windows.values(), |window| i64::from(window.used)),
    )
}

fn put_keys(keys: &BTreeMap<(String, String), Remembered<Answer>>) -> Result<Query, StoreError> {
    Ok(call!(
        "INSERT INTO idempotency_keys (project, key, fingerprint, at, record)
         SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::text[])
         ON CONFLICT (project, key) DO UPDATE
         SET fingerprint = excluded.fingerprint, at = excluded.at, record = excluded.record",
        column(keys.keys(), |(scope, _)| scope.clone()),
        column(keys.keys(), |(_, key)| key.clone()),
        column(keys.values(), |known| known.fingerprint.0.to_vec()),
        column(keys.values(), |known| known.at.as_micros()),
        try_column(keys.values(), |known| to_json(&known.answer))?,
    ))
}
