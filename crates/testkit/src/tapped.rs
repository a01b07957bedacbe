//! A store that notifies an observer before and after each call. The observer may delay the call, fail it, or never let
//! it return.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::audit::{AuditEntry, AuditFilter, AuditLine};
use journeyman_core::checks::{Check, CheckWatch};
use journeyman_core::code_host::{CodeHostId, HostName, HostSecrets, PullRef, PullRepository};
use journeyman_core::decision::{AnyDecision, Once};
use journeyman_core::feed::{FeedEnds, FeedEntry, FeedQuery};
use journeyman_core::idempotency::Claim;
use journeyman_core::ids::{
    JobId, KeyId, MessageId, ProjectId, RunId, Sha, SlackWorkspaceId, UserId, WebhookId, WorkerId,
};
use journeyman_core::import::Import;
use journeyman_core::inbox::{Decision, InboxEvent, InboxState, NewEvent, Outcome};
use journeyman_core::job::Job;
use journeyman_core::job::change::Change;
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::summary::JobSummary;
use journeyman_core::key::{ApiKey, KeyHash, KeyOrigin};
use journeyman_core::message::Message;
use journeyman_core::model::budget::Used;
use journeyman_core::outbox::{Backlog, Task};
use journeyman_core::poll::Poll;
use journeyman_core::ports::{
    Accepted, AdminError, AdminStore, Administered, CheckStore, ClaimFn, ClaimQuery, CodeHostStore, ComparisonStore,
    Decide, Decided, DeliveryBacklog, DeliveryFilter, DutyStore, FeedStore, Guard, HoldStore, ImportStore, InboxFilter,
    InboxStore, JobCounts, JobExtras, JobFilter, JobLists, JobOverview, JobStore, JobWatch, KeyStore, LockStore,
    MessageFilter, NewReservation, OutboxStore, Picked, PollStore, PoolState, ProjectJobs, ProjectStore, PullCounts,
    PullFilter, PullIndex, PullStore, Resealed, Reservation, ReserveError, ResourceStore, Retention, SealedCensus,
    SealedKind, SealedPage, SealedStore, SlackEventFilter, SlackStore, SpendingStore, StatusCounts, Store, StoreError,
    Sums, Swept, TaskQuery, UpdateError, UsageStore, UserStore, WebhookStore, WorkerStore,
};
use journeyman_core::project::hold::{Hold, HoldFailure};
use journeyman_core::project::{Project, RepositoryIdentity};
use journeyman_core::pull::compared::{ComparedPull, DueComparison, EndedComparison, MovedBranch};
use journeyman_core::pull::{
    Comment, CommentState, IndexedPull, LocalPull, NewComment, NewPull, PullReviews, PullText,
};
use journeyman_core::resource::Resource;
use journeyman_core::run::Run;
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{
    NewSlackEvent, SlackDecision, SlackInboxEvent, SlackPost, SlackPosted, SlackSecrets, SlackThread, SlackThreadId,
};
use journeyman_core::time::Timestamp;
use journeyman_core::usage::{UsageLine, UsageQuery};
use journeyman_core::user::{Identity, Session, SessionsToEnd, SignInLink, TokenHash, User};
use journeyman_core::webhook::{
    Claim as WebhookClaim, ClaimedDelivery, Delivery, Finished, Replay, Replayed, Webhook, WebhookSecrets,
};
use journeyman_core::worker::WorkerReport;
use uuid::Uuid;

/// A call to a store.
#[derive(Debug, Clone, Copy)]
pub enum StoreCall<'a> {
    /// A call that changes nothing.
    Read,
    /// A claim of a job.
    Claim {
        /// Set if a job was claimed; always false before the call.
        taken: bool,
    },
    /// A change of a job.
    Update {
        /// The job before.
        before: &'a Job,
        /// The change to write; `None` if the command will be refused.
        change: Option<&'a Change>,
    },
    /// Any other call that changes something.
    Write,
}

