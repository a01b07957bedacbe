//! What a decision writes.

use crate::audit::AuditEntry;
use crate::code_host::CodeHost;
use crate::idempotency::Claim;
use crate::ids::{JobId, ProjectId, TrustId, UserId};
use crate::inbox::NewEvent;
use crate::key::ApiKey;
use crate::project::{Project, SecretChanges};
use crate::pull::{Comment, LocalPull};
use crate::resource::{Key, Put, Resource as _};
use crate::slack::SlackWorkspace;
use crate::template::Template;
use crate::time::Timestamp;
use crate::trust::Trust;
use crate::user::{Session, SessionsToEnd, SignInLink, TokenHash, User};
use crate::webhook::Webhook;

/// Defines the rows of resources.
macro_rules! resources {
    ($($resource:ident),* $(,)?) => {
        /// A resource of any kind to store.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the kind with its name")]
        pub enum AnyPut {
            $($resource(Box<Put<$resource>>),)*
        }

        impl AnyPut {
            /// Returns the version of the resource.
            #[must_use]
            pub fn version(&self) -> u64 {
                match self {
                    $(Self::$resource(put) => put.resource.version(),)*
                }
            }
        }

        /// The key of a resource of any kind.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the kind with its name")]
        pub enum AnyKey {
            $($resource(Key<$resource>),)*
        }

        $(
            impl From<Put<$resource>> for AnyPut {
                fn from(put: Put<$resource>) -> Self {
                    Self::$resource(Box::new(put))
                }
            }

            impl From<Key<$resource>> for AnyKey {
                fn from(key: Key<$resource>) -> Self {
                    Self::$resource(key)
                }
            }
        )*
    };
}

resources! { Webhook, Template, CodeHost, Trust, SlackWorkspace }

/// A row to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// Stores a resource, and changes its secrets. A webhook that is new, or was disabled, receives the events from now
    /// on. The time of the last exchange of a trust is not written.
    Put(AnyPut),
    /// Deletes a resource with what belongs to it.
    Removed {
        /// The resource.
        key: AnyKey,
        /// The time of the removal.
        at: Timestamp,
    },
    /// Stores a project, and changes its secrets.
    Project(Box<Project>, SecretChanges),
    /// Deletes a project with its jobs, secrets and counters.
    ProjectDeleted {
        /// The project.
        id: ProjectId,
        /// The name of its repository on the built-in code host, which an effect removes.
        repository: Option<String>,
        /// The time of the deletion.
        at: Timestamp,
    },
    /// Deletes a job with its messages, runs and log.
    JobDeleted {
        /// The job.
        id: JobId,
        /// The project of the job.
        project: ProjectId,
        /// The time of the deletion.
        at: Timestamp,
    },
    /// Stores the time of the last exchange of a trust.
    TrustUsed {
        /// The trust.
        id: TrustId,
        /// The time of the exchange.
        at: Timestamp,
    },
    /// Stores a code with which a user connects a Slack account, instead of an earlier one.
    SlackCode {
        /// The hash of the code.
        hash: TokenHash,
        /// The user.
        user: UserId,
        /// The time from which the code is refused.
        expires_at: Timestamp,
    },
    /// Deletes a code that was used or revoked.
    SlackCodeRemoved(TokenHash),
    /// Stores a key. The time of its last use is not written.
    Key(ApiKey),
    /// Stores a user.
    User(User),
    /// Stores a session.
    Session(Session),
    /// Stores the time at which the user of a session has proved who they are, if the session exists.
    SessionProven {
        /// The hash of the session's token.
        hash: TokenHash,
        /// The time of the proof.
        at: Timestamp,
    },
    /// Ends sessions.
    SessionsEnded(SessionsToEnd),
    /// Stores a link.
    Link(SignInLink),
    /// Deletes a link.
    LinkDeleted(TokenHash),
    /// Deletes all links of a user.
    LinksDeleted(UserId),
    /// Stores a new pull request.
    PullOpened(Box<LocalPull>),
    /// Stores the end of a pull request.
    Pull(Box<LocalPull>),
    /// Stores a comment on a pull request. If the comment exists, only these values change: whether it is a draft, its
    /// review, its time and its resolution.
    Comment {
        /// The name of the repository.
        repository: String,
        /// The number of the pull request.
        number: u64,
        /// The comment.
        comment: Box<Comment>,
    },
    /// Deletes the draft of a comment.
    DraftRemoved {
        /// The name of the repository.
        repository: String,
        /// The number of the pull request.
        number: u64,
        /// The number of the comment on the pull request.
        comment: u64,
    },
    /// Stores an event of the built-in code host in the inbox.
    Inbox(Box<NewEvent>),
}

/// A change: the rows to write, and the audit entries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// The audit entries.
    pub audit: Vec<AuditEntry>,
}

impl Change {
    /// Returns an empty change, for a request whose effect is already in place.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Returns a change of these rows with one audit entry.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = Row>, audit: AuditEntry) -> Self {
        Self { rows: rows.into_iter().collect(), audit: vec![audit] }
    }

    /// Returns the resource that the change stores.
    #[must_use]
    pub fn put(&self) -> Option<&AnyPut> {
        self.rows.iter().find_map(|row| match row {
            Row::Put(put) => Some(put),
            _ => None,
        })
    }

    /// Returns the project that the change stores.
    #[must_use]
    pub fn project(&self) -> Option<&Project> {
        self.rows.iter().find_map(|row| match row {
            Row::Project(project, _) => Some(&**project),
            _ => None,
        })
    }

    /// Returns the user that the change stores.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.rows.iter().find_map(|row| match row {
            Row::User(user) => Some(user),
            _ => None,
        })
    }
}

/// The idempotency key of a request, and the answer that repetitions of the request get. Stores encrypt the answer,
/// because it may contain the secret of a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The key.
    pub claim: Claim,
    /// The answer.
    pub answer: String,
}
