//! Administration: changes of projects, keys, pull requests of the built-in code host, users and their sign-in data.
//!
//! Every change is a pure decision over the rows that the store has locked ([`AdminState`]). The modules below have the
//! decisions on each resource; a store only loads and writes rows ([`crate::ports::AdminStore`]). An audit entry is part
//! of the change, so it is in the same transaction.

pub mod code_host;
pub mod job;
pub mod key;
pub mod passkey;
pub mod project;
pub mod pull;
pub mod second_factor;
pub mod slack;
pub mod template;
pub mod trust;
pub mod user;
pub mod webhook;

use std::time::Duration;

use crate::audit::AuditEntry;
use crate::code_host::{CodeHost, CodeHostId, HostName, HostSecretChanges};
use crate::idempotency::{Claim, KeyReused};
use crate::ids::{JobId, KeyId, ProjectId, SlackWorkspaceId, TemplateId, TrustId, UserId, WebhookId};
use crate::inbox::NewEvent;
use crate::job::Job;
use crate::key::ApiKey;
use crate::project::{Project, SecretChanges};
use crate::pull::{Comment, LocalPull};
use crate::slack::{SlackSecretChanges, SlackWorkspace};
use crate::template::{MAX_TEMPLATES, Template};
use crate::time::Timestamp;
use crate::trust::{MAX_TRUSTS, Trust};
use crate::user::{Identity, Session, SessionsToEnd, SignInLink, TokenHash, User};
use crate::version::FIRST_VERSION;
use crate::webhook::{MAX_WEBHOOKS, SecretChange, Webhook};

/// The subject of a change. The store locks its rows, so that two changes of the same subject run one after the other.
/// All changes of users share one lock, because some rules concern all users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A project, which need not exist.
    Project(ProjectId),
    /// A project and its jobs: no job can be created until the change is stored.
    ProjectWithJobs(ProjectId),
    /// A job of a project, which need not exist.
    Job(JobId, ProjectId),
    /// A key, which need not exist.
    Key(KeyId),
    /// A user with this ID, which need not exist.
    User(UserId),
    /// A user with this ID, which need not exist, and the identity that the user would get.
    UserIdentity(UserId, Identity),
    /// A new user with this name and identity.
    NewUser(String, Option<Identity>),
    /// A pull request of a repository of the built-in code host, by its number.
    Pull(String, u64),
    /// A new pull request of a repository of the built-in code host, by its branch.
    NewPull(String, String),
    /// A pull request of the built-in code host, by its repository and number, with its comments on lines.
    PullLines(String, u64),
    /// A webhook of a project, which need not exist, and its project.
    Webhook(WebhookId, ProjectId),
    /// A template of a project, which need not exist, its project, and the name that it has or would get.
    Template(TemplateId, ProjectId, String),
    /// A code host, which need not exist, and the name that it has or would get.
    CodeHost(CodeHostId, HostName),
    /// A trust, which need not exist, its live keys, and the name that it has or would get.
    Trust(TrustId, String),
    /// A trust, which need not exist, its owner, and the key of a token.
    Exchange(Exchange),
    /// A connected Slack workspace, which need not exist, and the ID that it has or would get at Slack.
    SlackWorkspace(SlackWorkspaceId, String),
    /// A connected Slack workspace, and a code that connects an account with a user.
    SlackCode(SlackWorkspaceId, TokenHash),
    /// A sign-in link and its user; or, for the link of the first administrator, a new user with this name.
    Link(TokenHash, String),
}

/// The exchange of a token for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The trust.
    pub trust: TrustId,
    /// The ID that the key of the token has or would get ([`crate::trust::Trust::key_of`]).
    pub key: KeyId,
    /// The name that the key has or would get, which has the subject of the token.
    pub name: String,
    /// The time at which keys are counted as live.
    pub at: Timestamp,
}

/// The number of live keys of a trust.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveKeys {
    /// The number of working keys of the trust.
    pub all: usize,
    /// The number of those for the same subject, which have the name of the [`Exchange`].
    pub of_subject: usize,
}

