//! The type, content coding, and length of a request's body, and its decompression within limits.

use std::io::Read;

use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use bytes::Bytes;

use crate::error::{ApiError, ErrorCode};

/// The maximum size of a request body in bytes, before and after decompression.
pub(crate) const BODY_BYTES: usize = 1 << 20;

/// The maximum window of Zstandard, as a power of two: 8 MiB, as RFC 8878, section 3.1.1.1.2, recommends. A decoder
/// allocates the window that the data requests.
const ZSTD_WINDOW_LOG: u32 = 23;

/// The content coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Not compressed.
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Coding {
    /// Returns the coding that the headers name.
    ///
    /// # Errors
    /// The coding is not supported, or the headers name more than one.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut named = headers.get_all(CONTENT_ENCODING).iter();
        let coding = named.next().map_or("identity", |value| value.to_str().unwrap_or_default().trim());
        let known = match coding.to_ascii_lowercase().as_str() {
            "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        };
        known.filter(|_| named.next().is_none()).ok_or_else(|| {
            let text = format!("the content encoding {coding:?} is not supported; use gzip, zstd, or none");
            ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::ContentEncodingUnknown, text)
                .with(ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd"))
        })
    }

    /// Returns the decompressed body.
    ///
    /// # Errors
    /// The body is not valid in this coding, or it is too large.
    pub(crate) fn decode(self, body: Bytes) -> Result<Bytes, ApiError> {
        let broken = |error: std::io::Error| {
            let text = format!("the body could not be decompressed with its Content-Encoding: {error}");
            ApiError::bad_request(ErrorCode::BodyBroken, text)
        };
        let decoded = match self {
            Self::Identity => return Ok(body),
            Self::Gzip => limited(flate2::read::MultiGzDecoder::new(&*body)),
            Self::Zstd => zstd::stream::read::Decoder::new(&*body).and_then(|mut decoder| {
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                limited(decoder)
            }),
        };
        let decoded = decoded.map_err(broken)?;
        if decoded.len() > BODY_BYTES { Err(too_large(BODY_BYTES)) } else { Ok(decoded.into()) }
    }
}

/// Decompresses at most one byte more than a body may have, so that the caller can detect that it is too large.
fn limited(decoder: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder.take(BODY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the value of `Content-Length`, in bytes.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the error for a body with more than `most` bytes.
pub(crate) fn too_large(most: usize) -> ApiError {
    let text = format!("the body has more than {most} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::BodyTooLarge, text)
}

/// Returns the error for a body that is not declared to be JSON.
pub(crate) fn not_json() -> ApiError {
    let text = "the body must be JSON: send the header \"Content-Type: application/json\"";
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::ContentTypeNotJson, text)
}

/// Checks that a body is JSON in UTF-8, the only encoding of RFC 8259. A `PATCH` may also have a merge patch (RFC
/// 7396).
///
/// # Errors
/// The content type or the charset is not supported.
pub(crate) fn check_type(request: &Request) -> Result<(), ApiError> {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = value.split(';').map(|part| part.trim().to_ascii_lowercase());
    let essence = parts.next().unwrap_or_default();
    let is_patch = essence == "application/merge-patch+json" && request.method() == Method::PATCH;
    if essence != "application/json" && !is_patch {
        return Err(not_json());
    }
    let charset = parts.find_map(|part| part.strip_prefix("charset=").map(|value| value.trim_matches('"').to_owned()));
    match charset {
        Some(charset) if charset != "utf-8" && charset != "utf8" => {
            let text = format!("the charset {charset:?} is not supported; encode the body in UTF-8");
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::CharsetNotUtf8, text))
        }
        _ => Ok(()),
    }
}

/// Returns the error for a body that could not be read.
pub(crate) fn broken_body(error: &(dyn std::error::Error + 'static), most: usize) -> ApiError {
    if error.is::<http_body_util::LengthLimitError>() {
        return too_large(most);
    }
    ApiError::bad_request(ErrorCode::BodyBroken, "the body could not be read completely")
}
