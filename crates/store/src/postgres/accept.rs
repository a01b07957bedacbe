//! A transaction that accepts many requests in two round trips: the first locks and reads all rows that the requests
//! need, the second writes all changes and commits.
//!
//! All processes take locks in the same order, which prevents deadlocks: projects, then idempotency keys, rate limits
//! and branches (with advisory locks, because there may be no row yet), then jobs. Locks of one kind are taken in
//! ascending order.

use std::collections::{BTreeMap, BTreeSet};

use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::change::Change;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::{Accepted, Answer, Decide, Guard, RateCharge, UpdateError};
use journeyman_core::rate::Window;
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;

use super::error::PgError;
use super::pipeline::{Query, call};
use super::write::Writes;
use crate::accept::{self, Ledger};
use crate::rows;
use crate::sql::lock_number;

/// Locks and selects the jobs that the requests of a batch change.
pub(super) const LOCKED_JOBS: &str =
    "SELECT id, state, diff, effort, pg_current_xact_id()::text AS transaction FROM jobs
     WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE";

/// A request to create or to update a job.
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) guard: Guard,
    pub(super) now: Timestamp,
}

pub(super) enum Operation {
    Create(Box<Change>),
    Update { id: JobId, project: Option<ProjectId>, decide: Decide },
}

impl Request {
    /// Decides the request with the tables of this attempt. It may be called again if the transaction is retried.
    pub(super) fn decide(&mut self, tables: &mut Tables) -> Result<Accepted, UpdateError> {
        match &mut self.operation {
            Operation::Create(change) => accept::create(tables, &self.guard, change, self.now),
            Operation::Update { id, project, decide } => {
                accept::update(tables, *id, project.as_ref(), &self.guard, decide, self.now)
            }
        }
    }
}

/// The rows that the requests of a batch need.
#[derive(Default)]
pub(super) struct Needs {
    projects: BTreeSet<String>,
    keys: BTreeSet<(String, String)>,
    windows: BTreeSet<(String, &'static str)>,
    jobs: BTreeSet<String>,
    /// The projects and branches of new jobs.
    branches: BTreeSet<(String, String)>,
    /// The jobs to unarchive.
    unarchived: BTreeSet<String>,
    /// The projects of the new and the unarchived jobs.
    branch_projects: BTreeSet<String>,
}

impl Needs {
    pub(super) fn of<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Self {
        let mut needs = Self::default();
        for request in requests {
            match &request.operation {
                Operation::Create(change) => needs.projects.insert(change.job.project.to_string()),
                Operation::Update { id, .. } => needs.jobs.insert(id.to_string()),
            };
            if request.guard.takes_branch {
                needs.branch(&request.operation);
            }
            if let Some(claim) = &request.guard.idempotency {
                needs.keys.insert((claim.scope().to_owned(), claim.stored_key()));
                needs.keys.insert((claim.scope().to_owned(), claim.key.clone()));
            }
            if let Some(charge) = &request.guard.rate {
                needs.windows.insert((charge.project.to_string(), charge.kind.name()));
            }
        }
        needs
    }

    fn branch(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(change) if change.job.options.names_branch() => {
                self.branches.insert((change.job.project.to_string(), change.job.branch_name()));
                self.branch_projects.insert(change.job.project.to_string());
            }
            Operation::Create(_) => {}
            Operation::Update { id, project, .. } => {
                self.unarchived.insert(id.to_string());
                self.branch_projects.extend(project.as_ref().map(ToString::to_string));
            }
        }
    }

    /// Returns the statements of the first round trip. The locking queries also return the number of the transaction,
    /// to find out whether the transaction is still in progress if the answer to its commit is lost. The number is
    /// missing only if no project and no job was found; then nothing is written.
    pub(super) fn calls(&self) -> Vec<Query> {
        let mut calls = vec![call!("BEGIN")];
        if !self.projects.is_empty() {
            calls.push(call!(
                "SELECT id, pg_current_xact_id()::text AS transaction FROM projects
                 WHERE id = ANY($1::text[]) ORDER BY id FOR KEY SHARE",
                Vec::from_iter(self.projects.clone())
            ));
        }
        let locks = self.locks();
        if !locks.is_empty() {
            calls.push(call!("SELECT pg_advisory_xact_lock(place) FROM unnest($1::bigint[]) AS place", locks));
        }
        if !self.jobs.is_empty() {
            calls.push(call!(LOCKED_JOBS, Vec::from_iter(self.jobs.clone())));
        }
        if !self.keys.is_empty() {
            calls.push(call!(
                "SELECT * FROM idempotency_keys WHERE (project, key) IN (SELECT * FROM unnest($1::text[], $2::text[]))",
                Vec::from_iter(self.keys.iter().map(|(project, _)| project.clone())),
                Vec::from_iter(self.keys.iter().map(|(_, key)| key.clone())),
            ));
        }
        if !self.branches.is_empty() {
            calls.push(call!(
                "SELECT project, branch, id FROM jobs
                 WHERE (project, branch) IN (SELECT * FROM unnest($1::text[], $2::text[])) AND status <> 'archived'",
                Vec::from_iter(self.branches.iter().map(|(project, _)| project.clone())),
                Vec::from_iter(self.branches.iter().map(|(_, branch)| branch.clone())),
            ));
        }
        if !self.unarchived.is_empty() {
            calls.push(call!(
                "SELECT other.project, other.branch, other.id FROM jobs own
                 JOIN jobs other ON other.project = own.project AND other.branch = own.branch
                 WHERE own.id = ANY($1::text[]) AND other.status <> 'archived'",
                Vec::from_iter(self.unarchived.clone()),
            ));
        }
        if !self.windows.is_empty() {
            calls.push(call!(
                "SELECT * FROM rate_windows WHERE (project, kind) IN (SELECT * FROM unnest($1::text[], $2::text[]))",
                Vec::from_iter(self.windows.iter().map(|(project, _)| project.clone())),
                Vec::from_iter(self.windows.iter().map(|(_, kind)| *kind)),
            ));
        }
        calls
    }

