//! A machine that dies at a chosen moment of a run: from then on nothing that it asks of the store or the code host is
//! answered, as if it had been switched off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use journeyman_core::ids::{JobId, KeyId, MessageId, ProjectId, Sha};
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::{Job, Progress, Pull};
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::message::Message;
use journeyman_core::ports::{
    Accepted, AuditEntry, ClaimFn, ClaimQuery, Decide, Forge, ForgeError, Forges, Guard, JobFilter, JobStore, KeyStore,
    ProjectStore, ProjectWriteError, PullStore, Remote, Retention, Store, StoreError, Swept, UpdateError,
};
use journeyman_core::project::{Project, SecretChanges, SecretValue};
use journeyman_core::pull::{LocalPull, NewPull, PullState};
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;
use journeyman_forge::CodeHosts;
use journeyman_store::MemoryStore;

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The run was claimed; nothing was done for it yet.
    Claimed,
    /// The turn was noted as begun; the agent has not been prompted.
    TurnBegun,
    /// The agent is at work.
    Prompted,
    /// The turn was collected, and is about to be noted as ended.
    Collected,
    /// The turn was noted as ended; nothing was pushed.
    TurnEnded,
    /// The branch was pushed; no pull request was looked for.
    Pushed,
    /// The pull request was opened; nobody knows.
    Opened,
    /// Everything was done, and is about to be noted.
    Published,
    /// Everything was noted, and the answer is lost.
    Finished,
}

/// What a machine asks of the world, until it dies.
pub(crate) struct Dying {
    store: Arc<MemoryStore>,
    hosts: CodeHosts,
    at: Moment,
    dead: AtomicBool,
}

impl Dying {
    pub(crate) fn new(store: Arc<MemoryStore>, hosts: CodeHosts, at: Moment) -> Arc<Self> {
        Arc::new(Self { store, hosts, at, dead: AtomicBool::new(false) })
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub(crate) async fn until_dead(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.is_dead() {
            assert!(Instant::now() < end, "{:?} does not come", self.at);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Answers while the machine lives.
    async fn live(&self) -> &MemoryStore {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
        &self.store
    }

    /// Dies, if it is that moment.
    async fn may_die(&self, moment: Option<Moment>) {
        if moment == Some(self.at) {
            self.dead.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
    }
}

/// The moment before a change is stored, and the one after.
fn moments(before: &Job, change: &Change) -> (Option<Moment>, Option<Moment>) {
    let publishing = |job: &Job| job.delivery().is_some_and(|now| matches!(now.progress, Progress::Publishing { .. }));
    if change.rows.iter().any(|row| matches!(row, Row::RunEnded { .. })) {
        return (Some(Moment::Published), Some(Moment::Finished));
    }
    if change.log.iter().any(|line| line.kind.starts_with("agent.")) {
        return (None, Some(Moment::Prompted));
    }
    if publishing(&change.job) && !publishing(before) {
        return (Some(Moment::Collected), Some(Moment::TurnEnded));
    }
    // A heartbeat moves the lease.
    let quiet = change.rows.is_empty() && change.log.is_empty() && change.job.lease() == before.lease();
    (None, quiet.then_some(Moment::TurnBegun))
}

#[async_trait]
impl JobStore for Dying {
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError> {
        self.live().await.create_job(guard, change, now).await
    }

    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        mut decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError> {
        let store = self.live().await;
        let job = store.job(id).await?.ok_or(UpdateError::NotFound)?;
        let (before, after) = decide(&job).map(|change| moments(&job, &change)).unwrap_or_default();
        self.may_die(before).await;
        let done = store.update_job(id, project, guard, decide, now).await;
        self.may_die(after).await;
        done
    }

    async fn claim_job(&self, query: ClaimQuery, claim: ClaimFn) -> Result<Option<Job>, StoreError> {
        let claimed = self.live().await.claim_job(query, claim).await?;
        self.may_die(claimed.is_some().then_some(Moment::Claimed)).await;
        Ok(claimed)
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.live().await.job(id).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError> {
        self.live().await.jobs(filter).await
    }

    async fn active_jobs(&self) -> Result<u64, StoreError> {
        self.live().await.active_jobs().await
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        self.live().await.messages(job).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        self.live().await.message(id).await
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        self.live().await.runs(job).await
    }

    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.live().await.log(job, after, limit).await
    }

    async fn job_changed(&self, job: JobId, after: u64) {
        self.live().await.job_changed(job, after).await;
    }

    fn work_version(&self) -> u64 {
        self.store.work_version()
    }

    async fn work_changed(&self, seen: u64) {
        self.live().await.work_changed(seen).await;
    }
}

#[async_trait]
impl ProjectStore for Dying {
    async fn create_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        self.live().await.create_project(project, secrets).await
    }

    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        self.live().await.update_project(project, secrets).await
    }

    async fn delete_project(&self, id: ProjectId) -> Result<(), ProjectWriteError> {
        self.live().await.delete_project(id).await
    }

    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.live().await.project(id).await
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.live().await.projects().await
    }

    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        self.live().await.secrets(id).await
    }
}

