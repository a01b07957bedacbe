//! Why a page could not be given, and the page that says so; and the few words in which a page says that something was
//! done.
//!
//! Invariant: what a store or repository failed with is for the log; the page does not repeat it.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ports::{PullPagesError, StoreError};

use crate::frame::Frame;
use crate::interface::Refusal;
use crate::{Shared, visible, words};

/// Why a page could not be given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The viewer may not change anything.
    #[error("you may look at everything here; to change something you need the role member")]
    ReadOnly,
    /// The viewer may not do this.
    #[error("only an administrator may do this")]
    NotAdministrator,
    /// There is none.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// There is no list, for there is nothing to list from.
    #[error("this project has no repository on the built-in code host; its pull requests are where its repository is")]
    NotHosted,
    /// The interface said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The port said no.
    #[error(transparent)]
    Pulls(#[from] PullPagesError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A template failed, or something else of ours.
    #[error("the page could not be rendered: {0}")]
    Render(String),
}

impl From<askama::Error> for Failure {
    fn from(error: askama::Error) -> Self {
        Self::Render(error.to_string())
    }
}

/// What a page is, or why there is none.
pub(crate) type Page = Result<Response, Failure>;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: &'a Frame,
    heading: &'static str,
    text: String,
}

#[derive(Template)]
#[template(path = "unavailable.html")]
struct Unavailable {
    stylesheet: String,
}

/// The page where not even the session could be looked up.
pub(crate) fn unavailable(shared: &Shared, error: &StoreError) -> Response {
    tracing::error!(%error, "a session could not be looked up");
    let page = Unavailable { stylesheet: shared.assets.href("journeyman.css") }.render();
    (StatusCode::SERVICE_UNAVAILABLE, Html(page.unwrap_or_default())).into_response()
}

/// A page from its template.
pub(crate) fn rendered(page: &impl Template) -> Page {
    Ok(Html(page.render()?).into_response())
}

/// A page that says that what was typed will not do; it holds what was typed.
pub(crate) fn refused(page: &impl Template) -> Page {
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(page.render()?)).into_response())
}

impl Failure {
    /// The answer.
    pub(crate) fn page(&self, frame: &Frame) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(error = %self, "a page could not be given");
        }
        match (ErrorPage { frame, heading: self.heading(), text: self.text() }).render() {
            Ok(html) => (status, Html(html)).into_response(),
            Err(error) => {
                tracing::error!(%error, "the page of an error could not be rendered");
                (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
            }
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::ReadOnly | Self::NotAdministrator => StatusCode::FORBIDDEN,
            Self::NotFound(_) | Self::NotHosted | Self::Pulls(PullPagesError::NotFound) => StatusCode::NOT_FOUND,
            Self::Refused(refusal) => refusal.status,
            Self::Pulls(PullPagesError::NotOpen | PullPagesError::Conflict { .. }) => StatusCode::CONFLICT,
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Pulls(PullPagesError::Failed(_)) | Self::Render(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn heading(&self) -> &'static str {
        match self {
            Self::Pulls(PullPagesError::NotOpen) => return "Not open any more",
            Self::Pulls(PullPagesError::Conflict { .. }) => return "The branches conflict",
            _ => {}
        }
        match self.status() {
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::TOO_MANY_REQUESTS => "Too many requests",
            StatusCode::SERVICE_UNAVAILABLE => "Not available right now",
            status if status.is_client_error() => "This was not done",
            _ => "Something went wrong",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Pulls(PullPagesError::Failed(_)) => {
                "The repository or the store could not be used; the server's log says why. If you were merging or \
                 closing, look whether it was done before you try again."
                    .to_owned()
            }
            Self::Store(_) => {
                "The store could not be used; the server's log says why. Try again in a moment.".to_owned()
            }
            Self::Render(_) => "The page could not be rendered; the server's log says why.".to_owned(),
            _ => words::sentence(&visible::line(&self.to_string())),
        }
    }
}

/// What a page says after something was done, by its name in the address.
pub(crate) fn done(name: &str) -> Option<&'static str> {
    let known = [
        ("saved", "Saved."),
        ("created", "Created."),
        ("revoked", "The key is revoked. It is refused from now on."),
        ("deleted", "The project is deleted."),
        ("password", "The password is changed. All your other sessions have ended."),
        ("ended", "The session has ended."),
        ("disabled", "The user is disabled: sessions have ended, and keys they made are revoked."),
        ("enabled", "The user may sign in again."),
        ("merged", "Merged."),
        ("closed", "Closed."),
        ("sent", "Sent to the job."),
        ("commented", "The comment is added."),
    ];
    known.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}
