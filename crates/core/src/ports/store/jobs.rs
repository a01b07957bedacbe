//! The store of jobs: the port, and the rules that all implementations follow.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::code_host::PullState;
use crate::idempotency::{Claim, KeyReused};
use crate::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use crate::job::change::Change;
use crate::job::decide::Rejected;
use crate::job::event::LogEntry;
use crate::job::label::Attribute;
use crate::job::summary::JobSummary;
use crate::job::{Job, JobRecord, JobStatus};
use crate::message::{Message, MessageStatus};
use crate::project::hold::Hold;
use crate::pull::IndexedPull;
use crate::rate::{RateKind, RateState};
use crate::run::{Run, Usage};
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

/// Selects messages of all jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageFilter {
    /// The projects of the messages; `None` means all projects.
    pub projects: Option<Vec<ProjectId>>,
    /// The statuses of the messages; empty means all statuses.
    pub statuses: Vec<MessageStatus>,
    /// The earliest time of the last change of the status.
    pub updated_since: Option<Timestamp>,
    /// The exclusive start: the time of the last change of a message, and its ID.
    pub after: Option<(Timestamp, MessageId)>,
    /// The maximum number of messages.
    pub limit: usize,
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

/// A position in a list of jobs, newest first: the last job that was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The creation time of that job.
    pub created_at: Timestamp,
    /// The ID of that job, because several jobs can have the same creation time.
    pub id: JobId,
}

/// A selection of jobs, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs of these projects; `None` means all projects.
    pub projects: Option<Vec<ProjectId>>,
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs with all these attributes.
    pub attributes: Vec<Attribute>,
    /// Only jobs with at least one of these attributes; empty means all jobs.
    pub any_of: Vec<Attribute>,
    /// Only jobs that work on this branch.
    pub branch: Option<String>,
    /// Only jobs that have worked on a pull request with this number.
    pub pull: Option<u64>,
    /// Only jobs that have worked on a pull request in this state.
    pub pull_state: Option<PullState>,
    /// Only jobs created after this time.
    pub created_after: Option<Timestamp>,
    /// Only jobs created before this time.
    pub created_before: Option<Timestamp>,
    /// Only jobs with this text in the title. ASCII letters match in either case.
    pub title_contains: Option<String>,
    /// Only jobs after this position in the list.
    pub after: Option<Cursor>,
    /// The maximum number of jobs.
    pub limit: usize,
}

impl JobFilter {
    /// Returns a filter for a project's newest jobs.
    #[must_use]
    pub fn newest(project: ProjectId, limit: usize) -> Self {
        Self { projects: Some(vec![project]), limit, ..Self::default() }
    }
}

/// The data about a job that is not in its document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobExtras {
    /// The labels, the metadata, the author and the agent, sorted by their texts.
    pub attributes: Vec<Attribute>,
    /// The usage of all runs.
    pub usage: Usage,
    /// The pull requests, oldest first.
    pub pulls: Vec<IndexedPull>,
    /// The hold of the job's project.
    pub hold: Option<Hold>,
}

/// A job with its newest message and the data that is not in its document.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOverview {
    /// The job.
    pub job: Job,
    /// The message that was accepted last.
    pub newest_message: Option<Message>,
    /// The other data.
    pub extras: JobExtras,
}

/// The numbers of active jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// The number of active jobs.
    pub active: u64,
    /// The number of jobs that a worker has a lease on.
    pub running: u64,
    /// The number of jobs that a worker may claim now.
    pub due: u64,
    /// The time since which the oldest of them has been due.
    pub oldest_due: Option<Timestamp>,
}

/// The numbers of jobs by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StatusCounts {
    /// The number of active jobs.
    pub active: u64,
    /// The number of completed jobs.
    pub completed: u64,
    /// The number of archived jobs.
    pub archived: u64,
    /// The number of failed jobs.
    pub failed: u64,
}

impl StatusCounts {
    /// Returns the number of jobs with a status.
    #[must_use]
    pub const fn of(&self, status: JobStatus) -> u64 {
        match status {
            JobStatus::Active => self.active,
            JobStatus::Completed => self.completed,
            JobStatus::Archived => self.archived,
            JobStatus::Failed => self.failed,
        }
    }

