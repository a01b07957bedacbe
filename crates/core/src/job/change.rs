//! The writes of a store for a command: the new state of the job, the resulting rows, and the new entries of its log.
//!
//! Only this module derives rows from events, so the stores only write them and cannot differ from each other.

use std::time::Duration;

use serde_json::{Value, json};

use crate::checks::next_look;
use crate::code_host::{HostName, PullRef, PullRepository, PullState};
use crate::diff_stat::MessageDiff;
use crate::feed::FeedEvent;
use crate::ids::{JobId, MessageId, ProjectId, RunId, Sha};
use crate::inbox::Outcome;
use crate::job::apply::apply;
use crate::job::command::Command;
use crate::job::decide::{Rejected, decide};
use crate::job::effect::{self, Effect};
use crate::job::event::{Event, LogEntry};
use crate::job::label::Attribute;
use crate::job::{Job, feed};
use crate::message::{DeliveryMode, Message, MessageStatus, MessageText, NewMessage, Origin};
use crate::pull::base_comparison::BaseComparison;
use crate::pull::{IndexedPull, Pull};
use crate::run::{Reason, Run, RunStatus, Usage};
use crate::time::Timestamp;

/// All writes of one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The new state of the job.
    pub job: Job,
    /// The rows of messages and runs, in order.
    pub rows: Vec<Row>,
    /// The new log entries, in order.
    pub log: Vec<LogEntry>,
}

impl Change {
    /// Returns the new messages, each with the sequence number of its log entry.
    pub fn accepted(&self) -> impl Iterator<Item = (u64, &Message)> {
        let lines = self.log.iter().filter(|entry| entry.kind == MESSAGE_ACCEPTED);
        let messages = self.rows.iter().filter_map(|row| match row {
            Row::InsertMessage(message) => Some(&**message),
            _ => None,
        });
        // Both come from the same events, in the same order.
        lines.map(|entry| entry.seq).zip(messages)
    }

    /// Returns the log entries that are not about accepted messages.
    pub fn other_lines(&self) -> impl Iterator<Item = &LogEntry> {
        self.log.iter().filter(|entry| entry.kind != MESSAGE_ACCEPTED)
    }

    /// Returns the message that is delivered.
    #[must_use]
    pub fn delivered(&self) -> Option<MessageId> {
        self.rows.iter().find_map(|row| match row {
            Row::MessageDelivered { id, .. } => Some(*id),
            _ => None,
        })
    }

    /// Returns whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self, before: &Job) -> bool {
        self.rows.is_empty() && self.log.is_empty() && self.job == *before
    }
}

