//! Initial rows for tests: projects, keys and users, stored through the decisions of the core, without a request.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::admin;
use journeyman_core::admin::pull::PullPage;
use journeyman_core::admin::user::{PasswordChange, UserChanges};
use journeyman_core::admin::{AdminChange, AdminRefusal, Precondition, Subject};
use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::{KeyId, ProjectId, UserId};
use journeyman_core::key::{ApiKey, NewSecret};
use journeyman_core::ports::{AdminError, AdminStore, Administered, DecideAdmin};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::pull::{NewComment, PullEnding};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};

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
        let subject = Subject::Project(project.id.clone());
        let stored = change(self, subject, move |state| {
            admin::project::create(state, (project.clone(), secrets.clone()), no_audit()).map(without_audit)
        });
        stored.await?.project().cloned().ok_or(AdminError::Refused(AdminRefusal::NoProject))
    }

    async fn update_project(&self, project: Project, secrets: SecretChanges) -> Result<Project, AdminError> {
        let (subject, repository) = (Subject::Project(project.id.clone()), project.repository.clone());
        let stored = change(self, subject, move |state| {
            let edit = |_: Project| Ok((project.clone(), secrets.clone()));
            admin::project::change(state, &Precondition::None, edit, &repository, no_audit()).map(without_audit)
        });
        stored.await?.project().cloned().ok_or(AdminError::Refused(AdminRefusal::NoProject))
    }

    async fn delete_project(&self, id: ProjectId) -> Result<(), AdminError> {
        let delete = |state: &_| admin::project::delete(state, &Precondition::None, no_audit()).map(without_audit);
        change(self, Subject::ProjectWithJobs(id), delete).await.map(drop)
    }

    async fn create_key(&self, key: ApiKey, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = Subject::Key(key.id);
        change(self, subject, move |_| Ok(admin::key::create(key.clone(), audit.clone()))).await.map(drop)
    }

    async fn rotate_key(
        &self,
        id: KeyId,
        secret: NewSecret,
        overlap: Duration,
        audit: AuditEntry,
    ) -> Result<(), AdminError> {
        let rotate = move |state: &_| admin::key::rotate(state, &secret, overlap, &Precondition::None, audit.clone());
        change(self, Subject::Key(id), rotate).await.map(drop)
    }

    async fn revoke_key(&self, id: KeyId, audit: AuditEntry) -> Result<(), AdminError> {
        let revoke = move |state: &_| admin::key::revoke(state, &Precondition::None, audit.clone());
        change(self, Subject::Key(id), revoke).await.map(drop)
    }

    async fn create_user(&self, user: User, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = Subject::NewUser(user.name.clone(), user.identity.clone());
        change(self, subject, move |state| admin::user::create(state, user.clone(), audit.clone())).await.map(drop)
    }

    async fn set_role(&self, id: UserId, role: Role, audit: AuditEntry) -> Result<(), AdminError> {
        let changes = UserChanges { role: Some(role), ..UserChanges::default() };
        let set = move |state: &_| admin::user::change(state, &Precondition::None, changes, |_| audit.clone());
        change(self, Subject::User(id), set).await.map(drop)
    }

    async fn set_disabled(&self, id: UserId, disabled: bool, audit: AuditEntry) -> Result<(), AdminError> {
        let changes = UserChanges { disabled: Some(disabled), ..UserChanges::default() };
        let set = move |state: &_| admin::user::change(state, &Precondition::None, changes, |_| audit.clone());
        change(self, Subject::User(id), set).await.map(drop)
    }

    async fn set_password(&self, id: UserId, password: PasswordChange, audit: AuditEntry) -> Result<(), AdminError> {
        let set = move |state: &_| admin::user::set_password(state, password.clone(), audit.clone());
        change(self, Subject::User(id), set).await.map(drop)
    }

    async fn connect_identity(&self, id: UserId, identity: Identity, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = Subject::UserIdentity(id, identity.clone());
        let connect = move |state: &_| admin::user::connect_identity(state, identity.clone(), audit.clone());
        change(self, subject, connect).await.map(drop)
    }

    async fn disconnect_identity(&self, id: UserId, keep: TokenHash, audit: AuditEntry) -> Result<(), AdminError> {
        let disconnect = move |state: &_| admin::user::disconnect_identity(state, keep, audit.clone());
        change(self, Subject::User(id), disconnect).await.map(drop)
    }

    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        audit: AuditEntry,
    ) -> Result<(), AdminError> {
        let user = session.user;
        let start =
            move |state: &_| admin::user::start_session(state, session.clone(), password.as_ref(), audit.clone());
        change(self, Subject::User(user), start).await.map(drop)
    }

    async fn create_link(&self, link: SignInLink, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = link.user.map_or_else(|| Subject::Link(link.hash, String::new()), Subject::User);
        let create = move |state: &_| admin::user::create_link(state, link.clone(), audit.clone());
        change(self, subject, create).await.map(drop)
    }

    async fn use_link(&self, link: TokenHash, user: User, audit: AuditEntry) -> Result<(), AdminError> {
        let subject = Subject::Link(link, user.name.clone());
        change(self, subject, move |state| admin::user::use_link(state, &user, audit.clone())).await.map(drop)
    }

    async fn end_pull(&self, repository: &str, number: u64, ending: PullEnding) -> Result<(), AdminError> {
        let end = move |state: &_| admin::pull::end(state, ending.clone(), no_audit()).map(without_audit);
        change(self, Subject::Pull(repository.to_owned(), number), end).await.map(drop)
    }

    async fn comment(&self, repository: &str, number: u64, comment: NewComment) -> Result<(), AdminError> {
        let project = repository.parse().map_err(|_| AdminRefusal::NoProject)?;
        let page = PullPage { project, url: format!("http://localhost:8080/projects/{repository}/pulls/{number}") };
        let add = move |state: &_| admin::pull::comment(state, comment.clone(), &page, no_audit()).map(without_audit);
        change(self, Subject::Pull(repository.to_owned(), number), add).await.map(drop)
    }
}

async fn change<S: AdminStore + ?Sized>(
    store: &S,
    subject: Subject,
    decide: impl FnMut(&journeyman_core::admin::AdminState) -> Result<AdminChange, AdminRefusal> + Send + 'static,
) -> Result<AdminChange, AdminError> {
    let decide: DecideAdmin = Box::new(decide);
    match store.administer(subject, None, Timestamp::default(), decide).await? {
        Administered::Done(change) => Ok(change),
        Administered::Replayed(_) => Ok(AdminChange::nothing()),
    }
}

fn no_audit() -> AuditEntry {
    let (at, text) = (Timestamp::default(), String::new);
    AuditEntry { at, actor: text(), action: text(), subject: text(), address: None }
}

fn without_audit(change: AdminChange) -> AdminChange {
    AdminChange { audit: Vec::new(), ..change }
}