    /// Returns the numbers of the advisory locks, in ascending order.
    fn locks(&self) -> Vec<i64> {
        let keys = self.keys.iter().map(|(project, key)| lock_number("idempotency", project, key));
        let windows = self.windows.iter().map(|(project, kind)| lock_number("rate", project, kind));
        let branches = self.branch_projects.iter().map(|project| lock_number("branches", project, ""));
        let locks: BTreeSet<i64> = keys.chain(windows).chain(branches).collect();
        locks.into_iter().collect()
    }
}

/// The rows that the first round trip has read, and the changes to write.
#[derive(Default)]
pub(super) struct Tables {
    /// The base of the current epoch.
    epoch: u64,
    /// The number of the transaction.
    pub(super) transaction: String,
    pub(super) writes: Writes,
    projects: BTreeSet<String>,
    keys: BTreeMap<(String, String), Remembered<Answer>>,
    windows: BTreeMap<(String, String), Window>,
    jobs: BTreeMap<JobId, Job>,
    /// The jobs that are not archived, by project and branch.
    branches: BTreeSet<(String, String, JobId)>,
}

impl Tables {
    /// Reads the results of [`Needs::calls`]. The columns of a row identify its table. `epoch` is the base of the epoch.
    pub(super) fn read(answers: &[Vec<Row>], epoch: u64) -> Result<Self, PgError> {
        let mut tables = Self { epoch, ..Self::default() };
        for row in answers.iter().flatten() {
            let text = |column: &str| row.try_get::<_, String>(column);
            let names: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
            match names.as_slice() {
                ["id", "transaction"] => {
                    tables.transaction = text("transaction")?;
                    tables.projects.insert(text("id")?);
                }
                ["id", "state", "diff", "effort", "transaction"] => {
                    tables.transaction = text("transaction")?;
                    let job = rows::job(row)?;
                    tables.jobs.insert(job.id, job);
                }
                ["project", "branch", "id"] => {
                    tables.branches.insert((text("project")?, text("branch")?, rows::job_id(row)?));
                }
                ["project", "key", ..] => {
                    tables.keys.insert((text("project")?, text("key")?), rows::remembered_job(row)?);
                }
                ["project", "kind", ..] => {
                    tables.windows.insert((text("project")?, text("kind")?), rows::window(row)?);
                }
                _ => {}
            }
        }
        Ok(tables)
    }
}

impl Tables {
    /// Records the branch of a job for later requests in the same transaction.
    fn note_branch(&mut self, job: &Job) {
        let entry = (job.project.to_string(), job.branch_name(), job.id);
        if job.status() == JobStatus::Archived {
            self.branches.remove(&entry);
        } else {
            self.branches.insert(entry);
        }
    }
}

impl Ledger for Tables {
    type Error = UpdateError;

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn remembered(&mut self, scope: &str, key: &str) -> Result<Option<Remembered<Answer>>, UpdateError> {
        Ok(self.keys.get(&(scope.to_owned(), key.to_owned())).cloned())
    }

    fn window(&mut self, charge: &RateCharge) -> Result<Option<Window>, UpdateError> {
        Ok(self.windows.get(&(charge.project.to_string(), charge.kind.name().to_owned())).copied())
    }

    fn has_project(&mut self, project: &ProjectId) -> Result<bool, UpdateError> {
        Ok(self.projects.contains(project.as_str()))
    }

    fn job(&mut self, id: JobId) -> Result<Option<Job>, UpdateError> {
        Ok(self.jobs.get(&id).cloned())
    }

    fn branch_holder(&mut self, job: &Job) -> Result<Option<JobId>, UpdateError> {
        let (project, branch) = (job.project.to_string(), job.branch_name());
        let holds =
            |(of, name, holder): &&(String, String, JobId)| *of == project && *name == branch && *holder != job.id;
        Ok(self.branches.iter().find(holds).map(|(_, _, holder)| *holder))
    }

    fn remember(&mut self, claim: &Claim, known: Remembered<Answer>) -> Result<(), UpdateError> {
        self.writes.remember(claim.scope(), &claim.stored_key(), known.clone());
        self.keys.insert((claim.scope().to_owned(), claim.stored_key()), known);
        Ok(())
    }

    fn count(&mut self, charge: &RateCharge, window: Window) -> Result<(), UpdateError> {
        self.writes.count(&charge.project, charge.kind, window);
        self.windows.insert((charge.project.to_string(), charge.kind.name().to_owned()), window);
        Ok(())
    }

    fn insert(&mut self, change: &Change) -> Result<(), UpdateError> {
        self.writes.insert(change)?;
        self.note_branch(&change.job);
        Ok(())
    }

    fn update(&mut self, change: &Change) -> Result<(), UpdateError> {
        self.writes.update(change)?;
        self.note_branch(&change.job);
        self.jobs.insert(change.job.id, change.job.clone());
        Ok(())
    }
}
