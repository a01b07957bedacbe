//! The frame of every answer: the request's id, the form of errors, a line in the log, the numbers for `/metrics`.

use std::any::Any;
use std::time::Instant;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use crate::app::App;
use crate::error::{ApiError, ErrorBody, ErrorCode, Problem};

/// Returns the stored answer of an earlier request with the same idempotency key.
pub(crate) fn replayed(status: StatusCode, answer: String) -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static("true")),
    ];
    (status, headers, answer)
}

/// The header that carries a request's id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives the request an id, and its answer the id and, where it is an error without a body, the body.
pub(crate) async fn finish(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request_id(&app, &request);
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!("request", id, %method, route);

    let mut response = next.run(request).instrument(span.clone()).await;
    let problem = response.extensions_mut().remove::<Problem>().or_else(|| unnamed(&response));
    if let Some(problem) = problem {
        let body = ErrorBody { error: problem.text, code: problem.code, request_id: id.clone() };
        // The body that was there is empty; its headers (such as `Allow`) stay.
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().remove(axum::http::header::CONTENT_LENGTH);
        *response.body_mut() = Json(body).into_response().into_body();
    }
    let headers = response.headers_mut();
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    app.metrics.answered(&method, &route, status, took);
    span.in_scope(|| tracing::debug!(status, took_us = took.as_micros(), "answered"));
    response
}

/// The client's own id where it has a harmless form, else a new one.
fn request_id(app: &App, request: &Request) -> String {
    let harmless = |id: &&str| {
        (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(harmless);
    let fresh = || format!("req_{}", app.services.ids.uuid(app.services.engine.now()).simple());
    given.map_or_else(fresh, str::to_owned)
}

/// Errors that the router makes itself, without a body.
fn unnamed(response: &Response) -> Option<Problem> {
    if response.headers().contains_key(CONTENT_TYPE) {
        return None;
    }
    let problem = |code, text: &str| Some(Problem { code, text: text.to_owned() });
    match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => problem(
            ErrorCode::MethodNotAllowed,
            "this path does not take this method; the header Allow names those it takes",
        ),
        StatusCode::NOT_FOUND => problem(ErrorCode::NotFound, NO_SUCH_PATH),
        status if status.is_client_error() => problem(ErrorCode::BadRequest, "the request could not be read"),
        _ => None,
    }
}

const NO_SUCH_PATH: &str = "there is nothing at this path; /docs describes the interface";

/// The router's answer where no route fits.
pub(crate) async fn no_such_path() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, NO_SUCH_PATH)
}

/// The answer to a request whose handler panicked.
pub(crate) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    ApiError::internal(&format!("a handler panicked: {text}")).into_response()
}

/// While the server stops, requests that still come on open connections are turned away.
pub(crate) async fn refuse_when_stopping(State(app): State<App>, request: Request, next: Next) -> Response {
    if !app.shutdown.is_cancelled() {
        return next.run(request).await;
    }
    let error = ApiError::away(ErrorCode::ShuttingDown, "the server is shutting down; nothing was stored, try again");
    error.with(CONNECTION, HeaderValue::from_static("close")).into_response()
}
