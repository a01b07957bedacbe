//! The header `Strict-Transport-Security` (RFC 6797). Every answer of a service whose public URL is https has it, so that
//! browsers never send a session or a key in plain text. Browsers ignore the header of answers that did not come over
//! https.

use axum::http::header::STRICT_TRANSPORT_SECURITY;
use axum::http::{HeaderMap, HeaderValue};

/// The value: browsers use only https for this host name for a year after each answer. It says nothing about other
/// names below it, which may belong to other services.
const VALUE: &str = "max-age=31536000";

/// Adds the header to an answer, unless the answer has one.
pub(super) fn add(headers: &mut HeaderMap, is_https: bool) {
    if is_https {
        headers.entry(STRICT_TRANSPORT_SECURITY).or_insert(HeaderValue::from_static(VALUE));
    }
}

/// Returns the line of the header with its end, for an answer that is written as text; empty without https.
pub(super) fn line(is_https: bool) -> String {
    if is_https { format!("{STRICT_TRANSPORT_SECURITY}: {VALUE}\r\n") } else { String::new() }
}
