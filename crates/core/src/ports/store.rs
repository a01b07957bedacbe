//! What is kept: jobs, messages, runs, logs, projects, keys, and the pull requests of the built-in code host.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::idempotency::{Claim, KeyReused};
use crate::ids::{JobId, KeyId, MessageId, ProjectId, UserId, WorkerId};
use crate::job::change::Change;
use crate::job::decide::Rejected;
use crate::job::event::LogEntry;
use crate::job::{Job, JobRecord, JobStatus};
use crate::key::{ApiKey, KeyHash};
use crate::message::Message;
use crate::model::price::{Budgets, OverBudget};
use crate::project::hold::{Hold, HoldFailure};
use crate::project::{Project, SecretChanges, SecretValue};
use crate::pull::{Comment, LocalPull, NewComment, NewPull, PullState};
use crate::rate::{RateKind, RateState};
use crate::run::Run;
use crate::time::Timestamp;
use crate::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};

/// Why a store could not do its work. Nothing was stored then, except where the error says that this is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, its disk is full, it was closed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// More writes wait than it can take.
    #[error("the store has too much to do")]
    Busy,
    /// It was lost in the moment of storing: it is not known whether the change was stored, all of it or nothing.
    #[error("the store was lost while it stored a change, which it may have done: {0}")]
    Unknown(String),
    /// A row holds what this version does not know.
    #[error("the table {table} holds an unreadable row {row}: {detail}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// Its key.
        row: String,
        /// What is wrong.
        detail: String,
    },
}

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

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFilter {
    /// Of this project.
    pub project: ProjectId,
    /// In this status.
    pub status: Option<JobStatus>,
    /// Created after.
    pub created_after: Option<Timestamp>,
    /// Created before.
    pub created_before: Option<Timestamp>,
    /// With this text in the title, whatever the case of ASCII letters.
    pub title_contains: Option<String>,
    /// Behind this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: usize,
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

/// Why a project was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectWriteError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The id is taken.
    #[error("there is a project with this id already")]
    Exists,
    /// There is none with that id.
    #[error("there is no such project")]
    NotFound,
    /// It has jobs that are active.
    #[error("the project has active jobs; cancel or archive them first")]
    Busy,
}

/// Projects and their secrets.
#[async_trait]
pub trait ProjectStore: Send + Sync {
    /// Stores a new project.
    async fn create_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError>;

    /// Replaces a project's fields and changes its secrets.
    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError>;

    /// Removes a project with its jobs.
    async fn delete_project(&self, id: ProjectId) -> Result<(), ProjectWriteError>;

    /// One project.
    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError>;

    /// All projects by id.
    async fn projects(&self) -> Result<Vec<Project>, StoreError>;

    /// A project's secrets, in the clear.
    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError>;
}

/// Projects on hold.
#[async_trait]
pub trait HoldStore: Send + Sync {
    /// Puts a project on hold, or updates its hold as [`Hold::after`] describes, and returns the resulting hold. `None`
    /// if the project does not exist.
    async fn hold_project(&self, id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError>;

    /// Ends a project's hold. Idempotent.
    async fn release_project(&self, id: ProjectId) -> Result<(), StoreError>;

    /// Makes the next probe of a project on hold due at `now`.
    async fn probe_project(&self, id: ProjectId, now: Timestamp) -> Result<(), StoreError>;

    /// Returns the projects that are on hold.
    async fn holds(&self) -> Result<BTreeMap<ProjectId, Hold>, StoreError>;
}

/// A line of the audit log: who did what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// The id of a key or user, or `cli`; the name that was tried, where somebody could not sign in.
    pub actor: String,
    /// Such as `key.created`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// The address that it came from, where it came by the network.
    pub address: Option<String>,
}

/// A line of the audit log that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Grows from line to line.
    pub number: u64,
    /// What it says.
    pub entry: AuditEntry,
}

/// API keys and the audit log of what is done to them.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Stores a new key with its line in the audit log.
    async fn create_key(&self, key: ApiKey, audit: AuditEntry) -> Result<(), StoreError>;

    /// The key with that hash.
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError>;

    /// All keys, newest first.
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes a key; false if there is none. Again is the same as once.
    async fn revoke_key(&self, id: KeyId, audit: AuditEntry) -> Result<bool, StoreError>;

    /// Notes that a key was used.
    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError>;

    /// Writes a line of the audit log by itself.
    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// The newest lines of the audit log, of those before `before` if it is given, newest first.
    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, StoreError>;
}

/// Why a user was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserWriteError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The name is taken.
    #[error("there is a user with this name already")]
    Exists,
    /// There is none with that id.
    #[error("there is no such user")]
    NotFound,
    /// They were disabled, or their password was changed, in the meantime.
    #[error("the user was disabled, or the password changed, in this moment")]
    Changed,
    /// Nobody would be left who may do everything.
    #[error("this is the last administrator; make another one first")]
    LastAdministrator,
    /// It was used, it is over, or there never was one.
    #[error("this link was used already or is no longer valid")]
    LinkGone,
}

/// A new password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordChange {
    /// What it was.
    pub from: Option<PasswordHash>,
    /// What it is to be.
    pub to: PasswordHash,
    /// The session that goes on.
    pub keep: TokenHash,
}

/// Sessions that are to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionsToEnd {
    /// This one.
    One(TokenHash),
    /// All of a user.
    AllOf(UserId),
    /// All of a user but this one.
    OthersOf(UserId, TokenHash),
}