/// The locked rows of a [`Subject`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminState {
    /// The base of the current epoch ([`crate::epoch`]). Versions are greater than it, also those of new things: a lost
    /// history may have had something with the same ID.
    pub epoch: u64,
    /// The project.
    pub project: Option<Project>,
    /// `true` if the project has active jobs. Only loaded for [`Subject::ProjectWithJobs`].
    pub has_active_jobs: bool,
    /// The job.
    pub job: Option<Job>,
    /// `true` if the project, job, webhook, template or trust was deleted in the last 30 days, and does not exist.
    pub was_deleted: bool,
    /// The webhook, if it belongs to the project of the subject.
    pub webhook: Option<Webhook>,
    /// The number of webhooks of the project.
    pub webhooks: usize,
    /// The template, if it belongs to the project of the subject.
    pub template: Option<Template>,
    /// The number of templates of the project.
    pub templates: usize,
    /// The key, or the key of the token.
    pub key: Option<ApiKey>,
    /// The number of live keys of the trust, other than the key. Only loaded for [`Subject::Exchange`].
    pub live_keys: LiveKeys,
    /// The user, the user of the link, or the owner of the trust.
    pub user: Option<User>,
    /// The code host.
    pub code_host: Option<CodeHost>,
    /// `true` if a project names the code host.
    pub code_host_is_used: bool,
    /// The Slack workspace.
    pub slack: Option<SlackWorkspace>,
    /// The user of the code; `None` if the code was used, or was removed.
    pub slack_code: Option<UserId>,
    /// `true` if another user has the name or the identity of the subject, another code host, trust or template of the
    /// project has its name, or another Slack workspace has its ID at Slack.
    pub name_is_taken: bool,
    /// The keys that act for the user, or that the trust has created, without revoked ones.
    pub keys: Vec<ApiKey>,
    /// `true` if there is an administrator who may sign in, other than the user.
    pub has_other_administrator: bool,
    /// The trust.
    pub trust: Option<Trust>,
    /// The number of trusts.
    pub trusts: usize,
    /// The link.
    pub link: Option<SignInLink>,
    /// The pull request, or the open one of the branch.
    pub pull: Option<LocalPull>,
    /// The number after which the next pull request of the repository comes: that of the newest one, or a greater one
    /// ([`crate::epoch::Epoch::pulls_after`]). Only loaded for [`Subject::NewPull`].
    pub last_pull: u64,
    /// The number of the last comment on the pull request; 0 if there is none.
    pub last_comment: u64,
    /// The comments on the pull request that were not submitted yet, of all authors.
    pub drafts: Vec<Comment>,
    /// The comments on lines of the pull request that were submitted. Only loaded for [`Subject::PullLines`].
    pub lines: Vec<Comment>,
}

impl AdminState {
    /// Returns the version of something new whose ID was chosen by a person.
    #[must_use]
    pub const fn first_version(&self) -> u64 {
        self.epoch + FIRST_VERSION
    }

