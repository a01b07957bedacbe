//! Responses to requests whose head hyper cannot parse because it is too large or not HTTP. hyper sends a response
//! without a body before the router gets the request. This module replaces it by a response with the JSON error body.

use axum::body::Bytes;
use journeyman_core::time::{Clock, IdGen};
use journeyman_http::{ErrorCode, error_body};

use super::strict_transport;
use crate::system::Machine;

/// The maximum size of a request's head in bytes. A partial head stays in memory until its timeout.
pub(super) const HEAD_BYTES: usize = 64 << 10;

/// Returns the replacement for `bytes` if they are a response that hyper itself creates: a complete head with a client
/// error, and no body. `is_https` tells whether clients reach the service over https.
pub(super) fn answer(bytes: &[u8], is_https: bool) -> Option<Bytes> {
    let head = std::str::from_utf8(bytes).ok()?;
    let status: u16 = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let is_own =
        (400..500).contains(&status) && head.contains("\r\ncontent-length: 0\r\n") && head.ends_with("\r\n\r\n");
    if !is_own {
        return None;
    }
    let (code, text) = match status {
        414 => (ErrorCode::UriTooLong, "the URI is too long; send a shorter one".to_owned()),
        431 => {
            (ErrorCode::HeadersTooLarge, format!("the request line and the headers have more than {HEAD_BYTES} bytes"))
        }
        _ => (ErrorCode::BadRequest, "the request is not valid HTTP".to_owned()),
    };
    let id = format!("req_{}", Machine.uuid(Machine.now()).simple());
    tracing::debug!(id, status, "the head of a request could not be parsed");
    let body = error_body(code, &text, &id);
    let reason = head.lines().next()?;
    let (length, secure) = (body.len(), strict_transport::line(is_https));
    let answer = format!(
        "{reason}\r\nconnection: close\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n\
         x-request-id: {id}\r\n{secure}content-length: {length}\r\n\r\n{body}"
    );
    Some(answer.into())
}