/// The observer of a [`Tapped`] store.
#[async_trait]
pub trait Tap: Send + Sync {
    /// Runs before the call reaches the store. An error is returned to the caller, and the call does not reach the
    /// store.
    async fn before(&self, call: StoreCall<'_>) -> Result<(), StoreError>;

    /// Runs after the store has answered, except for reads. An error replaces the answer.
    async fn after(&self, call: StoreCall<'_>) -> Result<(), StoreError>;

    /// Runs when a waiter wakes up. The waiter continues when this returns.
    async fn woken(&self);

    /// Waits until a waiter should check the store, and returns true. If it returns false, the waiter waits for a
    /// wake-up of the store instead. A simulation returns true, because the order of wake-ups is not deterministic.
    async fn look(&self) -> bool {
        false
    }
}

/// A store with an observer. It has the ports of [`WorkStore`](journeyman_core::ports::WorkStore), and all ports if the
/// store has them.
pub struct Tapped<S: ?Sized, T> {
    store: Arc<S>,
    tap: Arc<T>,
}

impl<S: ?Sized, T: Tap> Tapped<S, T> {
    /// Wraps `store`, so that `tap` observes each call.
    pub const fn new(store: Arc<S>, tap: Arc<T>) -> Self {
        Self { store, tap }
    }
}

/// Implements a port for [`Tapped`]: each method announces a read or a write to the tap, and passes the call on.
macro_rules! delegate {
    (
        $port:ident { $($kind:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)* }
        $(custom { $($custom:tt)* })?
    ) => {
        #[async_trait]
        impl<S: $port + ?Sized, T: Tap> $port for Tapped<S, T> {
            $(async fn $name(&self $(, $argument: $type)*) -> $result {
                delegate!(@$kind self, self.store.$name($($argument),*))
            })*

            $($($custom)*)?
        }
    };
    (@read $self:ident, $call:expr) => {{
        $self.tap.before(StoreCall::Read).await?;
        $call.await
    }};
    (@write $self:ident, $call:expr) => {{
        $self.tap.before(StoreCall::Write).await?;
        let done = $call.await;
        $self.tap.after(StoreCall::Write).await?;
        done
    }};
}

delegate! {
    JobStore {
        write create_job(guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError>;
        read job(id: JobId) -> Result<Option<Job>, StoreError>;
        read leased_jobs(worker: WorkerId) -> Result<Vec<JobId>, StoreError>;
        read messages(job: JobId) -> Result<Vec<Message>, StoreError>;
        read message(id: MessageId) -> Result<Option<Message>, StoreError>;
        read run(id: RunId) -> Result<Option<Run>, StoreError>;
        read runs(job: JobId) -> Result<Vec<Run>, StoreError>;
        read log(job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError>;
    }
    custom {
    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        mut decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError> {
        let job = self.store.job(id).await?.ok_or(UpdateError::NotFound)?;
        let change = decide(&job).ok();
        let call = StoreCall::Update { before: &job, change: change.as_ref() };
        self.tap.before(call).await?;
        let done = self.store.update_job(id, project, guard, decide, now).await;
        self.tap.after(call).await?;
        done
    }

    async fn claim_job(&self, query: ClaimQuery, claim: ClaimFn) -> Result<Option<Picked>, StoreError> {
        self.tap.before(StoreCall::Claim { taken: false }).await?;
        let claimed = self.store.claim_job(query, claim).await?;
        self.tap.after(StoreCall::Claim { taken: claimed.is_some() }).await?;
        Ok(claimed)
    }

    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_> {
        Box::new(TappedWatch { tapped: self, job, watch: self.store.watch(job) })
    }

    fn work_version(&self) -> u64 {
        self.store.work_version()
    }

    async fn work_changed(&self, seen: u64) {
        while self.tap.look().await {
            if self.store.work_version() != seen {
                return self.tap.woken().await;
            }
        }
        self.store.work_changed(seen).await;
        self.tap.woken().await;
    }
    }
}

struct TappedWatch<'a, S: ?Sized, T> {
    tapped: &'a Tapped<S, T>,
    job: JobId,
    watch: Box<dyn JobWatch + 'a>,
}

#[async_trait]
impl<S: JobStore + ?Sized, T: Tap> JobWatch for TappedWatch<'_, S, T> {
    async fn changed(&mut self, after: u64) {
        let Tapped { tap, store } = self.tapped;
        while tap.look().await {
            if !store.job(self.job).await.is_ok_and(|job| job.is_some_and(|job| job.last_seq <= after)) {
                return tap.woken().await;
            }
        }
        self.watch.changed(after).await;
        tap.woken().await;
    }
}

delegate! {
    JobLists {
        read jobs(filter: JobFilter) -> Result<Vec<Job>, StoreError>;
        read count_jobs(project: Option<ProjectId>, limit: usize) -> Result<StatusCounts, StoreError>;
        read job_counts(now: Timestamp) -> Result<JobCounts, StoreError>;
        read waiting_jobs() -> Result<BTreeMap<String, u64>, StoreError>;
        read messages_after(job: JobId, after: Option<MessageId>, limit: usize) -> Result<Vec<Message>, StoreError>;
        read runs_after(job: JobId, after: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError>;
        read extras_of_jobs(jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobExtras>, StoreError>;
        read job_overview(id: JobId) -> Result<Option<JobOverview>, StoreError>;
        read summaries_of_jobs(jobs: Vec<JobId>) -> Result<BTreeMap<JobId, JobSummary>, StoreError>;
        read jobs_of_projects() -> Result<BTreeMap<ProjectId, ProjectJobs>, StoreError>;
        read newest_message(job: JobId) -> Result<Option<Message>, StoreError>;
        read find_messages(filter: MessageFilter) -> Result<Vec<Message>, StoreError>;
        read count_messages(filter: MessageFilter) -> Result<u64, StoreError>;
        read plan_before(job: JobId, before: u64) -> Result<Option<LogEntry>, StoreError>;
        read count_steps(job: JobId, entries: Range<u64>) -> Result<u64, StoreError>;
    }
}

delegate! {
    ProjectStore {
        read project(id: ProjectId) -> Result<Option<Project>, StoreError>;
        write identify_repository(id: ProjectId, seen: RepositoryIdentity) -> Result<(), StoreError>;
        read projects_after(after: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, StoreError>;
        read projects() -> Result<Vec<Project>, StoreError>;
        read secrets(id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError>;
        read retired_secrets(id: ProjectId, since: Timestamp) -> Result<Vec<(String, SecretValue)>, StoreError>;
    }
}

delegate! {
    HoldStore {
        write hold_project(id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError>;
        write release_project(id: ProjectId) -> Result<(), StoreError>;
        write probe_project(id: ProjectId, now: Timestamp) -> Result<(), StoreError>;
        read holds() -> Result<BTreeMap<ProjectId, Hold>, StoreError>;
    }
}

delegate! {
    KeyStore {
        read key_by_hash(hash: KeyHash) -> Result<Option<ApiKey>, StoreError>;
        read keys_after(origin: KeyOrigin, after: Option<KeyId>, limit: usize) -> Result<Vec<ApiKey>, StoreError>;
        read names_of_keys(owner: UserId) -> Result<BTreeSet<String>, StoreError>;
        read key(id: KeyId) -> Result<Option<ApiKey>, StoreError>;
        read keys() -> Result<Vec<ApiKey>, StoreError>;
        write key_used(id: KeyId, at: Timestamp) -> Result<(), StoreError>;
        write note(entry: AuditEntry) -> Result<(), StoreError>;
        read find_audit(filter: AuditFilter) -> Result<Vec<AuditLine>, StoreError>;
    }
}

delegate! {
    UserStore {
        read users() -> Result<Vec<User>, StoreError>;
        read user(id: UserId) -> Result<Option<User>, StoreError>;
        read user_by_name(name: String) -> Result<Option<User>, StoreError>;
        read user_by_identity(identity: Identity) -> Result<Option<User>, StoreError>;
        read session(hash: TokenHash) -> Result<Option<(Session, User)>, StoreError>;
        read sessions(user: UserId) -> Result<Vec<Session>, StoreError>;
        write session_seen(hash: TokenHash, at: Timestamp) -> Result<(), StoreError>;
        write end_sessions(which: SessionsToEnd, audit: AuditEntry) -> Result<usize, StoreError>;
        read link(hash: TokenHash) -> Result<Option<SignInLink>, StoreError>;
    }
}

delegate! {
    AdminStore {
        write administer(decision: AnyDecision, once: Option<Once>, now: Timestamp) -> Result<Administered, AdminError>;
        read answered(claim: Claim, now: Timestamp) -> Result<Option<String>, AdminError>;
    }
}

delegate! {
    PullStore {
        write open_pull(repository: String, base: String, new: NewPull, now: Timestamp) -> Result<Option<LocalPull>, StoreError>;
        read pull(repository: String, number: u64) -> Result<Option<LocalPull>, StoreError>;
        read pulls_of_branch(repository: String, head: String) -> Result<Vec<LocalPull>, StoreError>;
        write edit_pull(repository: String, number: u64, text: PullText) -> Result<(), StoreError>;
        read pulls(repository: String) -> Result<Vec<LocalPull>, StoreError>;
        write remove_pulls(repository: String) -> Result<(), StoreError>;
        read comment_states(repository: String, number: u64) -> Result<Vec<CommentState>, StoreError>;
        read reviews_of_pulls(repository: String, numbers: Vec<u64>) -> Result<BTreeMap<u64, PullReviews>, StoreError>;
        read comments(repository: String, number: u64) -> Result<Vec<Comment>, StoreError>;
        write comment_once(repository: String, number: u64, marker: String, comment: NewComment) -> Result<Option<u64>, StoreError>;
    }
}

delegate! {
    SpendingStore {
        write reserve(new: NewReservation) -> Result<Reservation, ReserveError>;
        write renew(reservation: &Reservation, expires_at: Timestamp) -> Result<(), StoreError>;
        write settle(sums: &Sums, reservation: Option<&Reservation>, micros: u64) -> Result<(), StoreError>;
        read used(sums: &Sums) -> Result<[Used; 3], StoreError>;
    }
}

delegate! {
    OutboxStore {
        write claim_tasks(query: TaskQuery) -> Result<Vec<Task>, StoreError>;
        write end_task(number: u64, attempt: u32, next: Option<Timestamp>) -> Result<bool, StoreError>;
        read backlog() -> Result<Backlog, StoreError>;
    }
}

delegate! {
    DutyStore {
        write begin_duty(name: &'static str, now: Timestamp, lease: Duration, longest: Duration) -> Result<Option<u64>, StoreError>;
        write end_duty(name: &'static str, token: u64, next: Timestamp) -> Result<(), StoreError>;
    }
}

delegate! {
    LockStore {
        write lock(name: String, holder: Uuid, now: Timestamp, time: Duration) -> Result<bool, StoreError>;
        write unlock(name: String, holder: Uuid) -> Result<(), StoreError>;
    }
}

delegate! {
    CodeHostStore {
        read code_host_secrets(id: CodeHostId) -> Result<HostSecrets, StoreError>;
    }
}

delegate! {
    PullIndex {
        read indexed_pull(repository: PullRepository, number: u64) -> Result<Option<IndexedPull>, StoreError>;
        read indexed_pulls_of(jobs: Vec<JobId>) -> Result<Vec<IndexedPull>, StoreError>;
        read remote_pulls(filter: PullFilter) -> Result<Vec<IndexedPull>, StoreError>;
        read count_remote_pulls(project: ProjectId) -> Result<PullCounts, StoreError>;
    }
}

delegate! {
    InboxStore {
        write receive(event: NewEvent) -> Result<bool, StoreError>;
        write claim_events(now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<InboxEvent>, StoreError>;
        write decide_event(number: u64, attempt: u32, decision: Decision) -> Result<Decided, StoreError>;
        read jobs_with_due_events(now: Timestamp, limit: usize) -> Result<Vec<JobId>, StoreError>;
        read waiting_events(job: JobId) -> Result<Vec<InboxEvent>, StoreError>;
        write postpone_events(job: JobId, until: Timestamp) -> Result<(), StoreError>;
        write end_events(numbers: Vec<u64>, state: InboxState, outcome: Outcome, detail: Option<String>) -> Result<(), StoreError>;
        read events_about(host: HostName, key: String) -> Result<Vec<InboxEvent>, StoreError>;
        read inbox_of_message(message: MessageId) -> Result<Vec<InboxEvent>, StoreError>;
        read inbox(filter: InboxFilter) -> Result<Vec<InboxEvent>, StoreError>;
        read unclaimed_events(limit: usize) -> Result<Vec<InboxEvent>, StoreError>;
        read last_event_of(host: CodeHostId) -> Result<Option<Timestamp>, StoreError>;
        read next_event_at() -> Result<Option<Timestamp>, StoreError>;
        read inbox_backlog() -> Result<Backlog, StoreError>;
        read job_of_issue(repository: PullRepository, number: u64) -> Result<Option<JobId>, StoreError>;
    }
}

delegate! {
    CheckStore {
        write claim_watches(now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<CheckWatch>, StoreError>;
        write end_look(watch: &CheckWatch, checks: Option<Vec<Check>>, next: Option<Timestamp>) -> Result<bool, StoreError>;
        write wake_watches(sha: Sha, at: Timestamp) -> Result<Vec<(JobId, ProjectId)>, StoreError>;
        read watch_of(job: JobId) -> Result<Option<CheckWatch>, StoreError>;
    }
}

delegate! {
    ComparisonStore {
        write plan_comparisons() -> Result<(), StoreError>;
        write wake_comparisons(moved: MovedBranch) -> Result<Vec<ProjectId>, StoreError>;
        write refresh_comparison(project: ProjectId, before: Timestamp) -> Result<(), StoreError>;
        write claim_comparisons(now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<DueComparison>, StoreError>;
        write end_comparison(due: &DueComparison, end: EndedComparison) -> Result<bool, StoreError>;
        read comparisons(pulls: Vec<PullRef>) -> Result<Vec<ComparedPull>, StoreError>;
        read comparisons_in(project: ProjectId) -> Result<Vec<ComparedPull>, StoreError>;
    }
}

delegate! {
    PollStore {
        read polls() -> Result<Vec<Poll>, StoreError>;
        read poll_of(project: ProjectId) -> Result<Option<Poll>, StoreError>;
        read polled_hosts() -> Result<Vec<HostName>, StoreError>;
        read due_polls(host: HostName, now: Timestamp, limit: usize) -> Result<Vec<Poll>, StoreError>;
        write put_poll(poll: Poll) -> Result<bool, StoreError>;
        write remove_poll(project: ProjectId) -> Result<(), StoreError>;
        read indexed_pulls_in(project: ProjectId) -> Result<Vec<IndexedPull>, StoreError>;
        read open_pulls() -> Result<Vec<(ProjectId, u32)>, StoreError>;
        read last_hook_at(project: ProjectId) -> Result<Option<Timestamp>, StoreError>;
    }
}

delegate! {
    Store {
        write ready() -> Result<(), StoreError>;
        write check_writes() -> Result<(), StoreError>;
        write note_start() -> Result<(), StoreError>;
        write sweep(now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError>;
    }
    custom {
    fn pool(&self) -> Option<PoolState> {
        self.store.pool()
    }

    async fn failed(&self) -> String {
        self.store.failed().await
    }
    }
}

delegate! {
    UsageStore {
        read usage(query: UsageQuery) -> Result<Vec<UsageLine>, StoreError>;
    }
}

delegate! {
    FeedStore {
        read feed(query: FeedQuery) -> Result<Vec<FeedEntry>, StoreError>;
        read feed_ends() -> Result<FeedEnds, StoreError>;
    }
    custom {
    fn feed_version(&self) -> u64 {
        self.store.feed_version()
    }

    async fn feed_changed(&self, seen: u64) {
        self.store.feed_changed(seen).await;
    }
    }
}

#[async_trait]
impl<R: Resource, S: ResourceStore<R> + ?Sized, T: Tap> ResourceStore<R> for Tapped<S, T> {
    async fn resource(&self, id: R::Id) -> Result<Option<R>, StoreError> {
        delegate!(@read self, self.store.resource(id))
    }

    async fn resources(&self, project: Option<ProjectId>) -> Result<Vec<R>, StoreError> {
        delegate!(@read self, self.store.resources(project))
    }
}

delegate! {
    WebhookStore {
        read webhooks_after(project: ProjectId, after: Option<WebhookId>, limit: usize) -> Result<Vec<Webhook>, StoreError>;
        read has_webhooks() -> Result<bool, StoreError>;
        read webhook_secrets(id: WebhookId) -> Result<Option<WebhookSecrets>, StoreError>;
        write make_deliveries(now: Timestamp, limit: usize) -> Result<usize, StoreError>;
        write claim_deliveries(claim: WebhookClaim) -> Result<Vec<ClaimedDelivery>, StoreError>;
        write finish_deliveries(finished: Vec<Finished>) -> Result<(), StoreError>;
        read deliveries(filter: DeliveryFilter) -> Result<Vec<Delivery>, StoreError>;
        write redeliver(webhook: WebhookId, number: u64, now: Timestamp) -> Result<bool, StoreError>;
        write replay(replay: Replay) -> Result<Replayed, StoreError>;
        read delivery_backlog() -> Result<DeliveryBacklog, StoreError>;
    }
}

delegate! {
    SlackStore {
        read slack_secrets(id: SlackWorkspaceId) -> Result<SlackSecrets, StoreError>;
        read slack_code(hash: TokenHash, now: Timestamp) -> Result<Option<UserId>, StoreError>;
        write receive_slack(event: NewSlackEvent) -> Result<bool, StoreError>;
        write claim_slack_events(now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<SlackInboxEvent>, StoreError>;
        write decide_slack_event(number: u64, attempt: u32, decision: SlackDecision) -> Result<bool, StoreError>;
        read slack_events(filter: SlackEventFilter) -> Result<Vec<SlackInboxEvent>, StoreError>;
        read slack_thread(id: SlackThreadId) -> Result<Option<SlackThread>, StoreError>;
        write claim_slack_posts(now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<SlackPost>, StoreError>;
        write finish_slack_post(posted: SlackPosted) -> Result<bool, StoreError>;
        read slack_posts(workspace: SlackWorkspaceId, before: Option<u64>, limit: usize) -> Result<Vec<SlackPost>, StoreError>;
        write sweep_slack(before: Timestamp, codes_before: Timestamp, limit: usize) -> Result<usize, StoreError>;
    }
}

delegate! {
    SealedStore {
        read sealed(kinds: Vec<SealedKind>) -> Result<SealedCensus, StoreError>;
        write reseal(page: SealedPage, entry: AuditEntry) -> Result<Resealed, StoreError>;
        write require_current_key(entry: AuditEntry) -> Result<bool, StoreError>;
    }
}

delegate! {
    WorkerStore {
        write report_worker(report: WorkerReport, forget_after: Duration) -> Result<(), StoreError>;
        write forget_worker(id: WorkerId) -> Result<(), StoreError>;
        read workers() -> Result<Vec<WorkerReport>, StoreError>;
    }
}

delegate! {
    ImportStore {
        read import_of(project: ProjectId) -> Result<Option<Import>, StoreError>;
        write put_import(import: Import, audit: Option<AuditEntry>) -> Result<bool, StoreError>;
    }
}