/// A write to a table other than the table of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// Adds an event to the feed.
    Feed(Box<FeedEvent>),
    /// Stores the attributes by which lists select the new job.
    Attributes(Vec<Attribute>),
    /// Inserts a message.
    InsertMessage(Box<Message>),
    /// Records that a run has taken a message. A delivery time that is already set is kept.
    MessageDelivered {
        /// The message.
        id: MessageId,
        /// The run that has taken the message.
        run: RunId,
        /// The time of the delivery.
        at: Timestamp,
    },
    /// Records that a message became final.
    MessageEnded {
        /// The message.
        id: MessageId,
        /// The final status.
        status: MessageStatus,
        /// The time of the end.
        at: Timestamp,
        /// The published commits of the message.
        commits: Vec<Sha>,
        /// The URL of the pull request that contains the commits.
        pr_link: Option<String>,
        /// The final text of the turn.
        answer: Option<String>,
    },
    /// Records the size of the change of a message.
    MessageDiff {
        /// The message.
        id: MessageId,
        /// The change.
        diff: MessageDiff,
    },
    /// Records that the commits of a message were published with those of a later message.
    MessagePublishedWith {
        /// The earlier message.
        id: MessageId,
        /// The later message.
        with: MessageId,
        /// The published commits; empty if a rebase changed their hashes.
        commits: Vec<Sha>,
        /// The URL of the pull request that contains the commits.
        pr_link: Option<String>,
    },
    /// Inserts a run.
    InsertRun(Run),
    /// Records the end of a run.
    RunEnded {
        /// The run.
        id: RunId,
        /// The final status.
        status: RunStatus,
        /// The reason for the outcome, if there is one.
        reason: Option<Reason>,
        /// The time of the end.
        at: Timestamp,
        /// The usage of models.
        usage: Usage,
        /// The published commits.
        commits: Vec<Sha>,
    },
    /// Inserts the task of an effect into the outbox, due at once.
    InsertTask {
        /// The effect.
        effect: Effect,
        /// The time of the change.
        at: Timestamp,
    },
    /// Replaces the text of a message.
    MessageChanged {
        /// The message.
        id: MessageId,
        /// The new text.
        text: MessageText,
    },
    /// Marks events of the inbox as carried out: they became a message.
    InboxDone {
        /// The numbers of the events.
        numbers: Vec<u64>,
        /// The outcome.
        outcome: Outcome,
        /// The job.
        job: JobId,
        /// The message.
        message: MessageId,
    },
    /// Stores the job of an issue. If the issue has one already, that one stays.
    IssueJob {
        /// The repository.
        repository: PullRepository,
        /// The number of the issue.
        number: u64,
        /// The job.
        job: JobId,
        /// The project of the job.
        project: ProjectId,
    },
    /// Stores a pull request of the job in the index. Other open pull requests of the branch have ended.
    Pull(Box<IndexedPull>),
    /// Stores the state of a pull request in the index, and the time at which it was recorded.
    PullState(PullRef, PullState, Timestamp),
    /// Watches the checks of a commit that the job has pushed, instead of those of an earlier commit.
    WatchChecks {
        /// The job.
        job: JobId,
        /// The project of the job.
        project: ProjectId,
        /// The commit.
        sha: Sha,
        /// The time of the push.
        since: Timestamp,
        /// The time of the first look.
        due_at: Timestamp,
    },
    /// Adds usage to a finished run: a model call ended after the run.
    RunUsed {
        /// The run.
        id: RunId,
        /// The usage to add.
        usage: Usage,
    },
}

/// Decides the effect of `command` on `job`, and returns what to write.
///
/// # Errors
/// Returns an error if the command is rejected. Nothing must be written then.
pub fn step(job: &Job, command: &Command, now: Timestamp) -> Result<Change, Rejected> {
    let events = decide(job, command, now)?;
    Ok(record(job.clone(), &events, now))
}

/// Applies several commands as one change: either all of them, or none.
///
/// # Errors
/// Returns an error if a command is rejected. Nothing must be written then.
pub fn steps(job: &Job, commands: &[Command], now: Timestamp) -> Result<Change, Rejected> {
    let mut all = Change { job: job.clone(), rows: Vec::new(), log: Vec::new() };
    for command in commands {
        let Change { job, rows, log } = step(&all.job, command, now)?;
        all.job = job;
        all.rows.extend(rows);
        all.log.extend(log);
    }
    Ok(all)
}

/// Creates a job with its first message.
#[must_use]
pub fn create(job: Job, message: NewMessage, attributes: Vec<Attribute>, now: Timestamp) -> Change {
    let events = [Event::JobCreated(Box::new(job.clone())), Event::MessageAccepted { message, first: false }];
    let mut change = record(job, &events, now);
    change.rows.push(Row::Attributes(attributes));
    change
}

fn record(job: Job, events: &[Event], now: Timestamp) -> Change {
    let mut change = Change { job, rows: Vec::new(), log: Vec::new() };
    for event in events {
        let newest = effect::newest(&change.job).cloned();
        let withdrawn = effect::of_withdrawn(&change.job, event);
        apply(&mut change.job, event, now);
        change.rows.extend(row(&change.job, event, now));
        let effects = effect::of_event(&change.job, event).into_iter().chain(withdrawn);
        let effects = effects.chain(effect::of_older(newest, &change.job, event));
        change.rows.extend(effects.map(|effect| Row::InsertTask { effect, at: now }));
        change.job.revision += u64::from(event.is_revision());
        if let Some((kind, run_id, data)) = log_line(event) {
            change.job.last_seq += 1;
            let at = match event {
                Event::Transcript { entry, .. } => entry.at,
                _ => now,
            };
            change.log.push(LogEntry { seq: change.job.last_seq, kind: kind.to_owned(), at, run_id, data });
        }
    }
    let feed = feed::of_change(&change.job, events, now);
    change.rows.extend(feed.into_iter().map(|event| Row::Feed(Box::new(event))));
    change
}

