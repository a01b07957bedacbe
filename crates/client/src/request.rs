//! Requests and their paths.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH};
use serde::Serialize;
use tokio::time::Instant;

use crate::error::Error;

/// The name of the header with the idempotency key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A request to the interface.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// The timeout in place of that of the client.
    pub(crate) timeout: Option<Duration>,
    /// The time that the answer may take in addition to the timeout.
    pub(crate) extra_time: Duration,
    pub(crate) max_retries: Option<u32>,
    /// The time at which repetitions end.
    pub(crate) deadline: Option<Instant>,
    /// `true` if a repetition of this operation has no further effect although it is a change without a key.
    pub(crate) is_harmless: bool,
}

impl Request {
    pub(crate) fn new(method: Method, path: String) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        Self {
            method,
            path,
            query: Vec::new(),
            headers,
            body: None,
            timeout: None,
            extra_time: Duration::ZERO,
            max_retries: None,
            deadline: None,
            is_harmless: false,
        }
    }

    /// Returns `true` if a repetition has no further effect.
    pub(crate) fn is_repeatable(&self) -> bool {
        if matches!(self.method, Method::GET | Method::HEAD) || self.headers.contains_key(IDEMPOTENCY_KEY) {
            return true;
        }
        self.is_harmless
    }

    pub(crate) fn has_precondition(&self) -> bool {
        self.headers.contains_key(IF_MATCH)
    }

    pub(crate) fn set_body(&mut self, body: &impl Serialize) -> Result<(), Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| Error::Invalid(format!("the body: {error}")))?;
        self.body = Some(bytes.into());
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(())
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let invalid = || Error::Invalid(format!("the header {name:?} is invalid"));
        let found = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        if matches!(found.as_str(), "authorization" | "host") {
            return Err(Error::Invalid(format!("the header {name:?} cannot be set; the client sets it")));
        }
        self.headers.insert(found, HeaderValue::from_str(value).map_err(|_| invalid())?);
        Ok(())
    }

    pub(crate) fn set_idempotency_key(&mut self, key: &str) -> Result<(), Error> {
        let value = HeaderValue::from_str(key).ok().filter(|value| value.to_str().is_ok_and(|text| !text.is_empty()));
        let Some(value) = value else {
            return Err(Error::Invalid("the idempotency key must be 1 to 255 ASCII characters".to_owned()));
        };
        self.headers.insert(IDEMPOTENCY_KEY, value);
        Ok(())
    }
}

/// Returns the path with these segments.
pub(crate) fn path(segments: &[&str]) -> Result<String, Error> {
    let mut path = String::new();
    for segment in segments {
        // URL parsers resolve the segments `.` and `..`.
        if matches!(*segment, "" | "." | "..") {
            return Err(Error::Invalid(format!("an ID must not be {segment:?}")));
        }
        path.push('/');
        for byte in segment.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_encoded_as_one_segment() {
        let encoded = path(&["v2", "keys", "../a b?ä"]).expect("a path");
        assert_eq!(encoded, "/v2/keys/..%2Fa%20b%3F%C3%A4");
        for id in ["", ".", ".."] {
            assert!(path(&["v2", id]).is_err(), "{id:?}");
        }
    }

    #[test]
    fn a_change_is_repeatable_only_with_a_key() {
        let mut request = Request::new(Method::POST, "/x".to_owned());
        assert!(!request.is_repeatable());
        assert!(request.set_idempotency_key("a\nb").is_err() && request.set_idempotency_key("").is_err());
        request.set_idempotency_key("k").expect("a key");
        assert!(request.is_repeatable());
    }

    #[test]
    fn the_key_of_the_client_cannot_be_replaced() {
        let mut request = Request::new(Method::GET, "/x".to_owned());
        assert!(request.set_header("Authorization", "Bearer x").is_err());
        request.set_header("If-None-Match", "\"1\"").expect("a header");
    }
}