    /// Sets the number of jobs with a status.
    pub const fn set(&mut self, status: JobStatus, count: u64) {
        let known = match status {
            JobStatus::Active => &mut self.active,
            JobStatus::Completed => &mut self.completed,
            JobStatus::Archived => &mut self.archived,
            JobStatus::Failed => &mut self.failed,
        };
        *known = count;
    }

    /// Returns the number of all jobs.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.active + self.completed + self.archived + self.failed
    }
}

/// The numbers of jobs of a project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProjectJobs {
    /// The number of jobs that a worker has a lease on.
    pub running: u64,
    /// The number of open pull requests of jobs.
    pub open_pulls: u64,
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

    /// Returns the selected jobs, newest first.
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError>;

    /// Counts the jobs of a project, or of all projects, by status, and stops at `limit` jobs of each status.
    async fn count_jobs(&self, project: Option<ProjectId>, limit: usize) -> Result<StatusCounts, StoreError>;

    /// Counts the active jobs.
    ///
    /// # Errors
    /// Returns an error if the database failed.
    async fn job_counts(&self, now: Timestamp) -> Result<JobCounts, StoreError>;

    /// Returns the number of jobs that wait for something outside them ([`Job::waiting`]), by the code of the cause.
    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Returns the jobs that a worker has a lease on.
    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError>;

    /// Returns the messages of a job, in the order in which they were accepted.
    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError>;

    /// Returns the messages of a job that were accepted after the message `after`, at most `limit`. If the job has no such
    /// message, there are none after it.
    async fn messages_after(
        &self,
        job: JobId,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, StoreError>;

    /// Returns the message of a job that was accepted last.
    async fn newest_message(&self, job: JobId) -> Result<Option<Message>, StoreError>;

    /// Returns the messages that match a filter, in the order of the last change of their status, newest first.
    async fn find_messages(&self, filter: MessageFilter) -> Result<Vec<Message>, StoreError>;

    /// Returns the number of messages that match a filter, at most its `limit`. Ignores `after`.
    async fn count_messages(&self, filter: MessageFilter) -> Result<u64, StoreError>;

    /// Finds a message.
    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError>;

    /// Finds a run.
    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError>;

    /// Returns the runs of a job, oldest first.
    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError>;

    /// Returns the runs of a job after the run `after`, oldest first, at most `limit`. If the job has no such run, there
    /// are none after it.
    async fn runs_after(&self, job: JobId, after: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError>;

    /// Returns the data about these jobs that is not in their documents. Jobs without such data are left out.
    async fn extras_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobExtras>, StoreError>;

    /// Finds a job with its newest message and its extras. The three may be read one after the other: each is as it was
    /// committed at some time since the call.
    async fn job_overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError> {
        let Some(job) = self.job(id).await? else { return Ok(None) };
        let newest_message = self.newest_message(id).await?;
        let extras = self.extras_of_jobs(vec![id]).await?.remove(&id).unwrap_or_default();
        Ok(Some(JobOverview { job, newest_message, extras }))
    }

    /// Returns the summaries of these jobs, for the rows of a list. Jobs that do not exist are left out.
    async fn summaries_of_jobs(&self, jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobSummary>, StoreError>;

    /// Returns the numbers of running jobs and of open pull requests of each project that has any.
    async fn jobs_of_projects(&self) -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError>;

    /// Returns the entries of a job's log with a number above `after`, at most `limit`.
    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError>;

    /// Returns the entry of the newest plan of a job's agent among the entries of its log with a number below `before`.
    async fn plan_before(&self, job: JobId, before: u64) -> Result<Option<LogEntry>, StoreError>;

    /// Returns the number of tool calls that began in these entries of a job's log. It reads each of the entries.
    async fn count_steps(&self, job: JobId, entries: Range<u64>) -> Result<u64, StoreError>;

    /// Starts to watch the log of a job.
    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_>;

    /// Returns a number that increases whenever new work may be available.
    fn work_version(&self) -> u64;

    /// Waits until [`JobStore::work_version`] differs from `seen`.
    async fn work_changed(&self, seen: u64);
}
