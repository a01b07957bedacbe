//! The store of jobs: the port, and the rules that every implementation follows.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::idempotency::{Claim, KeyReused};
use crate::ids::{JobId, MessageId, ProjectId, WorkerId};
use crate::job::change::Change;
use crate::job::decide::Rejected;
use crate::job::event::LogEntry;
use crate::job::{Job, JobRecord, JobStatus};
use crate::message::Message;
use crate::project::hold::Hold;
use crate::rate::{RateKind, RateState};
use crate::run::Run;
use crate::time::Timestamp;

/// Why a job was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such job (in that project).
    #[error("there is no such job")]
    NotFound,
    /// The project of a new job was deleted.
    #[error("there is no such project")]
    NoProject,
    /// The command is refused in the job's state.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The limit of the hour is used up.
    #[error("the rate limit is used up")]
    RateLimited(RateKind, RateState),
    /// Another job of the project works on the branch.
    #[error("the job {1} of this project works on the branch {0:?}; choose another branch, or archive that job")]
    BranchTaken(String, JobId),
    /// The idempotency key belongs to another request.
    #[error(transparent)]
    KeyReused(#[from] KeyReused),
}

/// A use that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateCharge {
    /// Whose.
    pub project: ProjectId,
    /// Of what.
    pub kind: RateKind,
    /// Uses in an hour, at least 1.
    pub limit: u32,
}

/// What must hold for a request to be accepted, checked in the transaction that stores it: first the idempotency key
/// (a replay is answered whatever has happened since, and costs nothing), then the command, then the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// The client's key.
    pub idempotency: Option<Claim>,
    /// What it costs; `None` where there is no limit.
    pub rate: Option<RateCharge>,
    /// Set for requests that create or unarchive a job: no other job of the project that is not archived may work on
    /// its branch.
    pub takes_branch: bool,
}

/// A request that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The record to answer with.
    pub record: JobRecord,
    /// Whether it is the answer of an earlier request with the same key, and nothing was stored.
    pub replayed: bool,
    /// What is left of the limit, where one was charged.
    pub rate: Option<RateState>,
    /// The job as it is now; `None` for a replay.
    pub job: Option<Job>,
}

/// Decides on the job as the store holds it, under the store's lock. May be called again if the transaction is retried.
pub type Decide = Box<dyn FnMut(&Job) -> Result<Change, Rejected> + Send>;

/// Like [`Decide`], for a job that the store picked.
pub type ClaimFn = Decide;

/// How long a job that was worked on before waits for the worker that has its workspace. About what it costs another
/// to build one anew.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The time for which a job that avoids a worker waits for another one. A machine whose runs fail at once is always
/// free; without this time it would take the same jobs again before a busy machine does.
pub const AVOIDANCE: Duration = Duration::from_secs(30);

/// The time after which another job may probe a project on hold, because the worker of the last probe may have died.
pub const PROBE_TIME: Duration = Duration::from_secs(60);

/// Who looks for work, and when.
///
/// A job may be given to the worker if it is due ([`Job::is_due`]), if it prefers no other worker ([`Job::prefers`]) or
/// has waited for that worker for [`PATIENCE`] (or, according to its clock, begins to wait later than that from now),
/// and if its project has fewer live runs than its limit. The first of those is a job of the project with the fewest
/// live runs, so that a project with many jobs does not keep the others waiting; then the job that has been due
/// longest; then the oldest. Jobs that are due only because a clock was set back come last in their project.
///
/// A job that avoids the worker ([`Job::avoids`]) is given to it only after `avoidance`. For a project on hold,
/// one job is given out when the hold's next probe is due, which postpones the following probe by [`PROBE_TIME`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimQuery {
    /// The present.
    pub now: Timestamp,
    /// The worker.
    pub worker: WorkerId,
    /// The time for which jobs that avoid the worker wait for another one.
    pub avoidance: Duration,
}

/// A place in a list of jobs, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Of the last job seen.
    pub created_at: Timestamp,
    /// Of the last job seen; tells jobs of one moment apart.
    pub id: JobId,
}

/// A selection of a project's jobs, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFilter {
    /// The project.
    pub project: ProjectId,
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs created later.
    pub created_after: Option<Timestamp>,
    /// Only jobs created earlier.
    pub created_before: Option<Timestamp>,
    /// Only jobs with this text in the title. ASCII letters match in either case.
    pub title_contains: Option<String>,
    /// Only jobs after this place in the list.
    pub after: Option<Cursor>,
    /// The maximum number of jobs.
    pub limit: usize,
}

impl JobFilter {
    /// Returns a filter for a project's newest jobs.
    #[must_use]
    pub const fn newest(project: ProjectId, limit: usize) -> Self {
        Self {
            project,
            status: None,
            created_after: None,
            created_before: None,
            title_contains: None,
            after: None,
            limit,
        }
    }
}

/// A job that was picked.
#[derive(Debug, Clone, PartialEq)]
pub struct Picked {
    /// As it is now.
    pub job: Job,
    /// The message that was delivered with it, as it is now; `None` if a lost run was cleared away and no more.
    pub message: Option<Message>,
    /// The hold of its project, if this job was picked to probe it.
    pub hold: Option<Hold>,
}

/// Waits for news of a job.
#[async_trait]
pub trait JobWatch: Send {
    /// Returns when the job's log may have lines above `after`; it may return without. What comes between two calls is
    /// not missed.
    async fn changed(&mut self, after: u64);
}

/// Jobs. Only [`crate::engine::Engine`] calls what writes.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Stores a new job, if its project exists. On disk when it returns.
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError>;

    /// Locks the job, lets `decide` say what to write, and writes it, all in one transaction. On disk when it returns.
    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError>;

    /// Picks a job as [`ClaimQuery`] says, of those that nobody else is picking, and writes what `claim` says; `None`
    /// if there is none.
    async fn claim_job(&self, query: ClaimQuery, claim: ClaimFn) -> Result<Option<Picked>, StoreError>;

    /// The job.
    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Jobs, newest first.
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError>;

    /// How many jobs are active.
    async fn active_jobs(&self) -> Result<u64, StoreError>;

    /// Returns the number of jobs that wait for something outside them ([`Job::waiting`]), by the code of the cause.
    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Returns the jobs that a worker has a lease on.
    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError>;

    /// A job's messages in the order in which they were accepted.
    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError>;

    /// One message.
    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError>;

    /// A job's runs, oldest first.
    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError>;

    /// Lines of a job's log with a number above `after`, at most `limit`.
    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError>;

    /// Watches a job from now on.
    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_>;

    /// A number that grows whenever work may have become available.
    fn work_version(&self) -> u64;

    /// Returns when [`JobStore::work_version`] differs from `seen`.
    async fn work_changed(&self, seen: u64);
}
