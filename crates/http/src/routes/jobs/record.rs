//! Answers that are a job's record.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_core::job::JobRecord;
use journeyman_core::ports::Accepted;
use journeyman_core::rate::RateKind;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::error::rate_headers;
use crate::wire;

/// The answer to a job or message that was accepted, now or by an earlier request with the same key.
pub(crate) fn accepted(app: &App, status: StatusCode, kind: RateKind, done: Accepted) -> Response {
    let mut headers = done.rate.map(|state| rate_headers(kind, state)).unwrap_or_default();
    if done.replayed {
        headers.insert(HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static("true"));
    } else {
        app.metrics.accepted(kind);
    }
    (status, headers, record(done)).into_response()
}

/// The record alone.
pub(crate) fn record(done: Accepted) -> Json<wire::job::JobRecord> {
    Json(done.record.into())
}

/// The record with its tag, or 304 to a client that has it.
pub(crate) fn conditional(record: JobRecord, headers: &HeaderMap) -> Response {
    let body = Json(wire::job::JobRecord::from(record));
    let tag = tag(&body.0);
    let caching = (CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let Ok(value) = HeaderValue::from_str(&tag) else { return ([caching], body).into_response() };
    let seen = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // Weak comparison, as RFC 9110 section 13.1.2 says.
    let matches = |part: &str| part == "*" || part.strip_prefix("W/").unwrap_or(part) == tag;
    if seen.flat_map(|value| value.split(',')).any(|part| matches(part.trim())) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, value), caching]).into_response();
    }
    ([(ETAG, value), caching], body).into_response()
}

/// Changes whenever a field does.
fn tag(record: &wire::job::JobRecord) -> String {
    let digest = Sha256::digest(format!("{record:?}"));
    let hex: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}
