//! The outermost layer of every request: the request ID, the form of errors, the log, and the metrics.

use std::any::Any;
use std::time::Instant;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, LOCATION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use journeyman_core::trace::TraceParent;
use journeyman_core::version::FIRST_VERSION;
use serde_json::Value;
use tracing::Instrument;
use tracing::field::Empty;

use crate::app::App;
use crate::conditional::{tag_of, tag_of_use};
use crate::error::{ApiError, ErrorBody, ErrorCode, More, Problem};
use crate::metrics::method_name;

/// The header of a response that an earlier request with the same idempotency key already had.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Returns the response with a new project or code host as JSON, like [`created`]. `version` is the version that it got;
/// `None` for a repeated request, whose tag then fits only if no earlier state of the server was ever restored.
pub(crate) fn created_as(version: Option<u64>, folder: &str, body: String) -> Response {
    created_with(tag_of(version.unwrap_or(FIRST_VERSION)), folder, body, version.is_none())
}

/// Returns the response with a new webhook or template as JSON, whose path is the folder and the ID. A repeated request
/// gets the same response, with [`REPLAYED`].
pub(crate) fn created(folder: &str, body: String, is_replay: bool) -> Response {
    created_with(tag_of(FIRST_VERSION), folder, body, is_replay)
}

/// Returns the response with a new key or trust, like [`created`].
pub(crate) fn created_unused(folder: &str, body: String, is_replay: bool) -> Response {
    created_with(tag_of_use(FIRST_VERSION, None), folder, body, is_replay)
}

fn created_with(tag: String, folder: &str, body: String, is_replay: bool) -> Response {
    let parsed: Value = serde_json::from_str(&body).unwrap_or_default();
    let location = format!("{folder}/{}", parsed["id"].as_str().unwrap_or_default());
    let headers = [(CONTENT_TYPE, "application/json".to_owned()), (LOCATION, location), (ETAG, tag)];
    let replayed = is_replay.then(|| [(REPLAYED, HeaderValue::from_static("true"))]);
    (StatusCode::CREATED, headers, replayed, body).into_response()
}

/// The last field of a stored body, which has the entity tag. It cannot occur in a string of JSON, where its quotation
/// marks are escaped.
const STORED_TAG: &str = ",\"etag\":";

/// Adds an entity tag to the body of a response that is stored for an idempotency key. A version of the program that does
/// not know this sends a body with an additional field.
pub(crate) fn with_tag(body: &str, tag: &str) -> String {
    let tag = Value::from(tag);
    body.strip_suffix('}').map_or_else(|| body.to_owned(), |fields| format!("{fields}{STORED_TAG}{tag}}}"))
}

/// Returns a body without its entity tag, and the tag; a body that an earlier version has stored has none.
fn without_tag(stored: String) -> (String, Option<HeaderValue>) {
    let parts = stored.rsplit_once(STORED_TAG);
    let found = parts.and_then(|(fields, rest)| {
        let tag: String = serde_json::from_str(rest.strip_suffix('}')?).ok()?;
        Some((format!("{fields}}}"), HeaderValue::from_str(&tag).ok()?))
    });
    found.map_or((stored, None), |(body, tag)| (body, Some(tag)))
}

/// Returns the response to a request for a new secret, now or by an earlier request with the same key, of a body with its
/// entity tag ([`with_tag`]). Caches must not store it.
pub(crate) fn renewed(stored: String, is_replay: bool) -> Response {
    let (body, tag) = without_tag(stored);
    let headers = [(CACHE_CONTROL, "no-store"), (CONTENT_TYPE, "application/json")];
    let replayed = is_replay.then(|| [(REPLAYED, HeaderValue::from_static("true"))]);
    (headers, tag.map(|tag| [(ETAG, tag)]), replayed, body).into_response()
}

/// The header with the ID of a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

fn with_fields(body: &ErrorBody, more: serde_json::Map<String, serde_json::Value>) -> serde_json::Value {
    let mut value = serde_json::to_value(body).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.extend(more);
    }
    value
}

