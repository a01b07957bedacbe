//! Initial rows for tests: projects, keys and users, stored through the decisions of the core, without a request.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::decision::key::KeyToChange;
use journeyman_core::decision::project::{ProjectToChange, ProjectToDelete};
use journeyman_core::decision::pull::{PullPage, PullToChange};
use journeyman_core::decision::user::{
    LinkToUse, NewUser, PasswordChange, UserChanges, UserToChange, UserWithIdentity,
};
use journeyman_core::decision::{self, Change, Decision, Subject};
use journeyman_core::ids::{KeyId, ProjectId, UserId};
use journeyman_core::key::{ApiKey, NewSecret};
use journeyman_core::ports::{AdminError, AdminStore, Administered};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::pull::{NewComment, PullEnding};
use journeyman_core::refusal::{Refusal, RefusalKind, ResourceKind};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};
use journeyman_core::version::Precondition;

/// Administrative changes for tests, in any store.
#[async_trait]
pub trait Seeds {
    /// Stores a new project.
    async fn create_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, AdminError>;
    /// Replaces the fields of a project.
    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, AdminError>;
    /// Deletes a project.
    async fn delete_project(&self, id: ProjectId) -> Result<(), AdminError>;
    /// Stores a new key.
    async fn create_key(&self, key: ApiKey, audit: AuditEntry) -> Result<(), AdminError>;
    /// Gives a key a new secret; the old one may be used for `overlap`.
    async fn rotate_key(
        &self,
        id: KeyId,
        secret: NewSecret,
        overlap: Duration,
        audit: AuditEntry,
    ) -> Result<(), AdminError>;
    /// Revokes a key.
    async fn revoke_key(&self, id: KeyId, audit: AuditEntry) -> Result<(), AdminError>;
    /// Stores a new user.
    async fn create_user(&self, user: User, audit: AuditEntry) -> Result<(), AdminError>;
    /// Gives a user another role.
    async fn set_role(&self, id: UserId, role: Role, audit: AuditEntry) -> Result<(), AdminError>;
    /// Disables or enables a user.
    async fn set_disabled(&self, id: UserId, disabled: bool, audit: AuditEntry) -> Result<(), AdminError>;
    /// Changes a password.
    async fn set_password(&self, id: UserId, change: PasswordChange, audit: AuditEntry) -> Result<(), AdminError>;
    /// Connects a user with an identity at the OpenID provider.
    async fn connect_identity(&self, id: UserId, identity: Identity, audit: AuditEntry) -> Result<(), AdminError>;
    /// Removes the identity of a user.
    async fn disconnect_identity(&self, id: UserId, keep: TokenHash, audit: AuditEntry) -> Result<(), AdminError>;
    /// Starts a session.
    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        audit: AuditEntry,
    ) -> Result<(), AdminError>;
    /// Stores a sign-in link.
    async fn create_link(&self, link: SignInLink, audit: AuditEntry) -> Result<(), AdminError>;
    /// Uses a sign-in link.
    async fn use_link(&self, link: TokenHash, user: User, audit: AuditEntry) -> Result<(), AdminError>;
    /// Ends a pull request.
    async fn end_pull(&self, repository: &str, number: u64, ending: PullEnding) -> Result<(), AdminError>;
    /// Adds a comment to a pull request.
    async fn comment(&self, repository: &str, number: u64, comment: NewComment) -> Result<(), AdminError>;
}

#[async_trait]
impl<T: AdminStore + ?Sized> Seeds for T {
    async fn create_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, AdminError> {
        let subject = ProjectToChange(project.id.clone());
        let stored = decide_on(self, subject, Timestamp::default(), move |state: &_| {
            decision::project::create(state, (project.clone(), secrets.clone()), no_audit()).map(without_audit)
        });
        stored.await?.project().cloned().ok_or_else(|| AdminError::Refused(Refusal::not_found(ResourceKind::Project)))
    }

    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, AdminError> {
        let (subject, repository) = (ProjectToChange(project.id.clone()), project.repository.clone());
        let stored = decide_on(self, subject, Timestamp::default(), move |state| {
            let edit = |_: Project| Ok((project.clone(), secrets.clone()));
            decision::project::change(state, &Precondition::None, edit, &repository, no_audit()).map(without_audit)
        });
        stored.await?.project().cloned().ok_or_else(|| AdminError::Refused(Refusal::not_found(ResourceKind::Project)))
    }

    async fn delete_project(&self, id: ProjectId) -> Result<(), AdminError> {
        let delete = |state: &_| decision::project::delete(state, &Precondition::None, no_audit()).map(without_audit);
        decide_on(self, ProjectToDelete(id), Timestamp::default(), delete).await.map(drop)
    }

    async fn create_key(&self, key: ApiKey, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = KeyToChange(key.id);
        decide_on(self, subject, Timestamp::default(), move |_: &_| {
            Ok(decision::key::create(key.clone(), audit.clone()))
        })
        .await
        .map(drop)
    }

    async fn rotate_key(
        &self,
        id: KeyId,
        secret: NewSecret,
        overlap: Duration,
        audit: AuditEntry,
    ) -> Result<(), AdminError> {
        let rotate =
            move |state: &_| decision::key::rotate(state, &secret, overlap, &Precondition::None, audit.clone());
        decide_on(self, KeyToChange(id), Timestamp::default(), rotate).await.map(drop)
    }

    async fn revoke_key(&self, id: KeyId, audit: AuditEntry) -> Result<(), AdminError> {
        let revoke = move |state: &_| decision::key::revoke(state, &Precondition::None, audit.clone());
        decide_on(self, KeyToChange(id), Timestamp::default(), revoke).await.map(drop)
    }