    /// Returns whether the project, job, webhook, template, code host or trust of a subject exists.
    #[must_use]
    pub const fn has(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Webhook(..) => self.webhook.is_some(),
            Subject::Template(..) => self.template.is_some(),
            Subject::Job(..) => self.job.is_some(),
            Subject::CodeHost(..) => self.code_host.is_some(),
            Subject::Trust(..) | Subject::Exchange(..) => self.trust.is_some(),
            Subject::SlackWorkspace(..) | Subject::SlackCode(..) => self.slack.is_some(),
            _ => self.project.is_some(),
        }
    }
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
    /// Stores a webhook, and changes its secrets. A webhook that is new, or was disabled, receives the events from now on.
    Webhook(Box<Webhook>, SecretChange),
    /// Deletes a webhook with its secrets and deliveries.
    WebhookRemoved {
        /// The webhook.
        id: WebhookId,
        /// The project of the webhook.
        project: ProjectId,
        /// The time of the deletion.
        at: Timestamp,
    },
    /// Stores a template.
    Template(Box<Template>),
    /// Deletes a template.
    TemplateRemoved {
        /// The template.
        id: TemplateId,
        /// The project of the template.
        project: ProjectId,
        /// The time of the removal.
        at: Timestamp,
    },
    /// Stores a code host, and changes its secrets.
    CodeHost(Box<CodeHost>, HostSecretChanges),
    /// Deletes a code host with its secrets.
    CodeHostRemoved {
        /// The code host.
        id: CodeHostId,
        /// The time of the removal.
        at: Timestamp,
    },
    /// Stores a trust. The time of its last exchange is not written.
    Trust(Box<Trust>),
    /// Stores the time of the last exchange of a trust.
    TrustUsed {
        /// The trust.
        id: TrustId,
        /// The time of the exchange.
        at: Timestamp,
    },
    /// Deletes a trust.
    TrustRemoved {
        /// The trust.
        id: TrustId,
        /// The time of the removal.
        at: Timestamp,
    },
    /// Stores a Slack workspace, and changes its secrets.
    SlackWorkspace(Box<SlackWorkspace>, SlackSecretChanges),
    /// Deletes a Slack workspace with its secrets, events, threads and posts.
    SlackWorkspaceRemoved {
        /// The workspace.
        id: SlackWorkspaceId,
        /// The time of the removal.
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
        place: u64,
    },
    /// Stores an event of the built-in code host in the inbox.
    Inbox(Box<NewEvent>),
}

/// A change: the rows to write, and the audit entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminChange {
    /// The rows, in order.
    pub rows: Vec<AdminRow>,
    /// The audit entries.
    pub audit: Vec<AuditEntry>,
}

/// The time for which the store remembers deleted projects and jobs, so that a repeated deletion gets the first answer.
pub const DELETED_FOR: Duration = Duration::from_hours(30 * 24);

impl Subject {
    /// Returns the name under which the store remembers that the subject was deleted; `None` for subjects of other kinds.
    #[must_use]
    pub fn deleted_name(&self) -> Option<String> {
        match self {
            Self::ProjectWithJobs(id) => Some(deleted_project(id)),
            Self::Job(id, project) => Some(deleted_job(*id, project)),
            Self::Webhook(id, project) => Some(deleted_webhook(*id, project)),
            Self::Template(id, project, _) => Some(deleted_template(*id, project)),
            Self::CodeHost(id, _) => Some(deleted_code_host(id)),
            Self::Trust(id, _) => Some(deleted_trust(*id)),
            Self::SlackWorkspace(id, _) => Some(deleted_slack_workspace(*id)),
            _ => None,
        }
    }
}

/// Returns the name under which the store remembers that a project was deleted.
#[must_use]
pub fn deleted_project(id: &ProjectId) -> String {
    format!("project/{id}")
}

/// Returns the name under which the store remembers that a job of a project was deleted.
#[must_use]
pub fn deleted_job(id: JobId, project: &ProjectId) -> String {
    format!("job/{project}/{id}")
}

/// Returns the name under which the store remembers that a code host was removed.
#[must_use]
pub fn deleted_code_host(id: &CodeHostId) -> String {
    format!("code_host/{id}")
}

/// Returns the name under which the store remembers that a trust was removed.
#[must_use]
pub fn deleted_trust(id: TrustId) -> String {
    format!("trust/{id}")
}

/// Returns the name under which the store remembers that a Slack workspace was removed.
#[must_use]
pub fn deleted_slack_workspace(id: SlackWorkspaceId) -> String {
    format!("slack_workspace/{id}")
}

/// Returns the name under which the store remembers that a webhook of a project was deleted.
#[must_use]
pub fn deleted_webhook(id: WebhookId, project: &ProjectId) -> String {
    format!("webhook/{project}/{id}")
}

/// Returns the name under which the store remembers that a template of a project was removed.
#[must_use]
pub fn deleted_template(id: TemplateId, project: &ProjectId) -> String {
    format!("template/{project}/{id}")
}