#[async_trait]
impl KeyStore for Dying {
    async fn create_key(&self, key: ApiKey, audit: AuditEntry) -> Result<(), StoreError> {
        self.live().await.create_key(key, audit).await
    }

    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        self.live().await.key_by_hash(hash).await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.live().await.keys().await
    }

    async fn revoke_key(&self, id: KeyId, audit: AuditEntry) -> Result<bool, StoreError> {
        self.live().await.revoke_key(id, audit).await
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        self.live().await.key_used(id, at).await
    }

    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.live().await.audit(limit).await
    }
}

#[async_trait]
impl PullStore for Dying {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        self.live().await.open_pull(repository, base, new, now).await
    }

    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError> {
        self.live().await.pull(repository, number).await
    }

    async fn open_pull_of(&self, repository: String, head: String) -> Result<Option<LocalPull>, StoreError> {
        self.live().await.open_pull_of(repository, head).await
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        self.live().await.pulls(repository).await
    }

    async fn end_pull(
        &self,
        repository: String,
        number: u64,
        state: PullState,
        between: Option<(Sha, Sha)>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.live().await.end_pull(repository, number, state, between, now).await
    }
}

#[async_trait]
impl Store for Dying {
    async fn ready(&self) -> Result<(), StoreError> {
        self.live().await.ready().await
    }

    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError> {
        self.live().await.sweep(now, retention, limit).await
    }
}

/// The code host, as the machine reaches it.
pub(crate) struct Wire(pub(crate) Arc<Dying>);

#[async_trait]
impl Forges for Wire {
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        Ok(Arc::new(Line { machine: Arc::clone(&self.0), forge: self.0.hosts.of(project).await? }))
    }

    async fn prepare(&self, project: &Project) -> Result<(), ForgeError> {
        self.0.hosts.prepare(project).await
    }
}

struct Line {
    machine: Arc<Dying>,
    forge: Arc<dyn Forge>,
}

#[async_trait]
impl Forge for Line {
    async fn remote(&self) -> Result<Remote, ForgeError> {
        self.machine.live().await;
        self.forge.remote().await
    }

    async fn find_open_pull(&self, head: &str) -> Result<Option<Pull>, ForgeError> {
        self.machine.live().await;
        self.machine.may_die(Some(Moment::Pushed)).await;
        self.forge.find_open_pull(head).await
    }

    async fn open_pull(&self, new: &NewPull) -> Result<Option<Pull>, ForgeError> {
        self.machine.live().await;
        let opened = self.forge.open_pull(new).await;
        self.machine.may_die(Some(Moment::Opened)).await;
        opened
    }

    async fn pull_state(&self, number: u64) -> Result<Option<PullState>, ForgeError> {
        self.machine.live().await;
        self.forge.pull_state(number).await
    }
}
