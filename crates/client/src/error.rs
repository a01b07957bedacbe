//! Errors of requests.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::models::ErrorCode;

/// An error of a request. No text of an error contains the API key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument is invalid, so nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// The server could not be reached, or the connection was lost. If the request was not a `GET`, the server may have
    /// carried it out.
    #[error("no answer from {url}: {cause}")]
    Connection {
        /// The URL of the server.
        url: String,
        /// The cause.
        cause: String,
        /// `true` if no connection could be opened, so the request was not sent.
        is_unsent: bool,
        /// `true` if the server did not answer in time.
        is_timeout: bool,
    },
    /// The server refused the request.
    #[error("{0}")]
    Api(Box<ApiError>),
    /// The response does not have the form of the Journeyman API. The URL may belong to another service.
    #[error("{0}")]
    InvalidResponse(String),
    /// A job was still active, or a message had not ended, when the time to wait was over.
    #[error("{0}")]
    WaitTimeout(String),
}

impl Error {
    /// Returns the refusal of the server, if the error is one.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns the status of the response, if the server refused the request.
    pub fn status(&self) -> Option<u16> {
        self.api().map(|refusal| refusal.status)
    }

    /// Returns the stable code of the error, if the server refused the request with one.
    pub fn code(&self) -> Option<&ErrorCode> {
        self.api()?.code.as_ref()
    }
}

/// A refusal of the server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ApiError {
    /// The status of the response.
    pub status: u16,
    /// The stable code of the error; `None` if the answer is not from Journeyman but from a proxy.
    pub code: Option<ErrorCode>,
    /// The reason, in a sentence for people.
    pub message: String,
    /// The ID of the request in the log of the server.
    pub request_id: Option<String>,
    /// The time after which the server suggests another attempt.
    pub retry_after: Option<Duration>,
    /// The body of the response; `null` if it is not JSON.
    pub body: Value,
}

impl std::error::Error for ApiError {}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.as_ref().map_or("no code", ErrorCode::as_str);
        write!(f, "{} ({} {code}", self.message, self.status)?;
        match &self.request_id {
            Some(id) => write!(f, ", request {id})"),
            None => f.write_str(")"),
        }
    }
}

impl ApiError {
    /// Reads the error in a response.
    pub(crate) fn read(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let message = body["error"].as_str().map_or_else(
            || format!("the server responded with {status} and no reason; is it a Journeyman server?"),
            str::to_owned,
        );
        // A proxy may send a date; then the usual delays apply.
        let seconds = header(RETRY_AFTER.as_str()).and_then(|text| text.trim().parse::<u64>().ok());
        Self {
            status,
            code: body["code"].as_str().map(ErrorCode::from),
            message,
            request_id: body["requestId"].as_str().or_else(|| header("x-request-id")).map(str::to_owned),
            retry_after: seconds.map(Duration::from_secs),
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn an_error_has_the_code_and_the_request_id_of_the_body() {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("7"))]);
        let body = br#"{"error":"the job is active","code":"job_busy","requestId":"req_1"}"#;
        let error = ApiError::read(409, &headers, body);
        assert_eq!(error.code, Some(ErrorCode::JobBusy));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(error.to_string(), "the job is active (409 job_busy, request req_1)");
    }

    #[test]
    fn an_answer_of_a_proxy_has_no_code() {
        let error = ApiError::read(502, &HeaderMap::new(), b"<html>");
        assert_eq!((error.code.clone(), error.request_id.clone()), (None, None));
        assert!(error.to_string().contains("502 no code"), "{error}");
    }
}