/// Users of the dashboard, their sessions, and links by which they set a password.
#[async_trait]
pub trait UserStore: Send + Sync {
    /// Stores a new user.
    async fn create_user(&self, user: User, audit: AuditEntry) -> Result<(), UserWriteError>;

    /// Gives a user another role. Of their keys those are revoked that may more than it: all of a viewer's, those for all
    /// projects of a member's. There is always an administrator who may sign in.
    async fn set_role(&self, id: UserId, role: Role, audit: AuditEntry) -> Result<(), UserWriteError>;

    /// Disables a user, or lets them in again. Who is disabled has no sessions left, no links, and no keys.
    async fn set_disabled(&self, id: UserId, disabled: bool, audit: AuditEntry) -> Result<(), UserWriteError>;

    /// Changes a password, if it is still what it was and its user may sign in; their links, and all sessions but one, are
    /// over then.
    async fn set_password(&self, id: UserId, change: PasswordChange, audit: AuditEntry) -> Result<(), UserWriteError>;

    /// All users by name.
    async fn users(&self) -> Result<Vec<User>, StoreError>;

    /// One user.
    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError>;

    /// The user with that name.
    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError>;

    /// The user who is that at the provider.
    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError>;

    /// Stores a new session and that its user has signed in, if they still may: they are not disabled, and their password
    /// is still `password`.
    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        audit: AuditEntry,
    ) -> Result<(), UserWriteError>;

    /// The session with that hash and its user, whether it is over or not.
    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError>;

    /// A user's sessions, the one that was used last first.
    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError>;

    /// Notes that a session was used.
    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError>;

    /// Ends sessions; how many there were.
    async fn end_sessions(&self, which: SessionsToEnd, audit: AuditEntry) -> Result<usize, StoreError>;

    /// Stores a link; earlier ones of the same user are gone.
    async fn create_link(&self, link: SignInLink, audit: AuditEntry) -> Result<(), StoreError>;

    /// The link with that hash.
    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError>;

    /// Uses a link up. With one of a user, `user` is that user, whose new password is stored, and nothing else of them;
    /// their sessions and other links are over. With one of the first administrator, `user` is stored, unless there is an
    /// administrator already. A link that is refused stays.
    async fn use_link(&self, hash: TokenHash, user: User, audit: AuditEntry) -> Result<(), UserWriteError>;
}

/// Pull requests of the built-in code host.
#[async_trait]
pub trait PullStore: Send + Sync {
    /// Opens one with the repository's next number; `None` if the head has an open one already.
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError>;

    /// One.
    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError>;

    /// The open one of a branch.
    async fn open_pull_of(&self, repository: String, head: String) -> Result<Option<LocalPull>, StoreError>;

    /// All of a repository, newest first.
    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError>;

    /// Ends an open one; false if it was not open.
    async fn end_pull(
        &self,
        repository: String,
        number: u64,
        state: PullState,
        between: Option<(crate::ids::Sha, crate::ids::Sha)>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Adds a comment, behind the others.
    async fn comment(&self, repository: String, number: u64, comment: NewComment) -> Result<Comment, StoreError>;

    /// The comments on one, oldest first.
    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError>;
}

/// Money that calls of models cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    /// Whose.
    pub project: ProjectId,
    /// For what.
    pub job: JobId,
    /// The day of UTC, as [`crate::model::price::day`] counts them.
    pub day: i64,
    /// Millionths of a US dollar; less than nothing gives back what was taken before.
    pub micros: i64,
    /// What may be spent; that of a run is not looked at here.
    pub budgets: Budgets,
}

/// Why nothing was spent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpendError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is not enough.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

/// What projects and jobs have spent.
#[async_trait]
pub trait SpendingStore: Send + Sync {
    /// Adds to what the job, the project and the project's day have spent, all or none: none where one would then have
    /// more than it may, of which the first of job, day and project is told.
    async fn spend(&self, spend: Spend) -> Result<(), SpendError>;

    /// What a job, a project's day and the project have spent.
    async fn spent(&self, project: ProjectId, job: JobId, day: i64) -> Result<[u64; 3], StoreError>;
}

/// How long things are kept; `None`: for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// What agents said and did in jobs, from when the job came to rest; the other lines of its log stay.
    pub transcripts: Option<Duration>,
    /// Jobs with everything about them, from when they came to rest.
    pub jobs: Option<Duration>,
    /// Lines of the audit log.
    pub audit: Option<Duration>,
}

/// How much a sweep has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Idempotency keys.
    pub idempotency_keys: usize,
    /// Windows of rate limits.
    pub rate_windows: usize,
    /// Jobs whose transcript went.
    pub transcripts: usize,
    /// Jobs.
    pub jobs: usize,
    /// Lines of the audit log.
    pub audit: usize,
}

impl Swept {
    /// The largest of the numbers.
    #[must_use]
    pub fn most(&self) -> usize {
        let Self { idempotency_keys, rate_windows, transcripts, jobs, audit } = *self;
        [idempotency_keys, rate_windows, transcripts, jobs, audit].into_iter().max().unwrap_or(0)
    }
}

/// All of it.
#[async_trait]
pub trait Store: JobStore + ProjectStore + HoldStore + KeyStore + UserStore + PullStore + SpendingStore {
    /// Whether it answers.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Returns, with the reason, when the store can no longer trust its files. From then on every request fails, and
    /// the process must end: only a new process can find out what was stored. Most stores never return.
    async fn failed(&self) -> String {
        std::future::pending().await
    }

    /// Removes what is over, at most `limit` of each kind, and says how much that was: a kind of which there were `limit`
    /// may have more. Idempotency keys and rate windows go when their time is over, the rest as `retention` says.
    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError>;
}