    async fn create_user(&self, user: User, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = NewUser(user.name.clone(), user.identity.clone());
        decide_on(self, subject, Timestamp::default(), move |state: &_| {
            decision::user::create(state, user.clone(), audit.clone())
        })
        .await
        .map(drop)
    }

    async fn set_role(&self, id: UserId, role: Role, audit: AuditEntry) -> Result<(), AdminError> {
        let changes = UserChanges { role: Some(role), ..UserChanges::default() };
        let set = move |state: &_| decision::user::change(state, &Precondition::None, changes, |_| audit.clone());
        decide_on(self, UserToChange(id), Timestamp::default(), set).await.map(drop)
    }

    async fn set_disabled(&self, id: UserId, disabled: bool, audit: AuditEntry) -> Result<(), AdminError> {
        let changes = UserChanges { disabled: Some(disabled), ..UserChanges::default() };
        let set = move |state: &_| decision::user::change(state, &Precondition::None, changes, |_| audit.clone());
        decide_on(self, UserToChange(id), Timestamp::default(), set).await.map(drop)
    }

    async fn set_password(&self, id: UserId, password: PasswordChange, audit: AuditEntry) -> Result<(), AdminError> {
        let set = move |state: &_| decision::user::set_password(state, password.clone(), audit.clone());
        decide_on(self, UserToChange(id), Timestamp::default(), set).await.map(drop)
    }

    async fn connect_identity(&self, id: UserId, identity: Identity, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = UserWithIdentity(id, identity.clone());
        let connect = move |state: &_| decision::user::connect_identity(state, identity.clone(), audit.clone());
        decide_on(self, subject, Timestamp::default(), connect).await.map(drop)
    }

    async fn disconnect_identity(&self, id: UserId, keep: TokenHash, audit: AuditEntry) -> Result<(), AdminError> {
        let disconnect = move |state: &_| decision::user::disconnect_identity(state, keep, audit.clone());
        decide_on(self, UserToChange(id), Timestamp::default(), disconnect).await.map(drop)
    }

    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        audit: AuditEntry,
    ) -> Result<(), AdminError> {
        let user = session.user;
        let start =
            move |state: &_| decision::user::start_session(state, session.clone(), password.as_ref(), audit.clone());
        decide_on(self, UserToChange(user), Timestamp::default(), start).await.map(drop)
    }

    async fn create_link(&self, link: SignInLink, audit: AuditEntry) -> Result<(), AdminError> {
        let Some(user) = link.user else {
            let subject = LinkToUse(link.hash, String::new());
            let create = move |state: &_| decision::user::create_first_link(state, link.clone(), audit.clone());
            return decide_on(self, subject, Timestamp::default(), create).await.map(drop);
        };
        let create = move |state: &_| decision::user::create_link(state, link.clone(), audit.clone());
        decide_on(self, UserToChange(user), Timestamp::default(), create).await.map(drop)
    }

    async fn use_link(&self, link: TokenHash, user: User, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = LinkToUse(link, user.name.clone());
        decide_on(self, subject, Timestamp::default(), move |state: &_| {
            decision::user::use_link(state, &user, audit.clone())
        })
        .await
        .map(drop)
    }

    async fn end_pull(&self, repository: &str, number: u64, ending: PullEnding) -> Result<(), AdminError> {
        let end = move |state: &_| decision::pull::end(state, ending.clone(), no_audit()).map(without_audit);
        decide_on(self, PullToChange(repository.to_owned(), number), Timestamp::default(), end).await.map(drop)
    }

    async fn comment(&self, repository: &str, number: u64, comment: NewComment) -> Result<(), AdminError> {
        let project = repository.parse().map_err(|_| Refusal::not_found(ResourceKind::Project))?;
        let page = PullPage { project, url: format!("http://localhost:8080/projects/{repository}/pulls/{number}") };
        let add =
            move |state: &_| decision::pull::comment(state, comment.clone(), &page, no_audit()).map(without_audit);
        decide_on(self, PullToChange(repository.to_owned(), number), Timestamp::default(), add).await.map(drop)
    }
}

/// Makes a decision without an idempotency key, and returns the change.
///
/// # Errors
/// The decision was refused, or the store failed.
pub async fn decide_on<T: AdminStore + ?Sized, S: Subject>(
    store: &T,
    subject: S,
    now: Timestamp,
    decide: impl FnMut(&S::Locked) -> Result<Change, Refusal> + Send + 'static,
) -> Result<Change, AdminError> {
    match store.administer(S::any(Decision::new(subject, decide)), None, now).await? {
        Administered::Done(change) => Ok(change),
        Administered::Replayed(_) => Ok(Change::nothing()),
    }
}

fn no_audit() -> AuditEntry {
    let (at, text) = (Timestamp::default(), String::new);
    AuditEntry { at, actor: text(), action: text(), subject: text(), address: None }
}

fn without_audit(change: Change) -> Change {
    Change { audit: Vec::new(), ..change }
}

/// The result of a request that may be refused, for comparisons in tests.
pub trait Refused {
    /// Returns what was refused and why; `Ok` if nothing was.
    ///
    /// # Errors
    /// The kind of the refusal, and what it is about.
    ///
    /// # Panics
    /// Panics if the store failed.
    fn refused(&self) -> Result<(), (RefusalKind, ResourceKind)>;
}

impl<T> Refused for Result<T, AdminError> {
    fn refused(&self) -> Result<(), (RefusalKind, ResourceKind)> {
        match self {
            Ok(_) => Ok(()),
            Err(AdminError::Refused(refusal)) => Err((refusal.kind, refusal.resource)),
            Err(AdminError::Store(error)) => panic!("the store failed: {error}"),
        }
    }
}