fn row(job: &Job, event: &Event, now: Timestamp) -> Vec<Row> {
    match event {
        Event::MessageAccepted { message, .. } => accepted(job, message),
        Event::MessageChanged { message, text } => {
            vec![Row::MessageChanged { id: *message, text: text.clone() }]
        }
        Event::PullRequestOpened { pull, .. } | Event::PullRequestUpdated { pull, .. } => {
            // The job may know of a merge that came after the worker read the pull request.
            let pull = job.pull.as_ref().unwrap_or(pull);
            let row = indexed(job, pull, now).map(|pull| Row::Pull(Box::new(pull)));
            row.into_iter().chain(watched(job, now)).collect()
        }
        Event::PullRequestState { pull, state, .. } => vec![Row::PullState(pull.clone(), *state, now)],
        Event::MessageWithdrawn(id) => vec![Row::MessageEnded {
            id: *id,
            status: MessageStatus::Withdrawn,
            at: now,
            commits: Vec::new(),
            pr_link: None,
            answer: None,
        }],
        Event::RunStarted { lease, message, attempt } => vec![
            Row::InsertRun(Run {
                id: lease.run,
                job: job.id,
                message: *message,
                attempt: *attempt,
                status: RunStatus::Running,
                reason: None,
                worker: lease.worker,
                started_at: now,
                finished_at: None,
                usage: Usage::default(),
                commits: Vec::new(),
            }),
            Row::MessageDelivered { id: *message, run: lease.run, at: now },
        ],
        Event::RunFinished { run, status, reason, usage, commits, .. } => vec![Row::RunEnded {
            id: *run,
            status: *status,
            reason: reason.clone(),
            at: now,
            usage: *usage,
            commits: commits.clone(),
        }],
        Event::MessageEnded { message, status, commits, pr_link, answer, .. } => vec![Row::MessageEnded {
            id: *message,
            status: *status,
            at: now,
            commits: commits.clone(),
            pr_link: pr_link.clone(),
            answer: answer.clone(),
        }],
        Event::Transcript { run, entry } => {
            let is_over = job.lease().is_none_or(|lease| lease.run != *run);
            let usage = entry.model_call().filter(|_| is_over);
            usage.map(|usage| Row::RunUsed { id: *run, usage }).into_iter().collect()
        }
        Event::PublishedWith { message, earlier, pr_link } => earlier
            .iter()
            .map(|one| Row::MessagePublishedWith {
                id: one.message,
                with: *message,
                commits: one.commits.clone(),
                pr_link: pr_link.clone(),
            })
            .collect(),
        // A job that is created with a pull request works on an existing one, whose comments are for the job from now on.
        Event::JobCreated(_) | Event::PullRequestDescribed(_) => {
            let pull = job.pull.as_ref().and_then(|pull| indexed(job, pull, now));
            pull.map(|pull| Row::Pull(Box::new(pull))).into_iter().collect()
        }
        Event::TurnEnded { artifacts, .. } => {
            let message = job.in_flight().map(|in_flight| in_flight.message);
            let counted = message.zip(artifacts.diff.as_deref());
            counted.map(|(id, diff)| Row::MessageDiff { id, diff: diff.message.clone() }).into_iter().collect()
        }
        Event::StopRequested
        | Event::MessageWaiting { .. }
        | Event::RetryRequested
        | Event::ArchiveRequested
        | Event::LeaseRenewed { .. }
        | Event::TurnBegun(_)
        | Event::Answered { .. }
        | Event::CommitPushed { .. }
        | Event::ChecksSettled { .. }
        | Event::RepairRequested { .. }
        | Event::PullRequestOutdated { .. }
        | Event::JobCompleted
        | Event::JobFailed(_)
        | Event::JobArchived { .. }
        | Event::JobUnarchived => Vec::new(),
    }
}

