//! The errors of the protocol (specification 1.0, sections 5.4 and 9.5).

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::error::{ApiError, ErrorCode};

const INVALID_PARAMS: i32 = -32602;

/// The domain of the errors that the protocol defines.
const PROTOCOL_DOMAIN: &str = "a2a-protocol.org";

/// The domain of the codes of the HTTP interface.
const OWN_DOMAIN: &str = "journeyman";

/// An error that the protocol defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    VersionNotSupported,
}

impl Kind {
    const fn code(self) -> i32 {
        match self {
            Self::TaskNotFound => -32001,
            Self::TaskNotCancelable => -32002,
            Self::PushNotificationNotSupported => -32003,
            Self::UnsupportedOperation => -32004,
            Self::ContentTypeNotSupported => -32005,
            Self::VersionNotSupported => -32009,
        }
    }

    const fn reason(self) -> &'static str {
        match self {
            Self::TaskNotFound => "TASK_NOT_FOUND",
            Self::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Self::PushNotificationNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Self::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Self::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::VersionNotSupported => "VERSION_NOT_SUPPORTED",
        }
    }
}

/// The failure of a call.
#[derive(Debug)]
pub(super) enum Failure {
    /// The request was refused: the answer is an error of JSON-RPC.
    Refused(RpcError),
    /// The answer has the status and the headers of the HTTP interface: the key does not allow the request, a limit is
    /// used up, or the server failed.
    Http(ApiError),
}

/// An error of JSON-RPC.
#[derive(Debug)]
pub(super) struct RpcError {
    code: i32,
    message: String,
    /// The details, each an object with `@type`.
    details: Vec<Value>,
}

impl Failure {
    /// Returns an error that the protocol defines.
    pub(super) fn of(kind: Kind, text: impl Into<String>) -> Self {
        let details = vec![error_info(kind.reason(), PROTOCOL_DOMAIN)];
        Self::Refused(RpcError { code: kind.code(), message: text.into(), details })
    }

    /// Returns the error for a parameter that is not valid.
    pub(super) fn invalid(field: &str, text: impl Into<String>) -> Self {
        Self::Refused(RpcError::invalid(field, text))
    }

    pub(super) fn task_not_found() -> Self {
        Self::of(Kind::TaskNotFound, "there is no such task")
    }

    pub(super) fn no_push() -> Self {
        let text = "push notifications are not supported; subscribe to the task, or create a webhook of the project";
        Self::of(Kind::PushNotificationNotSupported, text)
    }
}

impl<E: Into<ApiError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let is_refusal = matches!(
            error.status(),
            StatusCode::BAD_REQUEST
                | StatusCode::NOT_FOUND
                | StatusCode::CONFLICT
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNPROCESSABLE_ENTITY
        );
        if !is_refusal {
            return Self::Http(error);
        }
        let problem = error.problem();
        if matches!(problem.code, ErrorCode::JobArchived | ErrorCode::JobBusy) {
            return Self::of(Kind::UnsupportedOperation, problem.text.clone());
        }
        let details = vec![error_info(&problem.code.name().to_ascii_uppercase(), OWN_DOMAIN)];
        Self::Refused(RpcError { code: INVALID_PARAMS, message: problem.text.clone(), details })
    }
}

impl RpcError {
    pub(super) fn invalid(field: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        let message = format!("{field}: {text}");
        let violation = json!({ "field": field, "description": text });
        let details = vec![json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [violation],
        })];
        Self { code: INVALID_PARAMS, message, details }
    }

    pub(super) fn invalid_request(text: &str) -> Self {
        Self { code: -32600, message: format!("the request is not valid: {text}"), details: Vec::new() }
    }

    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        Self { code: -32700, message: format!("the body is not JSON: {error}"), details: Vec::new() }
    }

    pub(super) fn method_not_found(name: &str) -> Self {
        let name: String = name.chars().take(60).collect();
        let hint = if name.contains('/') { "; the methods of A2A 1.0 have names such as SendMessage" } else { "" };
        Self { code: -32601, message: format!("there is no method {name:?}{hint}"), details: Vec::new() }
    }

    #[cfg(test)]
    pub(super) const fn code(&self) -> i32 {
        self.code
    }

    /// Returns the answer to the request with this ID.
    pub(super) fn into_response(self, id: &Value) -> Response {
        let mut error = json!({ "code": self.code, "message": self.message });
        if !self.details.is_empty() {
            error["data"] = Value::Array(self.details);
        }
        Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response()
    }
}

fn error_info(reason: &str, domain: &str) -> Value {
    json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(error: ApiError) -> Option<i32> {
        match Failure::from(error) {
            Failure::Refused(error) => Some(error.code),
            Failure::Http(_) => None,
        }
    }

    #[test]
    fn errors_of_the_interface_become_errors_of_the_protocol_or_keep_their_status() {
        assert_eq!(code(ApiError::project_not_found()), Some(-32602));
        assert_eq!(code(ApiError::new(StatusCode::CONFLICT, ErrorCode::JobArchived, "x")), Some(-32004));
        assert_eq!(code(ApiError::new(StatusCode::CONFLICT, ErrorCode::BranchTaken, "x")), Some(-32602));
        assert_eq!(code(ApiError::forbidden(ErrorCode::ScopeMissing, "x")), None);
        assert_eq!(code(ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited, "x")), None);
        assert_eq!(code(ApiError::away(ErrorCode::Overloaded, "x")), None);
    }
}
