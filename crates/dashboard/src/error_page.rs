//! The pages that are shown in place of a page that failed.

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use journeyman_core::ports::StoreError;

use crate::failure::{Failure, Page};
use crate::frame::{self, Frame, OpenFrame};
use crate::preferences::Preferences;
use crate::viewer::ClientAddress;
use crate::{Shared, headers, session, toast};

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: &'a Frame,
    heading: &'static str,
    text: String,
    /// The links to go on with, and their texts.
    steps: Vec<(&'a str, &'static str)>,
}

#[derive(Template)]
#[template(path = "error_open.html")]
struct OpenErrorPage<'a> {
    frame: &'a OpenFrame,
    heading: &'static str,
    text: &'static str,
}

#[derive(Template)]
#[template(path = "unavailable.html")]
struct Unavailable {
    stylesheet: String,
}

/// Returns the toast for a failure of the store before the viewer is known.
pub(crate) fn unavailable_toast(error: &StoreError) -> Response {
    tracing::error!(%error, "the store failed during the authentication of a form");
    let text = "The store failed; the server's log says why. Nothing was changed. Try again in a moment.";
    toast::failed(StatusCode::SERVICE_UNAVAILABLE, "Not available right now", text)
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
        let clear = match self {
            Self::Parameter { clear, .. } => Some(clear.as_str()),
            _ => None,
        };
        error_page(frame, status, (self.heading(), self.text()), clear)
    }
}

impl Frame {
    /// Converts a handler's result into a response: the page, or the error page.
    pub(crate) fn answer(&self, page: Page) -> Response {
        page.unwrap_or_else(|failure| failure.page(self))
    }
}

/// Returns the page of an error, or its toast. `clear` is the path of a list without filters.
fn error_page(
    frame: &Frame,
    status: StatusCode,
    (heading, text): (&'static str, String),
    clear: Option<&str>,
) -> Response {
    if frame.can_stream {
        return toast::failed(status, heading, &text);
    }
    let mut steps = match status {
        status if status.is_server_error() && !frame.here.is_empty() => vec![(frame.here.as_str(), "Try again")],
        StatusCode::NOT_FOUND => vec![("/search", "Search")],
        _ => Vec::new(),
    };
    steps.extend(clear.map(|clear| (clear, "Clear filters")));
    steps.push(("/", "Home"));
    match (ErrorPage { frame, heading, text, steps }).render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "the error page could not be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
        }
    }
}

/// Replaces errors without a page, which the router and the extractors create, by pages. Clients that do not ask for
/// HTML get the error unchanged.
pub(crate) async fn replace_bare(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if !asks_for_page(request.headers()) {
        return next.run(request).await;
    }
    let headers = request.headers().clone();
    let here = frame::here(request.method(), request.uri());
    let can_stream = toast::is_possible(request.method(), request.headers());
    let address: ClientAddress = request.extensions().get().copied().unwrap_or_default();
    let response = next.run(request).await;
    if !is_bare(&response) {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    let page = page_of_status(&shared, parts.status, &headers, (here, can_stream), address).await;
    // Other headers, such as `Allow`, stay.
    parts.headers.remove(CONTENT_TYPE);
    parts.headers.remove(CONTENT_LENGTH);
    let (page, body) = headers::strict(page).await.into_parts();
    parts.status = page.status;
    parts.headers.extend(page.headers);
    Response::from_parts(parts, body)
}

fn asks_for_page(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains("text/html"))
}

/// Returns true for an error that has no body, or a plain text as its body.
fn is_bare(response: &Response) -> bool {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    (status.is_client_error() || status.is_server_error()) && kind.is_none_or(|kind| kind.starts_with("text/plain"))
}

/// Returns the page for a status. A visitor who has not signed in is led to the sign-in page if there is no such page,
/// like for a page that exists, and so does not learn which pages exist.
async fn page_of_status(
    shared: &Shared,
    status: StatusCode,
    headers: &HeaderMap,
    (here, can_stream): (String, bool),
    address: ClientAddress,
) -> Response {
    let open = OpenFrame { shared: shared.clone(), preferences: Preferences::of(headers) };
    let (heading, text) = words_of(status);
    match session::viewer(shared, headers, address).await {
        Ok(Some(viewer)) => {
            let frame = Frame { can_stream, ..Frame::new(open, viewer, here) };
            error_page(&frame, status, (heading, text.to_owned()), None)
        }
        Ok(None) if matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => {
            Redirect::to(&session::sign_in_path(&here)).into_response()
        }
        Ok(None) => open.page(status, &OpenErrorPage { frame: &open, heading, text }),
        Err(error) => unavailable(shared, &error),
    }
}

/// Returns the heading and the text for a status. The text says what to do.
fn words_of(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::FORBIDDEN => (
            "Not allowed",
            "This request does not come from a page of this server. Reload the page, and send the form again.",
        ),
        StatusCode::NOT_FOUND => (
            "Not found",
            "There is no page at this address. It may have been deleted, or the address has a typing error.",
        ),
        StatusCode::METHOD_NOT_ALLOWED => (
            "This address cannot be opened",
            "It belongs to a button or a form. Go back to the page with it, and press it there.",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => {
            ("The form is too large", "Nothing was stored. Go back, shorten the text, and send the form again.")
        }
        status if status.is_client_error() => (
            "The request could not be read",
            "A part of the address or of the form is not valid. Nothing was stored. Go back, and try again.",
        ),
        _ => ("Something went wrong", "The server's log says why. Try again in a moment."),
    }
}
