//! The page that is shown in place of a page that failed.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::ports::StoreError;

use crate::Shared;
use crate::failure::{Failure, Page};
use crate::frame::Frame;

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

/// Returns the page for a failure of the store before the viewer is known.
pub(crate) fn unavailable(shared: &Shared, error: &StoreError) -> Response {
    tracing::error!(%error, "the store failed during the authentication of a request");
    let page = Unavailable { stylesheet: shared.assets.href("journeyman.css") }.render();
    (StatusCode::SERVICE_UNAVAILABLE, Html(page.unwrap_or_default())).into_response()
}

impl Failure {
    /// Returns the error page.
    pub(crate) fn page(&self, frame: &Frame) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(error = %self, "the request for a page failed");
        }
        match (ErrorPage { frame, heading: self.heading(), text: self.text() }).render() {
            Ok(html) => (status, Html(html)).into_response(),
            Err(error) => {
                tracing::error!(%error, "the error page could not be rendered");
                (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
            }
        }
    }
}

impl Frame {
    /// Converts a handler's result into a response: the page, or the error page.
    pub(crate) fn answer(&self, page: Page) -> Response {
        page.unwrap_or_else(|failure| failure.page(self))
    }
}
