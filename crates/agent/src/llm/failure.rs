//! What a failed call means: whether it may succeed later, and how to say it.
//!
//! Invariant: only HTTP statuses and error codes that the providers document as passing are tried again.

use std::error::Error as StdError;
use std::time::Duration;

use serde_json::Value;

use super::retry;
use crate::text;

/// The most characters of a server's answer that are shown.
const MAX_SHOWN_CHARS: usize = 500;

/// Codes of errors in the middle of a stream that pass.
const PASSING_CODES: [&str; 13] = [
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

/// Why a call of the model failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// For the user; it may still contain the key.
    pub(crate) text: String,
    /// Whether the call may succeed later.
    pub(crate) transient: bool,
    /// Whether the conversation was too long for the model.
    pub(crate) too_long: bool,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    /// The stream ended before the answer did.
    pub(crate) fn ended_early() -> Self {
        Self::passing("the connection to the model ended in the middle of an answer".to_owned())
    }

    /// Works out what an error of `genai` means. In a stream a refused call arrives as an error within an error.
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
                None => Self::passing(format!("the connection to the model failed: {}", with_sources(&**inner))),
            },
            genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
                Self::passing(format!("the connection to the model failed: {webc_error}"))
            }
            genai::Error::ChatResponse { body, .. } => Self::in_stream(body),
            // The responses adapter also reports "response.failed" in this shape.
            genai::Error::StreamParse { serde_error, .. } => {
                Self::passing(format!("the model's server sent a broken answer: {serde_error}"))
            }
            other => Self::lasting(format!(
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
            401 | 403 => " (is the key of the model right?)",
            404 => " (are the model's name and address right?)",
            _ => "",
        };
        Self {
            text: format!("the model's server answered with status {status}{hint}: {message}"),
            transient: retry::is_transient(status),
            too_long: matches!(status, 400 | 413) && sounds_too_long(body),
            retry_after,
        }
    }

    /// An error event in a stream that began well.
    fn in_stream(body: &Value) -> Self {
        let message = message(body).unwrap_or_else(|| text::clip(&body.to_string(), MAX_SHOWN_CHARS));
        Self {
            text: format!("the model's server failed: {message}"),
            transient: is_passing(body),
            too_long: sounds_too_long(&message),
            retry_after: None,
        }
    }

    fn passing(text: String) -> Self {
        Self { text, transient: true, too_long: false, retry_after: None }
    }

    fn lasting(text: String) -> Self {
        Self { transient: false, ..Self::passing(text) }
    }
}

/// The message in an error body, in the shapes of the providers.
fn message(body: &Value) -> Option<String> {
    let found = ["/error/message", "/message", "/error"].iter().find_map(|pointer| body.pointer(pointer)?.as_str())?;
    Some(text::clip(found, MAX_SHOWN_CHARS))
}

fn is_passing(body: &Value) -> bool {
    ["/error/type", "/error/status", "/error/code", "/type", "/status", "/code"]
        .iter()
        .filter_map(|pointer| body.pointer(pointer))
        .any(|code| match code {
            Value::String(code) => PASSING_CODES.contains(&code.as_str()),
            Value::Number(number) => {
                number.as_u64().and_then(|status| u16::try_from(status).ok()).is_some_and(retry::is_transient)
            }
            _ => false,
        })
}

/// There is no common code for this, only texts.
fn sounds_too_long(text: &str) -> bool {
    let text = text.to_lowercase();
    ["context length", "context_length", "context window", "prompt is too long", "too many tokens"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// The error with what caused it; the outermost text of a connection error says nothing.
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
    fn a_lost_connection_passes() {
        let failure = in_a_stream(Box::new(io::Error::other("reset")));
        assert!(failure.transient);
        assert!(failure.text.contains("reset"), "{}", failure.text);
    }

    #[test]
    fn statuses_decide_and_messages_are_found() {
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
    fn errors_in_the_stream_are_judged_by_their_code() {
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
    fn other_errors_last() {
        assert!(!Failure::of(&genai::Error::Internal("x".to_owned())).transient);
    }
}
