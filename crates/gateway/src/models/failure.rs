//! How calls fail, told apart: by whose fault, and whether another attempt may go better.

use std::error::Error;
use std::time::Duration;

use http::StatusCode;
use journeyman_core::ports::ModelFailure;
use journeyman_core::run::{Reason, ReasonCode};
use serde_json::Value;

/// Characters of a provider's words that are told.
const TOLD_CHARS: usize = 500;

/// A provider that answered with an error; `said` without any key.
pub(crate) fn answered(model: &str, status: StatusCode, said: &str) -> ModelFailure {
    let said = words(said);
    let (code, text, may_pass) = match status.as_u16() {
        // What it says then may show parts of the key.
        401 | 403 => (
            ReasonCode::ModelUnauthorized,
            format!(
                "the provider of {model} refused the key (status {status}); give the server, or the project as a secret with \
                 the use \"model\", one that is valid for it"
            ),
            false,
        ),
        429 => (
            ReasonCode::ModelRateLimited,
            format!("the provider of {model} takes no more calls for now (status {status}): {said}"),
            // What is used up does not come back by waiting.
            !said.contains("insufficient_quota") && !said.contains("exceeded your current quota"),
        ),
        408 | 504 => (
            ReasonCode::ModelTimedOut,
            format!("the provider of {model} did not answer in time (status {status}): {said}"),
            true,
        ),
        500.. => {
            (ReasonCode::ModelUnavailable, format!("the provider of {model} failed (status {status}): {said}"), true)
        }
        _ => (
            ReasonCode::ModelRefused,
            format!("the provider of {model} did not take the call (status {status}): {said}"),
            false,
        ),
    };
    ModelFailure { reason: Reason::new(code, text), may_pass }
}

/// A provider that could not be reached.
pub(crate) fn unreachable(model: &str, error: &reqwest::Error) -> ModelFailure {
    // The outermost text says nothing but the address.
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = format!("the provider of {model} could not be reached: {cause}");
    let code = if error.is_timeout() { ReasonCode::ModelTimedOut } else { ReasonCode::ModelUnavailable };
    ModelFailure { reason: Reason::new(code, text), may_pass: true }
}

/// One that is reached by https, on a machine that cannot.
pub(crate) fn no_tls(model: &str, why: &str) -> ModelFailure {
    let text = format!(
        "the provider of {model} is reached by https, and the service found no certificates on its machine when it began \
         (apt install ca-certificates, and start it again): {why}"
    );
    ModelFailure { reason: Reason::new(ReasonCode::ModelUnavailable, text), may_pass: false }
}

/// One that said nothing for too long.
pub(crate) fn silent(model: &str, silence: Duration) -> ModelFailure {
    let text = format!("the provider of {model} said nothing for {} seconds", silence.as_secs());
    ModelFailure { reason: Reason::new(ReasonCode::ModelTimedOut, text), may_pass: true }
}

/// One whose answer ended before its end.
pub(crate) fn cut(model: &str, how: &str) -> ModelFailure {
    let text = format!("the answer of the provider of {model} broke off: {how}");
    ModelFailure { reason: Reason::new(ReasonCode::ModelCut, text), may_pass: true }
}

/// One that told of an error in the middle of its answer.
pub(crate) fn told(model: &str, said: &str) -> ModelFailure {
    let text = format!("the provider of {model} failed in the middle of its answer: {}", words(said));
    ModelFailure { reason: Reason::new(ReasonCode::ModelUnavailable, text), may_pass: true }
}

/// The message of an error, in the forms of all providers, cut to a length.
pub(crate) fn words(body: &str) -> String {
    let found = serde_json::from_str::<Value>(body).ok().and_then(|body| {
        let places = ["/error/message", "/message", "/error", "/0/error/message"];
        places.iter().find_map(|place| body.pointer(place)?.as_str().map(str::to_owned))
    });
    let text = found.unwrap_or_else(|| body.trim().to_owned());
    let text = if text.is_empty() { "it says nothing more".to_owned() } else { text };
    text.chars().take(TOLD_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
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
            let is_told = failure.reason.text.ends_with(": so");
            assert_eq!(is_told, code != ReasonCode::ModelUnauthorized, "{}", failure.reason.text);
        }
    }

    #[test]
    fn words_are_found_in_all_forms_and_bounded() {
        for (body, expected) in [
            (r#"{"type":"error","error":{"type":"x","message":"m"}}"#, "m"),
            (r#"{"error":"m"}"#, "m"),
            (r#"[{"error":{"message":"m"}}]"#, "m"),
            ("<html>\u{0}no", "<html> no"),
            ("", "it says nothing more"),
        ] {
            assert_eq!(words(body), expected);
        }
        assert_eq!(words(&"ä".repeat(9000)).chars().count(), TOLD_CHARS);
    }
}
