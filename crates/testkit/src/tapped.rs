//! A store that tells somebody of each call, before and after, who may delay it, fail it or never let it return.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, KeyId, MessageId, ProjectId, Sha, UserId, WorkerId};
use journeyman_core::job::Job;
use journeyman_core::job::change::Change;
use journeyman_core::job::event::LogEntry;
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::message::Message;
use journeyman_core::ports::{
    Accepted, AuditEntry, AuditLine, ClaimFn, ClaimQuery, Decide, Guard, HoldStore, JobFilter, JobStore, JobWatch,
    KeyStore, PasswordChange, Picked, ProjectStore, ProjectWriteError, PullStore, Retention, SessionsToEnd, Spend,
    SpendError, SpendingStore, Store, StoreError, Swept, UpdateError, UserStore, UserWriteError,
};
use journeyman_core::project::hold::{Hold, HoldFailure};
use journeyman_core::project::{Project, SecretChanges, SecretValue};
use journeyman_core::pull::{Comment, LocalPull, NewComment, NewPull, PullState};
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};

/// A call to a store.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// One that changes nothing.
    Read,
    /// A job is looked for.
    Claim {
        /// Whether one was found; not known before.
        taken: bool,
    },
    /// A job is changed.
    Update {
        /// The job before.
        before: &'a Job,
        /// What is to be written; `None` if the command will be refused.
        change: Option<&'a Change>,
    },
    /// Any other that changes something.
    Write,
}

/// Who is told.
#[async_trait]
pub trait Tap: Send + Sync {
    /// The call has not reached the store; an error is its answer, and it does not.
    async fn before(&self, call: Call<'_>) -> Result<(), StoreError>;

    /// The store has answered; an error is what the caller gets instead. Reads are not told of.
    async fn after(&self, call: Call<'_>) -> Result<(), StoreError>;

    /// A wake-up has come; it is passed on when this returns.
    async fn woken(&self);

    /// Waits until it is time for a waiter to look for itself; false where it is woken by the store. Wake-ups of a store
    /// come in no certain order.
    async fn look(&self) -> bool {
        false
    }
}

/// The store.
pub struct Tapped<T> {
    store: Arc<dyn Store>,
    tap: Arc<T>,
}

impl<T: Tap> Tapped<T> {
    /// `store`, with `tap` told of each call.
    pub fn new(store: Arc<dyn Store>, tap: Arc<T>) -> Self {
        Self { store, tap }
    }
}

#[async_trait]
impl<T: Tap> JobStore for Tapped<T> {
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.create_job(guard, change, now).await;
        self.tap.after(Call::Write).await?;
        done
    }

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
        let call = Call::Update { before: &job, change: change.as_ref() };
        self.tap.before(call).await?;
        let done = self.store.update_job(id, project, guard, decide, now).await;
        self.tap.after(call).await?;
        done
    }

    async fn claim_job(&self, query: ClaimQuery, claim: ClaimFn) -> Result<Option<Picked>, StoreError> {
        self.tap.before(Call::Claim { taken: false }).await?;
        let claimed = self.store.claim_job(query, claim).await?;
        self.tap.after(Call::Claim { taken: claimed.is_some() }).await?;
        Ok(claimed)
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.job(id).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.jobs(filter).await
    }

    async fn active_jobs(&self) -> Result<u64, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.active_jobs().await
    }

    async fn waiting_jobs(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.waiting_jobs().await
    }

    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.leased_jobs(worker).await
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.messages(job).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.message(id).await
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.runs(job).await
    }

    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.log(job, after, limit).await
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

struct TappedWatch<'a, T> {
    tapped: &'a Tapped<T>,
    job: JobId,
    watch: Box<dyn JobWatch + 'a>,
}

#[async_trait]
impl<T: Tap> JobWatch for TappedWatch<'_, T> {
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

#[async_trait]
impl<T: Tap> ProjectStore for Tapped<T> {
    async fn create_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.create_project(project, secrets).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, ProjectWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.update_project(project, secrets).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn delete_project(&self, id: ProjectId) -> Result<(), ProjectWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.delete_project(id).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.project(id).await
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.projects().await
    }

    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.secrets(id).await
    }
}

