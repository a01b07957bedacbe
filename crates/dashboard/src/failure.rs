//! Errors of pages.
//!
//! Invariant: the details of store and repository errors go to the log and never to a page.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_app::{Error, Exceeded, RefusalKind};
use journeyman_core::job::decide::Rejected;
use journeyman_core::ports::{PullPagesError, StoreError, UpdateError};
use journeyman_core::refusal;

use crate::{visible, words};

/// An error that a handler returns in place of a page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The viewer's role is read-only.
    #[error("your role is read-only; ask an administrator for the role member to make changes")]
    ReadOnly,
    /// The action is reserved for administrators.
    #[error("only an administrator may do this")]
    NotAdministrator,
    /// The requested object does not exist; the text is its kind.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The project's repository is a path on the server, so there are no pull requests to list.
    #[error("the repository of this project is a path on the server, and has no pull requests")]
    NoPulls,
    /// A use case refused the request, or failed.
    #[error(transparent)]
    Case(Error),
    /// The form contains an invalid value.
    #[error("{0}")]
    Form(String),
    /// A query parameter of a list has a value that is not allowed. `clear` is the path of the list without filters.
    #[error("{text}")]
    Parameter { text: String, clear: String },
    /// The port for pull requests returned an error.
    #[error(transparent)]
    Pulls(#[from] PullPagesError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The viewer, or all callers together, use as much as they may.
    #[error(transparent)]
    Limit(#[from] Exceeded),
    /// A template or another internal step failed.
    #[error("the page could not be rendered: {0}")]
    Render(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => Self::Store(error),
            Error::Pull(error) => Self::Pulls(error),
            error => Self::Case(error),
        }
    }
}

/// Returns the text of a refusal, to show it in the form that was sent.
///
/// # Errors
/// The error is a failure of the server, and not a refusal.
pub(crate) fn refusal(error: Error) -> Result<String, Failure> {
    match error {
        Error::Store(_) | Error::Pull(_) | Error::Internal(_) => Err(error.into()),
        refusal => Ok(words::sentence(&refusal.to_string())),
    }
}

impl From<askama::Error> for Failure {
    fn from(error: askama::Error) -> Self {
        Self::Render(error.to_string())
    }
}

/// The result of a handler.
pub(crate) type Page = Result<Response, Failure>;

/// Renders a page from its template.
pub(crate) fn rendered(page: &impl Template) -> Page {
    Ok(Html(page.render()?).into_response())
}

/// Renders a form again, with its input and an error, with status 422.
pub(crate) fn refused(page: &impl Template) -> Page {
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(page.render()?)).into_response())
}

impl Failure {
    /// Returns the HTTP status of the error.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::ReadOnly | Self::NotAdministrator => StatusCode::FORBIDDEN,
            Self::NotFound(_) | Self::NoPulls | Self::Pulls(PullPagesError::NotFound) => StatusCode::NOT_FOUND,
            Self::Case(error) => status_of(error),
            Self::Form(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Parameter { .. } => StatusCode::BAD_REQUEST,
            Self::Pulls(PullPagesError::NotOpen | PullPagesError::Conflict { .. } | PullPagesError::NotRebased(_)) => {
                StatusCode::CONFLICT
            }
            Self::Pulls(PullPagesError::NoBranch(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Limit(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Pulls(PullPagesError::Failed(_)) | Self::Render(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the heading of the error page.
    pub(crate) fn heading(&self) -> &'static str {
        match self {
            Self::Pulls(PullPagesError::NotOpen) => return "No longer open",
            Self::Pulls(PullPagesError::Conflict { .. }) => return "The branches conflict",
            Self::Pulls(PullPagesError::NotRebased(_)) => return "The commits cannot be rebased",
            Self::Parameter { .. } => return "This filter is not valid",
            _ => {}
        }
        match self.status() {
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::TOO_MANY_REQUESTS => "Too many requests",
            StatusCode::SERVICE_UNAVAILABLE => "Not available right now",
            status if status.is_client_error() => "The request was refused",
            _ => "Something went wrong",
        }
    }

    /// Returns the text of the error page.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Pulls(PullPagesError::Failed(_)) => {
                "The repository or the store failed; the server's log says why. If you were merging or closing, check \
                 whether that succeeded before you try again."
                    .to_owned()
            }
            Self::Store(_) => "The store failed; the server's log says why. Try again in a moment.".to_owned(),
            Self::Case(Error::Internal(_)) => {
                "Something failed on the server; its log says why. Try again in a moment.".to_owned()
            }
            Self::Render(_) => "The page could not be rendered; the server's log says why.".to_owned(),
            _ => words::sentence(&visible::line(&self.to_string())),
        }
    }
}

fn status_of(error: &Error) -> StatusCode {
    match error {
        Error::Refused(refusal) => match refusal.kind {
            RefusalKind::ScopeMissing | RefusalKind::NotAdministrator => StatusCode::FORBIDDEN,
            RefusalKind::ProjectNotFound
            | RefusalKind::JobNotFound
            | RefusalKind::MessageNotFound
            | RefusalKind::KeyNotFound
            | RefusalKind::DeliveryNotFound
            | RefusalKind::CursorExpired { .. } => StatusCode::NOT_FOUND,
            RefusalKind::CodeHostConfigured | RefusalKind::WebhookDisabled => StatusCode::CONFLICT,
            RefusalKind::Invalid
            | RefusalKind::InvalidPrompt
            | RefusalKind::PromptTooLong
            | RefusalKind::UnknownAgent
            | RefusalKind::UnsupportedPolicy
            | RefusalKind::RepositoryAddressRefused
            | RefusalKind::RepositoryUnreadable(_)
            | RefusalKind::NoPullRequests
            | RefusalKind::PullRequestNotFound
            | RefusalKind::PullRequestEnded
            | RefusalKind::PullRequestNotWritable
            | RefusalKind::CodeHostFailed
            | RefusalKind::TokenMalformed
            | RefusalKind::TokenUnverified
            | RefusalKind::TokenNotTrusted
            | RefusalKind::SlackFailed
            | RefusalKind::WeakPassword => StatusCode::UNPROCESSABLE_ENTITY,
            RefusalKind::PullRequestTaken | RefusalKind::PullRequestExists => StatusCode::CONFLICT,
            RefusalKind::CodeHostUnavailable | RefusalKind::IssuerUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        },
        Error::Admin(refusal) if refusal.kind == refusal::RefusalKind::NotFound => StatusCode::NOT_FOUND,
        Error::Update(UpdateError::RateLimited(..) | UpdateError::Rejected(Rejected::QueueFull)) => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Error::Admin(_) | Error::Update(_) => StatusCode::CONFLICT,
        Error::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        Error::Pull(_) | Error::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
