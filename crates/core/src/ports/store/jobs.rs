//! The store of jobs: the port, and the rules that all implementations follow.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use crate::idempotency::{Claim, KeyReused};
use crate::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use crate::job::change::Change;
use crate::job::decide::Rejected;
use crate::job::event::LogEntry;
use crate::job::{Job, JobRecord};
use crate::message::Message;
use crate::project::hold::Hold;
use crate::rate::{RateKind, RateState};
use crate::run::Run;
use crate::time::Timestamp;

/// The reason why a job was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No earlier request had the idempotency key, and the request may only get the answer of an earlier one.
    #[error("the request was not accepted before")]
    NotReplayed,
    /// The job does not exist, or belongs to another project.
    #[error("there is no such job")]
    NotFound,
    /// The project of a new job was deleted.
    #[error("there is no such project")]
    NoProject,
    /// The command is not allowed in the state of the job.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The rate limit is used up.
    #[error("the rate limit is used up")]
    RateLimited(RateKind, RateState),
    /// Another job of the project, which is not archived, works on the branch.
    #[error("the job {1} of this project works on the branch {0:?}; choose another branch, or archive that job")]
    BranchTaken(String, JobId),
    /// The idempotency key belongs to another request.
    #[error(transparent)]
    KeyReused(#[from] KeyReused),
}

/// A use that counts towards a rate limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateCharge {
    /// The project whose uses are counted.
    pub project: ProjectId,
    /// The kind of the use.
    pub kind: RateKind,
    /// The maximum number of uses in an hour, at least 1.
    pub limit: u32,
}

/// The conditions under which a request is accepted. The transaction that stores the request checks them in this order:
/// the idempotency key, the command, the branch, the rate limit. A repeated request gets the first answer, whatever has
/// happened since, and does not count towards the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// The idempotency key that the client sent.
    pub idempotency: Option<Claim>,
    /// The use to count; `None` if there is no limit.
    pub rate: Option<RateCharge>,
    /// `true` for requests that create or unarchive a job. They are refused if another job of the project, which is not
    /// archived, works on the job's branch.
    pub takes_branch: bool,
    /// `true` if the request may only be replayed: it gets the answer of an earlier request with the same idempotency
    /// key, or [`UpdateError::NotReplayed`].
    pub replays_only: bool,
}

/// The answer to an accepted request, as it is stored for its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The job's record.
    #[serde(flatten)]
    pub record: JobRecord,
    /// The message that the request added. Earlier versions did not store it.
    #[serde(rename = "messageId", default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
}

/// The result of an accepted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The job's record, which is the answer.
    pub record: JobRecord,
    /// The message that the request added; `None` if it added none.
    pub message: Option<MessageId>,
    /// `true` if an earlier request had the same idempotency key: the record is the answer to that request, and nothing
    /// was stored.
    pub replayed: bool,
    /// The state of the rate limit, if the use was counted.
    pub rate: Option<RateState>,
    /// The job after the request; `None` for a replay.
    pub job: Option<Job>,
}

/// Decides on a change, given the job that the store has locked. It is called again if the transaction is retried.
pub type Decide = Box<dyn FnMut(&Job) -> Result<Change, Rejected> + Send>;

/// Decides like [`Decide`], on a job that the store picked.
pub type ClaimFn = Decide;

/// The time for which a job waits for the worker that has its workspace. Another worker takes about as long to create a
/// workspace.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The time for which a job that avoids a worker waits for another one. A machine whose runs fail at once is always
/// free; without this time it would take the same jobs again before a busy machine does.
pub const AVOIDANCE: Duration = Duration::from_secs(30);

/// The time for which a worker that reports nothing counts as alive, if it has the work of a turn that is not recorded
/// yet. Another worker would have the agent prompted again, so it takes such a job only later.
pub const GONE: Duration = Duration::from_secs(300);

/// The time after which another job may probe a project on hold, because the worker of the last probe may have died.
pub const PROBE_TIME: Duration = Duration::from_secs(60);

/// A request for a job, by a worker.
///
/// A job may be given to the worker if it is due ([`Job::is_due`]), if its project has fewer live runs than its limit,
/// and if one of these holds: it prefers no other worker ([`Job::prefers`]), it has waited for that worker for
/// [`PATIENCE`], or it begins to wait more than [`PATIENCE`] from now, because a clock was set back. The store gives
/// out the first job in this order: the project with the fewest live runs first, so that a project with many jobs does
/// not delay the others; then the job that has been due longest; then the oldest job. Jobs that are due only because a
/// clock was set back come last in their project.
///
/// A job with unrecorded work ([`Job::has_unrecorded_work`]) is given to no other worker while the preferred one has
/// reported itself within [`GONE`].
///
/// A job that avoids the worker ([`Job::avoids`]) is given to it only after `avoidance`. For a project on hold, one job
/// is given out when the hold's next probe is due, which postpones the following probe by [`PROBE_TIME`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimQuery {
    /// The current time.
    pub now: Timestamp,
    /// The worker.
    pub worker: WorkerId,
    /// The time for which jobs that avoid the worker wait for another one.
    pub avoidance: Duration,
}

/// A job that the store picked for a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Picked {
    /// The job after the claim.
    pub job: Job,
    /// The message that the claim delivered, after the claim; `None` if the claim only ended a lost run.
    pub message: Option<Message>,
    /// The hold of its project, if this job was picked to probe it.
    pub hold: Option<Hold>,
}

/// Waits for new entries in the log of a job.
#[async_trait]
pub trait JobWatch: Send {
    /// Waits until the log may have entries with a number above `after`; it may also return without new entries.
    /// Entries that are written between two calls are not missed.
    async fn changed(&mut self, after: u64);
}

/// Stores jobs with their messages, runs and logs. Only [`crate::engine::Engine`] calls the methods that write.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Stores a new job, if its project exists. The job is durable when this returns.
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError>;

    /// Locks the job, calls `decide`, and writes the resulting change, all in one transaction. If `project` is given, a
    /// job of another project is not found. The change is durable when this returns.
    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError>;

    /// Picks a job by the rules of [`ClaimQuery`], except jobs that another worker is claiming, and writes the change
    /// that `claim` returns. Returns `None` if there is no such job.
    async fn claim_job(&self, query: ClaimQuery, claim: ClaimFn) -> Result<Option<Picked>, StoreError>;

    /// Finds a job.
    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Returns the jobs that a worker has a lease on.
    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError>;

    /// Returns the messages of a job, in the order in which they were accepted.
    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError>;

    /// Finds a message.
    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError>;

    /// Finds a run.
    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError>;

    /// Returns the runs of a job, oldest first.
    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError>;

    /// Returns the entries of a job's log with a number above `after`, at most `limit`.
    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError>;

    /// Starts to watch the log of a job.
    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_>;

    /// Returns a number that increases whenever new work may be available.
    fn work_version(&self) -> u64;

    /// Waits until [`JobStore::work_version`] differs from `seen`.
    async fn work_changed(&self, seen: u64);
}
