//! Administration: changes of projects, keys, pull requests of the built-in code host, users and their sign-in data.
//!
//! Every change is a pure decision over the rows that the store has locked ([`AdminState`]). The decisions are in
//! [`crate::project::decide`], [`crate::key::decide`], [`crate::pull::decide`] and [`crate::user::decide`]; a store only loads and writes rows
//! ([`crate::ports::AdminStore`]). An audit entry is part of the change, so it is in the same transaction.

use crate::idempotency::{Claim, KeyReused};
use crate::ids::{KeyId, ProjectId, UserId};
use crate::key::ApiKey;
use crate::ports::{AuditEntry, SessionsToEnd, StoreError};
use crate::project::{Project, SecretChanges};
use crate::pull::{LocalPull, NewComment};
use crate::time::Timestamp;
use crate::user::{Identity, Session, SignInLink, TokenHash, User};

/// The rows that a change is about. The store locks them, so that two changes of the same subject run one after the
/// other. All changes of users share one lock, because some rules concern all users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A project, which need not exist.
    Project(ProjectId),
    /// A project and its jobs: no job can be created until the change is stored.
    ProjectWithJobs(ProjectId),
    /// A key, which need not exist.
    Key(KeyId),
    /// A user with this ID, which need not exist.
    User(UserId),
    /// A new user with this name and identity.
    NewUser(String, Option<Identity>),
    /// A pull request of a repository of the built-in code host, by its number.
    Pull(String, u64),
    /// A sign-in link and its user; or, for the link of the first administrator, a new user with this name.
    Link(TokenHash, String),
}

/// The locked rows of a [`Subject`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminState {
    /// The project.
    pub project: Option<Project>,
    /// `true` if the project has active jobs. Only loaded for [`Subject::ProjectWithJobs`].
    pub has_active_jobs: bool,
    /// The key.
    pub key: Option<ApiKey>,
    /// The user, or the user of the link.
    pub user: Option<User>,
    /// `true` if another user has the name or the identity of the subject.
    pub name_is_taken: bool,
    /// The keys that act for the user, without revoked ones.
    pub keys: Vec<ApiKey>,
    /// `true` if there is an administrator who may sign in, other than the user.
    pub has_other_administrator: bool,
    /// The link.
    pub link: Option<SignInLink>,
    /// The pull request.
    pub pull: Option<LocalPull>,
}

/// A row to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminRow {
    /// Stores a project, and changes its secrets.
    Project(Box<Project>, SecretChanges),
    /// Deletes a project with its jobs, secrets and counters.
    ProjectDeleted {
        /// The project.
        id: ProjectId,
        /// The time of the deletion.
        at: Timestamp,
    },
    /// Stores a key. The time of its last use is not written.
    Key(ApiKey),
    /// Stores a user.
    User(User),
    /// Stores a session.
    Session(Session),
    /// Ends sessions.
    SessionsEnded(SessionsToEnd),
    /// Stores a link.
    Link(SignInLink),
    /// Deletes a link.
    LinkDeleted(TokenHash),
    /// Deletes all links of a user.
    LinksDeleted(UserId),
    /// Stores the end of a pull request.
    Pull(Box<LocalPull>),
    /// Adds a comment to a pull request, after the existing ones.
    Comment {
        /// The name of the repository.
        repository: String,
        /// The number of the pull request.
        number: u64,
        /// The comment.
        comment: NewComment,
    },
}

/// A change: the rows to write, and the audit entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminChange {
    /// The rows, in order.
    pub rows: Vec<AdminRow>,
    /// The audit entries.
    pub audit: Vec<AuditEntry>,
}

impl AdminChange {
    /// Returns the change for a request that finds its goal already reached.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Returns a change of these rows with one audit entry.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = AdminRow>, audit: AuditEntry) -> Self {
        Self { rows: rows.into_iter().collect(), audit: vec![audit] }
    }

    /// Returns the project that the change stores.
    #[must_use]
    pub fn project(&self) -> Option<&Project> {
        self.rows.iter().find_map(|row| match row {
            AdminRow::Project(project, _) => Some(&**project),
            _ => None,
        })
    }

    /// Returns the user that the change stores.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.rows.iter().find_map(|row| match row {
            AdminRow::User(user) => Some(user),
            _ => None,
        })
    }
}

/// A request that is done once: its idempotency key, and the answer for repetitions. Stores encrypt the answer, because
/// it may contain the secret of a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The key.
    pub claim: Claim,
    /// The answer.
    pub answer: String,
}

/// The condition of a request on the version of what it changes (`If-Match`, RFC 9110).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Any version, whether it exists or not.
    #[default]
    None,
    /// Any of these versions. An empty list never matches.
    Version(Vec<u64>),
}

impl Precondition {
    /// Checks the condition.
    ///
    /// # Errors
    /// [`AdminRefusal::VersionMismatch`].
    pub fn check(&self, current: u64) -> Result<(), AdminRefusal> {
        match self {
            Self::Version(versions) if !versions.contains(&current) => Err(AdminRefusal::VersionMismatch { current }),
            _ => Ok(()),
        }
    }
}

/// The reason why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminRefusal {
    /// The project does not exist.
    #[error("there is no such project")]
    NoProject,
    /// A project with this ID exists.
    #[error("there is a project with this ID already")]
    ProjectExists,
    /// The project has active jobs.
    #[error("the project has active jobs; cancel or archive them first")]
    ProjectBusy,
    /// The project's repository was changed between the check of the new repository and the transaction.
    #[error("the project was changed at the same time; send the request again")]
    ProjectChanged,
    /// The project would have a field with an invalid value.
    #[error("{0}")]
    InvalidProject(String),
    /// The key does not exist.
    #[error("there is no such key")]
    NoKey,
    /// The user does not exist.
    #[error("there is no such user")]
    NoUser,
    /// A user with this name or identity exists.
    #[error("there is a user with this name already")]
    UserExists,
    /// The user was disabled, or the password was changed, since the caller read them.
    #[error("the user was disabled or the password was changed at the same time; try again")]
    UserChanged,
    /// The pull request does not exist.
    #[error("there is no such pull request")]
    NoPull,
    /// The pull request is merged or closed.
    #[error("the pull request is no longer open")]
    PullNotOpen,
    /// The user may not sign in.
    #[error("the user is disabled; enable the user first")]
    UserDisabled,
    /// No administrator would be left who may sign in.
    #[error("this is the last administrator; make another one first")]
    LastAdministrator,
    /// The link does not exist, has expired, or was used.
    #[error("this link was used already or is no longer valid")]
    LinkExpired,
    /// The resource has another version than the request requires.
    #[error("the resource has changed since you read it; read it again, and repeat the change")]
    VersionMismatch {
        /// The current version.
        current: u64,
    },
    /// The idempotency key belongs to another request.
    #[error(transparent)]
    KeyReused(#[from] KeyReused),
}

/// An error of [`crate::ports::AdminStore::administer`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The change was refused; nothing was stored.
    #[error(transparent)]
    Refused(#[from] AdminRefusal),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