fn accepted(job: &Job, message: &NewMessage) -> Vec<Row> {
    let insert = Row::InsertMessage(Box::new(Message {
        id: message.id,
        job: job.id,
        prompt: message.prompt.clone(),
        origin: message.origin,
        author: message.author.clone(),
        key: message.key,
        delivery: message.delivery,
        status: MessageStatus::Queued,
        created_at: job.last_message_at,
        delivered_at: None,
        finished_at: None,
        run: None,
        commits: Vec::new(),
        diff: None,
        pr_link: None,
        published_with: None,
        answer: None,
        traceparent: message.traceparent.clone(),
        source: message.source.as_deref().cloned(),
    }));
    let mut rows = vec![insert];
    let Some(source) = &message.source else { return rows };
    let is_issue = source.origin == Origin::Issue;
    if is_issue {
        let (repository, number) = (source.repository.clone(), source.number);
        rows.push(Row::IssueJob { repository, number, job: job.id, project: job.project.clone() });
    }
    if !source.inbox.is_empty() {
        let is_first = job.queue == [message.id] && job.last.is_none() && job.last_message_at == job.created_at;
        let outcome = if is_first { Outcome::JobCreated } else { Outcome::Message };
        rows.push(Row::InboxDone { numbers: source.inbox.clone(), outcome, job: job.id, message: message.id });
    }
    rows
}

/// Returns the row of the index for the pull request of the job's branch.
fn indexed(job: &Job, pull: &Pull, now: Timestamp) -> Option<IndexedPull> {
    let known = job.options.pull.as_ref().and_then(|existing| existing.head_sha.clone());
    Some(IndexedPull {
        repository: pull.repository.clone()?,
        number: pull.number,
        job: job.id,
        project: job.project.clone(),
        url: pull.url.clone(),
        head: job.branch_name(),
        head_sha: job.branch.as_ref().map_or(known, |branch| branch.pushed.clone()),
        title: pull.title.clone(),
        draft: pull.draft,
        state: pull.state,
        created_at: now,
        ended_at: (pull.state != PullState::Open).then_some(now),
    })
}

/// Returns the row that watches the checks of the newest commit; the built-in host has no checks.
fn watched(job: &Job, now: Timestamp) -> Option<Row> {
    let pull = job.pull.as_ref().filter(|pull| pull.state == PullState::Open)?;
    let is_remote = pull.repository.as_ref().is_some_and(|repository| repository.host != HostName::local());
    let sha = job.branch.as_ref().and_then(|branch| branch.pushed.clone()).filter(|_| is_remote)?;
    let due_at = now + next_look(Duration::ZERO);
    Some(Row::WatchChecks { job: job.id, project: job.project.clone(), sha, since: now, due_at })
}

/// The type of a log entry about an accepted message.
pub const MESSAGE_ACCEPTED: &str = "message.accepted";

/// Returns the log entry about a stored message, with the sequence number `seq`. A store can use this to store only the
/// message and derive its log entry.
#[must_use]
pub fn accepted_line(seq: u64, message: &Message) -> LogEntry {
    let Message { id, prompt, origin, author, delivery, .. } = message;
    let data = accepted_data(*id, prompt, *origin, author.as_deref(), *delivery);
    LogEntry { seq, kind: MESSAGE_ACCEPTED.to_owned(), at: message.created_at, run_id: None, data }
}

fn accepted_data(id: MessageId, prompt: &str, origin: Origin, author: Option<&str>, delivery: DeliveryMode) -> Value {
    json!({"messageId": id, "prompt": prompt, "origin": origin, "author": author, "delivery": delivery})
}

