//! A store in memory, under one lock, with the ports of [`WorkStore`](journeyman_core::ports::WorkStore) only. The
//! simulation of the worker runs on it, and tests compare the other stores with it.

mod holds;
mod jobs;
mod locks;
mod outbox;
mod projects;
mod workers;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{JobId, ProjectId, WorkerId};
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::Message;
use journeyman_core::ports::{Answer, RateCharge, UpdateError};
use journeyman_core::project::Project;
use journeyman_core::project::hold::Hold;
use journeyman_core::rate::Window;
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;
use journeyman_core::worker::WorkerReport;
use uuid::Uuid;

use crate::accept::Ledger;
use crate::wakeups::Wakeups;

/// A store of the work on jobs that keeps its data only as long as its process runs.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    wakeups: Wakeups,
}

#[derive(Debug, Default)]
struct Tables {
    jobs: BTreeMap<JobId, Job>,
    messages: Vec<Message>,
    runs: Vec<Run>,
    log: BTreeMap<(JobId, u64), LogEntry>,
    idempotency: BTreeMap<(String, String), Remembered<Answer>>,
    rates: BTreeMap<(ProjectId, &'static str), Window>,
    projects: BTreeMap<ProjectId, Project>,
    holds: BTreeMap<ProjectId, Hold>,
    /// In the order of their numbers.
    tasks: Vec<outbox::TaskRow>,
    last_task: u64,
    /// The holders and ends of locks.
    locks: BTreeMap<String, (Uuid, Timestamp)>,
    /// The reports of workers, with the times at which they were stored.
    workers: BTreeMap<WorkerId, (Instant, WorkerReport)>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { tables: Mutex::default(), wakeups: Wakeups::new() }
    }
}

impl MemoryStore {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn write(&mut self, change: &Change) {
        let job = change.job.id;
        self.jobs.insert(job, change.job.clone());
        for row in &change.rows {
            self.write_row(row);
        }
        for entry in &change.log {
            self.log.insert((job, entry.seq), entry.clone());
        }
    }

    fn write_row(&mut self, row: &Row) {
        match row {
            // Lists, the feed, the inbox, the issues and the checks are not part of the work.
            Row::Attributes(_)
            | Row::Pull(_)
            | Row::PullState(..)
            | Row::Feed(_)
            | Row::InboxDone { .. }
            | Row::IssueJob { .. }
            | Row::WatchChecks { .. } => {}
            Row::InsertMessage(message) => self.messages.push((**message).clone()),
            Row::InsertRun(run) => self.runs.push(run.clone()),
            Row::MessageDelivered { id, run, at } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.status = journeyman_core::message::MessageStatus::Delivered;
                    message.run = Some(*run);
                    message.delivered_at = message.delivered_at.or(Some(*at));
                }
            }
            Row::MessageEnded { id, status, at, commits, pr_link, answer } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.status = *status;
                    message.finished_at = Some(*at);
                    message.commits.clone_from(commits);
                    message.pr_link.clone_from(pr_link);
                    message.answer.clone_from(answer);
                }
            }
            Row::MessagePublishedWith { id, with, commits, pr_link } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.published_with = Some(*with);
                    message.commits.clone_from(commits);
                    message.pr_link.clone_from(pr_link);
                }
            }
            Row::MessageDiff { id, diff } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.diff = Some(diff.clone());
                }
            }
            Row::MessageChanged { id, text } => {
                for message in self.messages.iter_mut().filter(|message| message.id == *id) {
                    message.prompt.clone_from(&text.prompt);
                    message.author.clone_from(&text.author);
                    message.source = text.source.as_deref().cloned();
                    message.origin = message.source.as_ref().map_or(message.origin, |source| source.origin);
                }
            }
            Row::InsertTask { effect, at } => self.insert_task(effect.clone(), *at),
            Row::RunUsed { id, usage } => {
                for run in self.runs.iter_mut().filter(|run| run.id == *id) {
                    run.usage = run.usage.plus(usage);
                }
            }
            Row::RunEnded { id, status, reason, at, usage, commits } => {
                for run in self.runs.iter_mut().filter(|run| run.id == *id) {
                    run.status = *status;
                    run.reason.clone_from(reason);
                    run.finished_at = Some(*at);
                    run.usage = *usage;
                    run.commits.clone_from(commits);
                }
            }
        }
    }
}

impl Ledger for Tables {
    type Error = UpdateError;

    fn epoch(&self) -> u64 {
        0
    }

    fn remembered(&mut self, scope: &str, key: &str) -> Result<Option<Remembered<Answer>>, UpdateError> {
        Ok(self.idempotency.get(&(scope.to_owned(), key.to_owned())).cloned())
    }

    fn window(&mut self, charge: &RateCharge) -> Result<Option<Window>, UpdateError> {
        Ok(self.rates.get(&(charge.project.clone(), charge.kind.name())).copied())
    }

    fn has_project(&mut self, project: &ProjectId) -> Result<bool, UpdateError> {
        Ok(self.projects.contains_key(project))
    }

    fn job(&mut self, id: JobId) -> Result<Option<Job>, UpdateError> {
        Ok(self.jobs.get(&id).cloned())
    }

    fn branch_holder(&mut self, job: &Job) -> Result<Option<JobId>, UpdateError> {
        let name = job.branch_name();
        let holds = |other: &&Job| {
            other.id != job.id
                && other.project == job.project
                && other.status() != JobStatus::Archived
                && other.branch_name() == name
        };
        Ok(self.jobs.values().find(holds).map(|other| other.id))
    }

    fn remember(&mut self, claim: &Claim, known: Remembered<Answer>) -> Result<(), UpdateError> {
        self.idempotency.insert((claim.scope().to_owned(), claim.stored_key()), known);
        Ok(())
    }

    fn count(&mut self, charge: &RateCharge, window: Window) -> Result<(), UpdateError> {
        self.rates.insert((charge.project.clone(), charge.kind.name()), window);
        Ok(())
    }

    fn insert(&mut self, change: &Change) -> Result<(), UpdateError> {
        self.write(change);
        Ok(())
    }

    fn update(&mut self, change: &Change) -> Result<(), UpdateError> {
        self.write(change);
        Ok(())
    }
}
