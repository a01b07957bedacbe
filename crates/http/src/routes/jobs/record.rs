//! Responses with a job's record.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_core::job::JobRecord;
use journeyman_core::ports::Accepted;
use journeyman_core::rate::RateKind;

use crate::answer::REPLAYED;
use crate::app::App;
use crate::conditional::{conditional, hash_tag};
use crate::error::rate_headers;
use crate::wire;

/// Returns the response for a job or message that was accepted, now or by an earlier request with the same key.
pub(crate) fn accepted(app: &App, status: StatusCode, kind: RateKind, done: Accepted) -> Response {
    let mut headers = done.rate.map(|state| rate_headers(kind, state)).unwrap_or_default();
    if done.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    } else {
        app.metrics.accepted(kind);
    }
    (status, headers, record(done)).into_response()
}

/// Returns the response to a request that controls a job.
pub(super) fn controlled(done: Accepted) -> Response {
    let headers = done.replayed.then(|| [(REPLAYED, HeaderValue::from_static("true"))]);
    (headers, record(done)).into_response()
}

/// Returns the record without additional headers.
pub(crate) fn record(done: Accepted) -> Json<wire::job::JobRecord> {
    Json(done.record.into())
}

/// Returns the record with its tag, or 304 if the client already has it.
pub(crate) fn conditional_record(record: JobRecord, headers: &HeaderMap) -> Response {
    let body = wire::job::JobRecord::from(record);
    conditional(&hash_tag(&body), body, headers)
}

/// Returns the entity tag of a record.
pub(super) fn tag(record: JobRecord) -> String {
    hash_tag(&wire::job::JobRecord::from(record))
}
