//! Conditional requests (RFC 9110, section 13): entity tags, `If-None-Match`, and `If-Match`.

use axum::Json;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use journeyman_core::time::Timestamp;
use journeyman_core::version::Precondition;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::fmt::Debug;

use crate::app::App;
use crate::error::ApiError;

/// Returns the entity tag of a version.
pub(crate) fn tag_of(version: u64) -> String {
    format!("\"v{version}\"")
}

/// Returns the entity tag of a version of a key or a trust. A use does not change the version, but it changes the body.
pub(crate) fn tag_of_use(version: u64, last_used_at: Option<Timestamp>) -> String {
    format!("\"v{version}.{}\"", last_used_at.map_or(0, |at| at.as_micros()))
}

/// Returns the entity tag of a value without a version, which changes whenever a field changes.
pub(crate) fn hash_tag(value: &impl Debug) -> String {
    tag_of_bytes(format!("{value:?}").as_bytes())
}

fn tag_of_bytes(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// Adds an entity tag to a JSON answer that has none, or replaces it by 304 if the client already has this body.
pub(crate) async fn tag_bodies(request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let known = request.headers().get_all(IF_NONE_MATCH).iter().cloned();
    let known: HeaderMap = known.map(|value| (IF_NONE_MATCH, value)).collect();
    let response = next.run(request).await;
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if response.status() != StatusCode::OK || !is_json || response.headers().contains_key(ETAG) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return ApiError::internal(&error).into_response(),
    };
    let tagged = tagged(&tag_of_bytes(&bytes), (), &known);
    if tagged.status() == StatusCode::NOT_MODIFIED {
        return tagged;
    }
    (parts.status, parts.headers, tagged.headers().clone(), bytes).into_response()
}

/// Returns the `ETag` header of a version.
pub(crate) fn etag(version: u64) -> [(HeaderName, String); 1] {
    [(ETAG, tag_of(version))]
}

/// Returns a response with the body and its tag, or 304 if the client already has this version.
pub(crate) fn conditional(tag: &str, body: impl Serialize, headers: &HeaderMap) -> Response {
    tagged(tag, Json(body), headers)
}

fn tagged(tag: &str, body: impl IntoResponse, headers: &HeaderMap) -> Response {
    let caching = (CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let Ok(value) = HeaderValue::from_str(tag) else { return ([caching], body).into_response() };
    // RFC 9110 requires the weak comparison here (section 13.1.2).
    let matches = |part: &str| part == "*" || part.strip_prefix("W/").unwrap_or(part) == tag;
    if values(headers, &IF_NONE_MATCH).any(matches) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, value), caching]).into_response();
    }
    ([(ETAG, value), caching], body).into_response()
}

/// The condition of a request on the current version (`If-Match`).
pub(crate) struct IfMatch(pub(crate) Precondition);

impl FromRequestParts<App> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(Self(precondition(&parts.headers)))
    }
}

/// The entity tags of a request, one of which the resource must have (`If-Match`).
#[derive(Debug)]
pub(crate) struct ExpectedTags(Option<Vec<String>>);

impl ExpectedTags {
    /// Reads the header.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let is_free = !headers.contains_key(IF_MATCH) || values(headers, &IF_MATCH).any(|tag| tag == "*");
        Self((!is_free).then(|| values(headers, &IF_MATCH).map(str::to_owned).collect()))
    }

    /// Returns whether the request allows a resource with this tag. Weak tags match none (section 13.1.1).
    pub(crate) fn match_tag(&self, tag: &str) -> bool {
        self.0.as_ref().is_none_or(|tags| tags.iter().any(|known| known == tag))
    }
}

/// Reads the condition. A weak tag, or one that is not in our format, matches no version (section 13.1.1).
fn precondition(headers: &HeaderMap) -> Precondition {
    if !headers.contains_key(IF_MATCH) || values(headers, &IF_MATCH).any(|tag| tag == "*") {
        return Precondition::None;
    }
    // The tag of a key or a trust also has the time of its last use, after a dot.
    let version = |tag: &str| tag.strip_prefix("\"v")?.strip_suffix('"')?.split('.').next()?.parse().ok();
    Precondition::Version(values(headers, &IF_MATCH).filter_map(version).collect())
}

/// Returns the elements of a list header, from all of its lines.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_names_versions() {
        for (lines, expected) in [
            (vec![], Precondition::None),
            (vec!["*"], Precondition::None),
            (vec!["\"v7\""], Precondition::Version(vec![7])),
            (vec!["\"v7\", \"v8\"", "\"v9\""], Precondition::Version(vec![7, 8, 9])),
            (vec!["\"v7.123\""], Precondition::Version(vec![7])),
            (vec!["W/\"v7\""], Precondition::Version(vec![])),
            (vec!["v7"], Precondition::Version(vec![])),
            (vec![""], Precondition::Version(vec![])),
        ] {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(IF_MATCH, HeaderValue::from_static(line));
            }
            assert_eq!(precondition(&headers), expected, "{lines:?}");
        }
    }
}