#[async_trait]
impl<T: Tap> HoldStore for Tapped<T> {
    async fn hold_project(&self, id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.hold_project(id, failure).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn release_project(&self, id: ProjectId) -> Result<(), StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.release_project(id).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn probe_project(&self, id: ProjectId, now: Timestamp) -> Result<(), StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.probe_project(id, now).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn holds(&self) -> Result<BTreeMap<ProjectId, Hold>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.holds().await
    }
}

#[async_trait]
impl<T: Tap> KeyStore for Tapped<T> {
    async fn create_key(&self, key: ApiKey, audit: AuditEntry) -> Result<(), StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.create_key(key, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.key_by_hash(hash).await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.keys().await
    }

    async fn revoke_key(&self, id: KeyId, audit: AuditEntry) -> Result<bool, StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.revoke_key(id, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.key_used(id, at).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.note(entry).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.audit(before, limit).await
    }
}

#[async_trait]
impl<T: Tap> UserStore for Tapped<T> {
    async fn create_user(&self, user: User, audit: AuditEntry) -> Result<(), UserWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.create_user(user, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn set_role(&self, id: UserId, role: Role, audit: AuditEntry) -> Result<(), UserWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.set_role(id, role, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn set_disabled(&self, id: UserId, disabled: bool, audit: AuditEntry) -> Result<(), UserWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.set_disabled(id, disabled, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn set_password(&self, id: UserId, change: PasswordChange, audit: AuditEntry) -> Result<(), UserWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.set_password(id, change, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn users(&self) -> Result<Vec<User>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.users().await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.user(id).await
    }

    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.user_by_name(name).await
    }

    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.user_by_identity(identity).await
    }

    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        audit: AuditEntry,
    ) -> Result<(), UserWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.start_session(session, password, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.session(hash).await
    }

    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.sessions(user).await
    }

    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.session_seen(hash, at).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn end_sessions(&self, which: SessionsToEnd, audit: AuditEntry) -> Result<usize, StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.end_sessions(which, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn create_link(&self, link: SignInLink, audit: AuditEntry) -> Result<(), StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.create_link(link, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.link(hash).await
    }

    async fn use_link(&self, hash: TokenHash, user: User, audit: AuditEntry) -> Result<(), UserWriteError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.use_link(hash, user, audit).await;
        self.tap.after(Call::Write).await?;
        done
    }
}

#[async_trait]
impl<T: Tap> PullStore for Tapped<T> {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.open_pull(repository, base, new, now).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.pull(repository, number).await
    }

    async fn open_pull_of(&self, repository: String, head: String) -> Result<Option<LocalPull>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.open_pull_of(repository, head).await
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.pulls(repository).await
    }

    async fn end_pull(
        &self,
        repository: String,
        number: u64,
        state: PullState,
        between: Option<(Sha, Sha)>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.end_pull(repository, number, state, between, now).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn comment(&self, repository: String, number: u64, comment: NewComment) -> Result<Comment, StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.comment(repository, number, comment).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.comments(repository, number).await
    }
}

#[async_trait]
impl<T: Tap> SpendingStore for Tapped<T> {
    async fn spend(&self, spend: Spend) -> Result<(), SpendError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.spend(spend).await;
        self.tap.after(Call::Write).await?;
        done
    }

    async fn spent(&self, project: ProjectId, job: JobId, day: i64) -> Result<[u64; 3], StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.spent(project, job, day).await
    }
}

#[async_trait]
impl<T: Tap> Store for Tapped<T> {
    async fn ready(&self) -> Result<(), StoreError> {
        self.tap.before(Call::Read).await?;
        self.store.ready().await
    }

    async fn failed(&self) -> String {
        self.store.failed().await
    }

    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError> {
        self.tap.before(Call::Write).await?;
        let done = self.store.sweep(now, retention, limit).await;
        self.tap.after(Call::Write).await?;
        done
    }
}