/// Assigns an ID to the request and adds it to the response. Writes the body of an error that has none, logs the
/// response, and counts it for the metrics.
pub(crate) async fn finish(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request_id(&app, &request);
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!(
        "request",
        otel.name = format_args!("{} {route}", method_name(&method)),
        otel.kind = "server",
        id,
        method = method_name(&method),
        route,
        project = Empty,
        job = Empty,
        http.response.status_code = Empty
    );
    let parent = traceparent(request.headers());
    if let Some(parent) = &parent {
        journeyman_trace::continue_from(&span, parent);
    }
    // Without an exporter, messages keep the context of the client.
    if let Some(context) = journeyman_trace::context_of(&span).or(parent) {
        request.extensions_mut().insert(context);
    }

    let mut response = next.run(request).instrument(span.clone()).await;
    let problem = response.extensions_mut().remove::<Problem>().or_else(|| unnamed(&response));
    if let Some(problem) = problem {
        let body = ErrorBody { error: problem.text, code: problem.code, request_id: id.clone() };
        let body = match response.extensions_mut().remove::<More>() {
            Some(More(more)) => Json(with_fields(&body, more)).into_response(),
            None => Json(body).into_response(),
        };
        // The error has no body yet, but it may have headers, such as `Allow`, which stay.
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().remove(axum::http::header::CONTENT_LENGTH);
        *response.body_mut() = body.into_body();
    }
    let headers = response.headers_mut();
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    app.metrics.answered(&method, &route, status, took);
    span.record("http.response.status_code", status);
    span.in_scope(|| tracing::debug!(status, took_us = took.as_micros(), "answered"));
    response
}

/// Returns the trace context that the client sent. A malformed one is ignored (W3C trace context, section 3.2.2.5).
fn traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut all = headers.get_all("traceparent").iter();
    let (first, second) = (all.next(), all.next());
    first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok()?.parse().ok())
}

/// Returns the request ID that the client sent, if it has a safe form, or else a new one.
fn request_id(app: &App, request: &Request) -> String {
    let is_safe = |id: &&str| {
        (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_safe);
    let fresh = || format!("req_{}", app.services.ids.uuid(app.services.engine.now()).simple());
    given.map_or_else(fresh, str::to_owned)
}

/// Returns the problem for an error without a body, which the router itself creates.
fn unnamed(response: &Response) -> Option<Problem> {
    if response.headers().contains_key(CONTENT_TYPE) {
        return None;
    }
    let problem = |code, text: &str| Some(Problem { code, text: text.to_owned() });
    match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => problem(
            ErrorCode::MethodNotAllowed,
            "this path does not support this method; the Allow header lists the methods that it supports",
        ),
        StatusCode::NOT_FOUND => problem(ErrorCode::NotFound, NO_SUCH_PATH),
        status if status.is_client_error() => problem(ErrorCode::BadRequest, "the request could not be read"),
        _ => None,
    }
}

const NO_SUCH_PATH: &str = "there is no resource at this path; /docs describes the interface";

/// Returns the response for a path that no route matches.
pub(crate) async fn no_such_path() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, NO_SUCH_PATH)
}

/// Returns the response to a request whose handler panicked.
pub(crate) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    ApiError::internal(&format!("a handler panicked: {text}")).into_response()
}

/// Refuses requests that still arrive on open connections while the server shuts down.
pub(crate) async fn refuse_when_stopping(State(app): State<App>, request: Request, next: Next) -> Response {
    if !app.shutdown.is_cancelled() {
        return next.run(request).await;
    }
    let error = ApiError::away(ErrorCode::ShuttingDown, "the server is shutting down; nothing was stored, try again");
    error.with(CONNECTION, HeaderValue::from_static("close")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_body_has_its_entity_tag() {
        for body in [r#"{"id":"x"}"#, r#"{"name":"a\",\"etag\":\"v9\"}"}"#] {
            let stored = with_tag(body, "\"v2.7\"");
            assert!(serde_json::from_str::<Value>(&stored).is_ok(), "an earlier version sends it: {stored}");
            let (read, tag) = without_tag(stored);
            assert_eq!((read.as_str(), tag.unwrap()), (body, HeaderValue::from_static("\"v2.7\"")));
            assert_eq!(without_tag(body.to_owned()), (body.to_owned(), None), "an earlier version stored it");
        }
    }
}
