//! Why a page could not be given, and the page that says so.
//!
//! Invariant: what a store or repository failed with is for the log; the page does not repeat it.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ports::PullPagesError;

use crate::frame::Frame;
use crate::visible;

/// Why a page could not be given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The caller may not change anything.
    #[error("your key may only read; to merge or close a pull request it needs the scope write")]
    ReadOnly,
    /// There is no list, for there is nothing to list from.
    #[error("this project has no repository on the built-in code host; its pull requests are where its repository is")]
    NotHosted,
    /// The port said no.
    #[error(transparent)]
    Pulls(#[from] PullPagesError),
    /// A template failed.
    #[error("the page could not be rendered: {0}")]
    Render(#[from] askama::Error),
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: &'a Frame,
    heading: &'static str,
    text: String,
    back: Option<Link>,
}

struct Link {
    href: String,
    text: String,
}

impl Failure {
    /// The answer; `pull` is the number of the pull request that was asked for.
    pub(crate) fn page(&self, frame: &Frame, pull: Option<u64>) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(project = %frame.project.id, pull, error = %self, "a page could not be given");
        }
        match (ErrorPage { frame, heading: self.heading(), text: self.text(), back: self.back(frame, pull) }).render() {
            Ok(html) => (status, Html(html)).into_response(),
            Err(error) => {
                tracing::error!(%error, "the page of an error could not be rendered");
                (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
            }
        }
    }

    /// Where to go from here: to the pull request if it is there, else to the list if that is.
    fn back(&self, frame: &Frame, pull: Option<u64>) -> Option<Link> {
        match (self, pull) {
            (Self::NotHosted, _) => None,
            (Self::Pulls(PullPagesError::NotFound), _) | (_, None) => {
                Some(Link { href: frame.pulls_path(), text: "All pull requests".to_owned() })
            }
            (_, Some(number)) => Some(Link { href: frame.pull_path(number), text: format!("Back to #{number}") }),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::NotHosted | Self::Pulls(PullPagesError::NotFound) => StatusCode::NOT_FOUND,
            Self::Pulls(PullPagesError::NotOpen | PullPagesError::Conflict { .. }) => StatusCode::CONFLICT,
            Self::Pulls(PullPagesError::Failed(_)) | Self::Render(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn heading(&self) -> &'static str {
        match self {
            Self::ReadOnly => "Not allowed",
            Self::NotHosted | Self::Pulls(PullPagesError::NotFound) => "Not found",
            Self::Pulls(PullPagesError::NotOpen) => "Not open any more",
            Self::Pulls(PullPagesError::Conflict { .. }) => "The branches conflict",
            Self::Pulls(PullPagesError::Failed(_)) | Self::Render(_) => "Something went wrong",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Pulls(PullPagesError::Failed(_)) => {
                "the repository or the store could not be used; the server's log says why. If you were merging or \
                 closing, look whether it was done before you try again."
                    .to_owned()
            }
            Self::Render(_) => "the page could not be rendered; the server's log says why.".to_owned(),
            Self::ReadOnly | Self::NotHosted | Self::Pulls(_) => format!("{}.", visible::line(&self.to_string())),
        }
    }
}
