//! The errors that callers get from the proxy, in the form of the provider's own errors.

use http::StatusCode;
use journeyman_core::model::Dialect;
use serde_json::{Value, json};

/// Returns the body of an error.
pub(crate) fn body(dialect: Dialect, status: StatusCode, text: &str) -> Value {
    let kind = match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::PAYMENT_REQUIRED => "billing_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    match dialect {
        Dialect::Anthropic => json!({"type": "error", "error": {"type": kind, "message": text}}),
        Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::Compatible => {
            json!({"error": {"message": text, "type": kind, "param": null, "code": kind}})
        }
        Dialect::Gemini => {
            let name = match status {
                StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
                StatusCode::FORBIDDEN | StatusCode::PAYMENT_REQUIRED => "PERMISSION_DENIED",
                StatusCode::NOT_FOUND => "NOT_FOUND",
                StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
                status if status.is_server_error() => "UNAVAILABLE",
                _ => "INVALID_ARGUMENT",
            };
            json!({"error": {"code": status.as_u16(), "message": text, "status": name}})
        }
        Dialect::Ollama => json!({"error": text}),
    }
}
