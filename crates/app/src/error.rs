//! The errors of use cases.

use journeyman_core::feed::FeedCursor;
use journeyman_core::ports::{AdminError, PullPagesError, StoreError, UpdateError};
use journeyman_core::refusal::{self, ResourceKind};
use journeyman_core::run::ReasonCode;

/// An error of a use case. Nothing was changed, unless the store's error says otherwise.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The request is not valid or not permitted.
    #[error(transparent)]
    Refused(Refusal),
    /// A decision of a person with rights was refused in its transaction.
    #[error(transparent)]
    Admin(refusal::Refusal),
    /// A change of a job was refused in its transaction.
    #[error(transparent)]
    Update(UpdateError),
    /// A pull request was not merged, or could not be read.
    #[error(transparent)]
    Pull(#[from] PullPagesError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another part of the server failed; the details are for the log.
    #[error("{0}")]
    Internal(String),
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The kind, for programs.
    pub kind: RefusalKind,
    /// The reason and what to do about it, for people.
    pub text: String,
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// A field is missing or not valid.
    Invalid,
    /// The prompt is empty or not valid text.
    InvalidPrompt,
    /// The prompt is too long.
    PromptTooLong,
    /// The agent is not configured.
    UnknownAgent,
    /// The agent does not ask permission for the kinds of tool calls that the project refuses.
    UnsupportedPolicy,
    /// Only an administrator may use a repository at this address.
    RepositoryAddressRefused,
    /// The repository cannot be read, for this reason.
    RepositoryUnreadable(ReasonCode),
    /// The project's repository has no pull requests that the service can read.
    NoPullRequests,
    /// The pull request does not exist in the project's repository.
    PullRequestNotFound,
    /// The pull request was merged or closed.
    PullRequestEnded,
    /// Jobs do not push to the branch of the pull request.
    PullRequestNotWritable,
    /// Another job works on the pull request.
    PullRequestTaken,
    /// The branch has an open pull request.
    PullRequestExists,
    /// The code host cannot be asked now; another attempt may succeed.
    CodeHostUnavailable,
    /// The scopes of the caller's key, or the role of the user, do not allow the operation.
    ScopeMissing,
    /// The caller is not allowed to manage projects and keys.
    NotAdministrator,
    /// The project does not exist, or the caller cannot see it.
    ProjectNotFound,
    /// The job does not exist in the project.
    JobNotFound,
    /// The message does not exist in the job.
    MessageNotFound,
    /// The key does not exist, or is not the caller's.
    KeyNotFound,
    /// The cursor is of another epoch, or events after it are no longer stored.
    CursorExpired {
        /// The cursor to continue with, so that no event is missed or received twice.
        next: Option<FeedCursor>,
    },
    /// The webhook has no such delivery.
    DeliveryNotFound,
    /// The webhook is disabled.
    WebhookDisabled,
    /// The code host is defined in the configuration, so it cannot be changed.
    CodeHostConfigured,
    /// The code host refused a request, or cannot be reached.
    CodeHostFailed,
    /// The text is not a token.
    TokenMalformed,
    /// The signature, the issuer or the times of the token are wrong.
    TokenUnverified,
    /// No trust accepts the token.
    TokenNotTrusted,
    /// The keys of the token's issuer cannot be read now; another attempt may succeed.
    IssuerUnavailable,
    /// Slack refused a request, or cannot be reached.
    SlackFailed,
    /// The password is not acceptable.
    WeakPassword,
}

impl Error {
    /// Returns a refusal.
    #[must_use]
    pub fn refused(kind: RefusalKind, text: impl Into<String>) -> Self {
        Self::Refused(Refusal { kind, text: text.into() })
    }

    /// Returns the error for an invalid field.
    #[must_use]
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::refused(RefusalKind::Invalid, text)
    }

    /// Returns the error for a project that does not exist or is not visible.
    #[must_use]
    pub fn project_not_found() -> Self {
        Self::refused(RefusalKind::ProjectNotFound, "there is no such project")
    }

    /// Returns the error for a job that does not exist in the project.
    #[must_use]
    pub fn job_not_found() -> Self {
        Self::refused(RefusalKind::JobNotFound, "there is no such job in this project")
    }
}

impl From<AdminError> for Error {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Refused(refusal) => match (refusal.kind, refusal.resource) {
                (refusal::RefusalKind::NotFound, ResourceKind::Project) => Self::project_not_found(),
                (refusal::RefusalKind::NotFound, ResourceKind::Key) => {
                    Self::refused(RefusalKind::KeyNotFound, refusal.detail)
                }
                (refusal::RefusalKind::NotFound, ResourceKind::PullRequest) => Self::Pull(PullPagesError::NotFound),
                (refusal::RefusalKind::Ended, ResourceKind::PullRequest) => Self::Pull(PullPagesError::NotOpen),
                (refusal::RefusalKind::Exists, ResourceKind::PullRequest) => {
                    Self::refused(RefusalKind::PullRequestExists, refusal.detail)
                }
                (refusal::RefusalKind::Invalid, _) => Self::invalid(refusal.detail),
                _ => Self::Admin(refusal),
            },
            AdminError::Store(error) => Self::Store(error),
        }
    }
}

impl From<UpdateError> for Error {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Store(error) => Self::Store(error),
            UpdateError::NoProject => Self::project_not_found(),
            UpdateError::NotFound => Self::job_not_found(),
            error => Self::Update(error),
        }
    }
}
