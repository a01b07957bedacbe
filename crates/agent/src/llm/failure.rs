//! Classifies failed calls: whether the call may succeed later, and the text for the user.
//!
//! Invariant: an error that the server reports is retried only if the providers document its HTTP status or code as
//! temporary.

use std::error::Error as StdError;
use std::time::Duration;

use serde_json::Value;

use super::retry;
use crate::text;

/// The maximum number of characters of a server's answer that are shown.
const MAX_SHOWN_CHARS: usize = 500;

/// The codes of temporary errors in the middle of a stream.
const TRANSIENT_CODES: [&str; 13] = [
    "overloaded_error",
    "overloaded",
    "rate_limit_error",
    "rate_limit_exceeded",
    "api_error",
    "server_error",
    "internal_server_error",
    "timeout_error",
    "service_unavailable",
    "UNAVAILABLE",
    "INTERNAL",
    "RESOURCE_EXHAUSTED",
    "DEADLINE_EXCEEDED",
];

/// A failed call to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The text for the user; it may still contain the key.
    pub(crate) text: String,
    /// Set if the call may succeed later.
    pub(crate) transient: bool,
    /// Set if the conversation was too long for the model.
    pub(crate) too_long: bool,
    /// The time that the server asks the client to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    /// Returns the failure of a stream that ended before the answer was complete.
    pub(crate) fn ended_early() -> Self {
        Self::transient("the connection to the model ended in the middle of an answer".to_owned())
    }

    /// Classifies an error of `genai`. In a stream, a refused call arrives as an error within an error.
    pub(crate) fn of(error: &genai::Error) -> Self {
        let retry_after = error
            .headers()
            .and_then(|headers| headers.get("retry-after"))
            .and_then(|value| value.to_str().ok())
            .and_then(retry::parse_retry_after);
        if let Some(status) = error.status() {
            let body = match error {
                genai::Error::HttpError { body, .. } => body.as_str(),
                _ => "",
            };
            return Self::http(status.as_u16(), body, retry_after);
        }
        match error {
            genai::Error::WebStream { error: inner, .. } => match inner.downcast_ref::<genai::Error>() {
                Some(refused) => Self::of(refused),
                None => Self::transient(format!("the connection to the model failed: {}", with_sources(&**inner))),
            },
            genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
                Self::transient(format!("the connection to the model failed: {webc_error}"))
            }
            genai::Error::ChatResponse { body, .. } => Self::in_stream(body),
            // The responses adapter also reports "response.failed" in this shape.
            genai::Error::StreamParse { serde_error, .. } => {
                Self::transient(format!("the model's server sent an invalid answer: {serde_error}"))
            }
            other => Self::permanent(format!(
                "the model could not be called: {}",
                text::clip(&other.to_string(), MAX_SHOWN_CHARS)
            )),
        }
    }

    fn http(status: u16, body: &str, retry_after: Option<Duration>) -> Self {
        let message = serde_json::from_str::<Value>(body)
            .ok()
            .and_then(|body| message(&body))
            .unwrap_or_else(|| text::clip(body.trim(), MAX_SHOWN_CHARS));
        let hint = match status {
            401 | 403 => " (check the key of the model)",
            404 => " (check the name and the address of the model)",
            _ => "",
        };
        Self {
            text: format!("the model's server answered with status {status}{hint}: {message}"),
            transient: retry::is_transient(status),
            too_long: matches!(status, 400 | 413) && sounds_too_long(body),
            retry_after,
        }
    }

    /// Classifies an error event in a stream that began without an error.
    fn in_stream(body: &Value) -> Self {
        let message = message(body).unwrap_or_else(|| text::clip(&body.to_string(), MAX_SHOWN_CHARS));
        Self {
            text: format!("the model's server failed: {message}"),
            transient: is_transient(body),
            too_long: sounds_too_long(&message),
            retry_after: None,
        }
    }

    fn transient(text: String) -> Self {
        Self { text, transient: true, too_long: false, retry_after: None }
    }

    fn permanent(text: String) -> Self {
        Self { transient: false, ..Self::transient(text) }
    }
}

/// Returns the message in an error body; the providers use different shapes.
fn message(body: &Value) -> Option<String> {
    let found = ["/error/message", "/message", "/error"].iter().find_map(|pointer| body.pointer(pointer)?.as_str())?;
    Some(text::clip(found, MAX_SHOWN_CHARS))
}

fn is_transient(body: &Value) -> bool {
    ["/error/type", "/error/status", "/error/code", "/type", "/status", "/code"]
        .iter()
        .filter_map(|pointer| body.pointer(pointer))
        .any(|code| match code {
            Value::String(code) => TRANSIENT_CODES.contains(&code.as_str()),
            Value::Number(number) => {
                number.as_u64().and_then(|status| u16::try_from(status).ok()).is_some_and(retry::is_transient)
            }
            _ => false,
        })
}

/// Returns whether an error says that the conversation is too long. The providers share no code for this error, so the
/// text decides.
fn sounds_too_long(text: &str) -> bool {
    let text = text.to_lowercase();
    ["context length", "context_length", "context window", "prompt is too long", "too many tokens"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Returns the error with its causes; the outermost text of a connection error says nothing useful.
fn with_sources(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use genai::adapter::AdapterKind;
    use genai::{BoxError, ModelIden};
    use serde_json::json;

    use super::*;

    fn model() -> ModelIden {
        ModelIden::new(AdapterKind::OpenAI, "m")
    }

    fn in_a_stream(error: BoxError) -> Failure {
        Failure::of(&genai::Error::WebStream { model_iden: model(), cause: error.to_string(), error })
    }

    #[test]
    fn a_lost_connection_is_transient() {
        let failure = in_a_stream(Box::new(io::Error::other("reset")));
        assert!(failure.transient);
        assert!(failure.text.contains("reset"), "{}", failure.text);
    }

    #[test]
    fn the_status_decides_and_the_message_is_extracted() {
        let overloaded = Failure::http(529, r#"{"error":{"message":"busy"}}"#, Some(Duration::from_secs(2)));
        assert!(overloaded.transient);
        assert_eq!(overloaded.retry_after, Some(Duration::from_secs(2)));
        assert!(overloaded.text.ends_with("status 529: busy"), "{}", overloaded.text);

        let wrong_key = Failure::http(401, "no", None);
        assert!(!wrong_key.transient);
        assert!(wrong_key.text.contains("key"), "{}", wrong_key.text);

        let long = Failure::http(400, r#"{"error":{"message":"prompt is too long: 9 tokens"}}"#, None);
        assert!(long.too_long && !long.transient);
    }

    #[test]
    fn errors_in_the_stream_are_classified_by_their_code() {
        for (body, transient) in [
            (json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), true),
            (json!({"message": "x", "type": "server_error"}), true),
            (json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}), true),
            (json!({"code": 429, "message": "x"}), true),
            (json!({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}), false),
            (json!({"code": 400, "message": "x"}), false),
        ] {
            let failure = Failure::of(&genai::Error::ChatResponse { model_iden: model(), body: body.clone() });
            assert_eq!(failure.transient, transient, "{body}");
            assert!(failure.text.ends_with(": x"), "{}", failure.text);
        }
    }

    #[test]
    fn other_errors_are_permanent() {
        assert!(!Failure::of(&genai::Error::Internal("x".to_owned())).transient);
    }
}