impl AdminChange {
    /// Returns an empty change, for a request whose effect is already in place.
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

/// The idempotency key of a request, and the answer that repetitions of the request get. Stores encrypt the answer,
/// because it may contain the secret of a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The key.
    pub claim: Claim,
    /// The answer.
    pub answer: String,
}

/// The condition of a request on the version of the resource that it changes (`If-Match`, RFC 9110).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    #[default]
    None,
    /// Any of these versions. An empty list never matches.
    Version(Vec<u64>),
}

impl Precondition {
    /// Checks the condition.
    ///
    /// # Errors
    /// Returns [`AdminRefusal::VersionMismatch`] if the current version is none of the required ones.
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
    #[error("a project with this ID already exists")]
    ProjectExists,
    /// The project has active jobs.
    #[error("the project has active jobs; cancel or archive them first")]
    ProjectBusy,
    /// The project's repository was changed between the check of the new repository and the transaction.
    #[error("the project was changed at the same time; send the request again")]
    ProjectChanged,
    /// The webhook does not exist.
    #[error("there is no such webhook")]
    NoWebhook,
    /// The webhook would have a setting with an invalid value.
    #[error("{0}")]
    InvalidWebhook(String),
    /// The project has too many webhooks.
    #[error("a project can have at most {MAX_WEBHOOKS} webhooks; remove one first")]
    TooManyWebhooks,
    /// The template does not exist.
    #[error("there is no such template in this project")]
    NoTemplate,
    /// The template would have a value that is not valid.
    #[error("{0}")]
    InvalidTemplate(String),
    /// A template of the project with this name exists.
    #[error("a template with this name already exists in this project")]
    TemplateExists,
    /// The project has too many templates.
    #[error("a project can have at most {MAX_TEMPLATES} templates; remove one first")]
    TooManyTemplates,
    /// The job does not exist.
    #[error("there is no such job")]
    NoJob,
    /// The job is active, or its last work is being published.
    #[error("the job is active; cancel or archive it, and wait until it has stopped")]
    JobActive,
    /// The job has another state than the request requires.
    #[error("the job has changed since you read it; read it again, and repeat the request")]
    JobChanged,
    /// The project would have a field with an invalid value.
    #[error("{0}")]
    InvalidProject(String),
    /// The key does not exist.
    #[error("there is no such key")]
    NoKey,
    /// The key was revoked or has expired, so it gets no new secret.
    #[error("the key was revoked or has expired; create another")]
    KeyEnded,
    /// The caller's key expires, and the administrator whom it would make does not.
    #[error(
        "this API key expires (expiresAt), and what it creates ends with it; an administrator is made, enabled or given \
         a link with a key that does not expire, on the pages, or by journeyman user"
    )]
    KeyExpires,
    /// The user does not exist.
    #[error("there is no such user")]
    NoUser,
    /// The code host does not exist.
    #[error("there is no such code host")]
    NoCodeHost,
    /// The code host would have a field with an invalid value.
    #[error("{0}")]
    InvalidCodeHost(String),
    /// A code host with this ID or address exists.
    #[error("a code host with this ID or this address already exists")]
    CodeHostExists,
    /// A project names the code host.
    #[error("a project uses this code host; change codeHost.host of the project first")]
    CodeHostUsed,
    /// The trust does not exist, or does not accept the token.
    #[error("there is no such trust")]
    NoTrust,
    /// The trust would have a rule that is not valid.
    #[error("{0}")]
    InvalidTrust(String),
    /// A trust with this name exists.
    #[error("a trust with this name already exists")]
    TrustExists,
    /// There are too many trusts.
    #[error("there can be at most {MAX_TRUSTS} trusts; remove one first")]
    TooManyTrusts,
    /// The user who created the trust was disabled, or may no longer create keys.
    #[error("the user who created this trust may no longer create keys; an administrator must create the trust again")]
    TrustOwnerEnded,
    /// The key of the token was revoked, so that its token gives no other.
    #[error("the key of this token was revoked; get a new token")]
    TokenKeyRevoked,
    /// The token was exchanged too often.
    #[error("this token was exchanged too often; use the key that it gave, or try again in {} s", .0.as_secs())]
    ExchangedTooOften(Duration),
    /// Too many keys of the trust, or of a subject of it, work at the same time.
    #[error("{what} has {most} keys that work, which is the maximum; a key works for 15 minutes")]
    TooManyLiveKeys {
        /// "this trust", or "the subject of this token".
        what: &'static str,
        /// The maximum.
        most: usize,
    },
    /// The Slack workspace does not exist.
    #[error("there is no such Slack workspace")]
    NoSlackWorkspace,
    /// The code for an account of Slack was used, or was removed.
    #[error("this code was used, or has expired; get another one")]
    NoSlackCode,
    /// The Slack workspace would have a field with an invalid value.
    #[error("{0}")]
    InvalidSlack(String),
    /// The Slack workspace is connected already.
    #[error("this Slack workspace is connected already")]
    SlackWorkspaceExists,
    /// A user with this name or identity exists.
    #[error("a user with this name already exists")]
    UserExists,
    /// Another user has the identity.
    #[error(
        "another user of this server is connected with this account of the provider; sign in there with another account"
    )]
    IdentityTaken,
    /// The user is connected with an identity.
    #[error("your account is already connected with the provider; disconnect it first")]
    IdentityConnected,
    /// The user is not connected with an identity.
    #[error("the user is not connected with the provider; only the user can connect an account there")]
    NoIdentity,
    /// The user has no password, and could not sign in without the identity.
    #[error(
        "the user has no password, and could not sign in without the provider; an administrator can create a link \
         with which the user sets a password"
    )]
    PasswordMissing,
    /// The user was disabled, or the password was changed, since the caller read them.
    #[error("the user was disabled or the password was changed at the same time; try again")]
    UserChanged,
    /// The pull request does not exist.
    #[error("there is no such pull request")]
    NoPull,
    /// The pull request is merged or closed.
    #[error("the pull request is no longer open")]
    PullNotOpen,
    /// The branch has an open pull request with this number.
    #[error("the branch already has the open pull request #{0}; push to the branch to change it")]
    PullExists(u64),
    /// The comment on a line does not exist, or was not submitted yet.
    #[error("there is no such comment on a line")]
    NoComment,
    /// The review has neither a text nor comments.
    #[error("the review is empty; write a summary, or add a comment to a line first")]
    EmptyReview,
    /// The author has collected too many comments.
    #[error("a review can have at most 100 comments; submit it before you add another one")]
    TooManyDrafts,
    /// The link for the first administrator was requested, and there is an administrator who may sign in.
    #[error("there is already an administrator; name the user who needs a link")]
    HasAdministrator,
    /// The user is disabled.
    #[error("the user is disabled; enable the user first")]
    UserDisabled,
    /// The user has a second factor, and no code was entered.
    #[error("a code of the second factor is needed too; sign in again")]
    CodeMissing,
    /// The user has a second factor already.
    #[error("this user has a second factor already; remove it first")]
    HasSecondFactor,
    /// The user has no second factor.
    #[error("this user has no second factor any more, or has none yet; only the user can set one up")]
    NoSecondFactor,
    /// The passkey does not exist.
    #[error("there is no such passkey any more")]
    NoPasskey,
    /// The user has as many passkeys as are allowed.
    #[error("there are {} passkeys already, which is the limit; remove one first", crate::user::passkey::MAX_PASSKEYS)]
    TooManyPasskeys,
    /// The challenge, or the passkey itself, was used to add a passkey before.
    #[error("this passkey was added before")]
    PasskeyKnown,
    /// The change would leave no administrator who may sign in.
    #[error("this is the last administrator; make another user an administrator first")]
    LastAdministrator,
    /// The link does not exist, has expired, or was used.
    #[error("this link has already been used or is no longer valid")]
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
