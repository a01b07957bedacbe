//! The reasons why calls fail, and whether another attempt may succeed.

use std::time::Duration;

use http::StatusCode;
use journeyman_core::ports::ModelFailure;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_net::Error as NetError;
use serde_json::Value;

/// The maximum number of characters of a provider's message in a reason.
const MESSAGE_CHARS: usize = 500;

/// Returns the failure for an error that a provider answered; `body` must not contain the key.
pub(crate) fn answered(model: &str, status: StatusCode, body: &str) -> ModelFailure {
    let message = message(body);
    let (code, text, may_pass) = match status.as_u16() {
        // The message is left out, because it may contain parts of the key.
        401 | 403 => (
            ReasonCode::ModelUnauthorized,
            format!(
                "the provider of {model} refused the key (status {status}); set a valid key for the server, or add one \
                 to the project as a secret with the use \"model\""
            ),
            false,
        ),
        429 => (
            ReasonCode::ModelRateLimited,
            format!("the provider of {model} accepts no more calls for now (status {status}): {message}"),
            // A quota that is used up does not come back by waiting.
            !is_quota_used_up(body, &message),
        ),
        408 | 504 => (
            ReasonCode::ModelTimedOut,
            format!("the provider of {model} did not answer in time (status {status}): {message}"),
            true,
        ),
        500.. => {
            (ReasonCode::ModelUnavailable, format!("the provider of {model} failed (status {status}): {message}"), true)
        }
        _ => (
            ReasonCode::ModelRefused,
            format!("the provider of {model} rejected the call (status {status}): {message}"),
            false,
        ),
    };
    ModelFailure { reason: Reason::new(code, text), may_pass }
}

/// Returns whether a provider's error says that a quota is used up. OpenAI says so in the code and the type of the
/// error; the message of other providers with its dialect may be worded differently.
fn is_quota_used_up(body: &str, message: &str) -> bool {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let is_in = |pointer| body.pointer(pointer).and_then(Value::as_str) == Some("insufficient_quota");
    ["/error/code", "/error/type"].into_iter().any(is_in)
        || message.contains("insufficient_quota")
        || message.contains("exceeded your current quota")
}

/// Returns the failure for a provider that could not be reached.
pub(crate) fn unreachable(model: &str, error: &NetError) -> ModelFailure {
    let text = format!("the provider of {model} could not be reached: {error}");
    let code =
        if matches!(error, NetError::Slow(_)) { ReasonCode::ModelTimedOut } else { ReasonCode::ModelUnavailable };
    ModelFailure { reason: Reason::new(code, text), may_pass: !matches!(error, NetError::NoTls(_)) }
}

/// Returns the failure for a provider that sent nothing for too long.
pub(crate) fn silent(model: &str, silence: Duration) -> ModelFailure {
    let text = format!("the provider of {model} sent nothing for {} seconds (model-timeout)", silence.as_secs());
    ModelFailure { reason: Reason::new(ReasonCode::ModelTimedOut, text), may_pass: true }
}

/// Returns the failure for an answer that broke off.
pub(crate) fn cut(model: &str, how: &str) -> ModelFailure {
    let text = format!("the answer of the provider of {model} broke off: {how}");
    ModelFailure { reason: Reason::new(ReasonCode::ModelCut, text), may_pass: true }
}

/// Returns the failure for an error in the middle of an answer.
pub(crate) fn in_answer(model: &str, error: &str) -> ModelFailure {
    let text = format!("the provider of {model} failed in the middle of its answer: {}", message(error));
    ModelFailure { reason: Reason::new(ReasonCode::ModelUnavailable, text), may_pass: true }
}

/// Returns the message of an error in any of the forms of providers, cut to [`MESSAGE_CHARS`].
pub(crate) fn message(body: &str) -> String {
    let found = serde_json::from_str::<Value>(body).ok().and_then(|body| {
        let pointers = ["/error/message", "/message", "/error", "/0/error/message"];
        pointers.iter().find_map(|pointer| body.pointer(pointer)?.as_str().map(str::to_owned))
    });
    let text = found.unwrap_or_else(|| body.trim().to_owned());
    let text = if text.is_empty() { "no message".to_owned() } else { text };
    text.chars().take(MESSAGE_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_their_own_reasons() {
        for (status, code, may_pass) in [
            (401, ReasonCode::ModelUnauthorized, false),
            (403, ReasonCode::ModelUnauthorized, false),
            (429, ReasonCode::ModelRateLimited, true),
            (408, ReasonCode::ModelTimedOut, true),
            (504, ReasonCode::ModelTimedOut, true),
            (500, ReasonCode::ModelUnavailable, true),
            (529, ReasonCode::ModelUnavailable, true),
            (400, ReasonCode::ModelRefused, false),
            (402, ReasonCode::ModelRefused, false),
        ] {
            let failure = answered("a/b", StatusCode::from_u16(status).unwrap(), r#"{"error":{"message":"so"}}"#);
            assert_eq!((failure.reason.code, failure.may_pass), (code, may_pass), "{status}");
            assert!(failure.reason.text.contains(&status.to_string()), "{}", failure.reason.text);
            let is_reported = failure.reason.text.ends_with(": so");
            assert_eq!(is_reported, code != ReasonCode::ModelUnauthorized, "{}", failure.reason.text);
        }
    }

    #[test]
    fn a_quota_that_is_used_up_is_not_asked_again() {
        for (body, may_pass) in [
            (r#"{"error":{"message":"so","type":"insufficient_quota","code":"insufficient_quota"}}"#, false),
            (r#"{"error":{"message":"so","type":"insufficient_quota","code":null}}"#, false),
            (r#"{"error":{"message":"so","type":"requests","code":"insufficient_quota"}}"#, false),
            (r#"{"error":{"message":"You exceeded your current quota, please check your plan"}}"#, false),
            ("insufficient_quota", false),
            (r#"{"error":{"message":"so","type":"requests","code":"rate_limit_exceeded"}}"#, true),
            ("slow down", true),
        ] {
            let failure = answered("a/b", StatusCode::TOO_MANY_REQUESTS, body);
            assert_eq!((failure.reason.code, failure.may_pass), (ReasonCode::ModelRateLimited, may_pass), "{body}");
        }
    }

    #[test]
    fn messages_are_found_in_all_forms_and_bounded() {
        for (body, expected) in [
            (r#"{"type":"error","error":{"type":"x","message":"m"}}"#, "m"),
            (r#"{"error":"m"}"#, "m"),
            (r#"[{"error":{"message":"m"}}]"#, "m"),
            ("<html>\u{0}no", "<html> no"),
            ("", "no message"),
        ] {
            assert_eq!(message(body), expected);
        }
        assert_eq!(message(&"ä".repeat(9000)).chars().count(), MESSAGE_CHARS);
    }
}