/// Returns the type, the run and the data of the log entry about an event; `None` if clients do not see the event.
fn log_line(event: &Event) -> Option<(&'static str, Option<RunId>, Value)> {
    let line = match event {
        Event::JobCreated(job) => {
            let mut data = json!({"title": job.title, "source": job.source, "agent": job.agent, "model": job.model});
            if let Some(effort) = job.effort {
                data["effort"] = json!(effort);
            }
            ("job.created", None, data)
        }
        Event::MessageAccepted { message, .. } => {
            let NewMessage { id, prompt, origin, author, delivery, .. } = message;
            (MESSAGE_ACCEPTED, None, accepted_data(*id, prompt, *origin, author.as_deref(), *delivery))
        }
        Event::MessageWithdrawn(id) => ("message.withdrawn", None, json!({"messageId": id})),
        Event::MessageChanged { message, text } => {
            ("message.changed", None, json!({"messageId": message, "prompt": text.prompt}))
        }
        Event::PullRequestState { pull, state, .. } => {
            let kind = match state {
                PullState::Open => "pull_request.reopened",
                PullState::Merged => "pull_request.merged",
                PullState::Closed => "pull_request.closed",
            };
            (kind, None, json!({"number": pull.number}))
        }
        Event::ChecksSettled { report, stop } => (
            "checks.settled",
            None,
            json!({"sha": report.sha, "result": report.result, "failed": report.failed, "stop": stop}),
        ),
        Event::PullRequestOutdated { number, comparison, stop } => {
            let BaseComparison { base, base_sha, head_sha, behind, conflicts } = &**comparison;
            let data = json!({
                "number": number,
                "base": base,
                "baseSha": base_sha,
                "headSha": head_sha,
                "behind": behind,
                "conflicts": conflicts,
                "stop": stop,
            });
            ("pull_request.outdated", None, data)
        }
        Event::RunStarted { lease, message, attempt } => {
            ("run.started", Some(lease.run), json!({"messageId": message, "attempt": attempt, "worker": lease.worker}))
        }
        Event::Transcript { run, entry } => (entry.kind.event_type(), Some(*run), entry.data.clone()),
        Event::CommitPushed { run, branch, head, commits } => {
            ("commit.pushed", Some(*run), json!({"branch": branch, "head": head, "commits": commits}))
        }
        Event::PullRequestOpened { run, pull } => {
            ("pull_request.opened", Some(*run), json!({"number": pull.number, "url": pull.url}))
        }
        Event::PullRequestUpdated { run, pull } => {
            ("pull_request.updated", Some(*run), json!({"number": pull.number, "url": pull.url}))
        }
        Event::RunFinished { run, status, reason, commits, .. } => {
            ("run.finished", Some(*run), json!({"status": status, "reason": reason, "commits": commits}))
        }
        Event::MessageEnded { message, status, commits, pr_link, reason, answer, .. } => (
            "message.finished",
            None,
            json!({
                "messageId": message,
                "status": status,
                "answer": answer,
                "commits": commits,
                "prLink": pr_link,
                "reason": reason,
            }),
        ),
        Event::JobCompleted => ("job.completed", None, json!({})),
        Event::JobFailed(reason) => ("job.failed", None, json!({"reason": reason})),
        Event::MessageWaiting { message, waiting, next_attempt_at } if waiting.attempts == 1 => (
            "message.waiting",
            None,
            json!({
                "messageId": message,
                "reason": waiting.reason,
                "since": waiting.since,
                "deadline": waiting.deadline,
                "nextAttemptAt": next_attempt_at,
            }),
        ),
        Event::PublishedWith { message, earlier, .. } => {
            let earlier: Vec<MessageId> = earlier.iter().map(|one| one.message).collect();
            ("message.published_with", None, json!({"messageId": message, "earlier": earlier}))
        }
        Event::ArchiveRequested | Event::JobArchived { requested_at: None } => ("job.archived", None, json!({})),
        Event::JobUnarchived => ("job.unarchived", None, json!({})),
        Event::StopRequested
        | Event::LeaseRenewed { .. }
        | Event::PullRequestDescribed(_)
        | Event::TurnBegun(_)
        | Event::Answered { .. }
        | Event::TurnEnded { .. }
        | Event::RepairRequested { .. }
        | Event::MessageWaiting { .. }
        | Event::RetryRequested
        | Event::JobArchived { .. } => return None,
    };
    Some(line)
}
