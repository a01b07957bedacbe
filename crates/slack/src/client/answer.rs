//! The answers of Slack, and its error codes.

use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use journeyman_core::ports::SlackError;
use serde_json::Value;

/// The time to wait if Slack does not say how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// Reads the answer to a call.
pub(super) fn read(method: &str, answer: &Response<Bytes>) -> Result<Value, SlackError> {
    let wait = || {
        let seconds = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        SlackError::RateLimited(seconds.map_or(DEFAULT_WAIT, Duration::from_secs))
    };
    if answer.status() == StatusCode::TOO_MANY_REQUESTS {
        return Err(wait());
    }
    let body: Option<Value> = serde_json::from_slice(answer.body()).ok();
    let Some(body) = body.filter(|_| answer.status().is_success()) else {
        return Err(SlackError::Unavailable(format!("{method}: Slack answered {}", answer.status())));
    };
    if body["ok"] == true {
        return Ok(body);
    }
    match body["error"].as_str().unwrap_or("unknown_error") {
        "ratelimited" | "rate_limited" => Err(wait()),
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "team_added_to_org"
        | "org_login_required" => Err(SlackError::Unavailable(format!("{method}: {}", body["error"]))),
        code => Err(refusal(method, code)),
    }
}

/// Returns the error for a code, with what to do. An administrator can repair errors of the token, the scopes and the
/// members of a channel, so such a request is worth another attempt.
fn refusal(method: &str, code: &str) -> SlackError {
    let code: String = code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
    let (can_be_repaired, advice) = match code.as_str() {
        "not_authed" | "invalid_auth" | "account_inactive" | "token_revoked" | "token_expired" => {
            (true, "the token is no longer valid; install the app again, and set the new token")
        }
        "missing_scope" | "not_allowed_token_type" => {
            (true, "the app lacks a scope; compare its scopes with the manifest, and install it again")
        }
        // Slack does not reveal to a bot that is not a member that a private channel exists.
        "not_in_channel" | "channel_not_found" | "no_permission" => {
            (true, "the bot is not in the channel; invite it there")
        }
        "access_denied"
        | "accesslimited"
        | "ekm_access_denied"
        | "team_access_not_granted"
        | "two_factor_setup_required" => (
            true,
            "a setting of the workspace denies access to the app; an administrator of the workspace can allow it",
        ),
        "restricted_action" | "restricted_action_read_only_channel" | "restricted_action_thread_locked" => {
            (true, "a setting of the workspace forbids posts to this channel")
        }
        "is_archived" => (false, "the channel is archived"),
        "thread_not_found" | "message_not_found" => (false, "the message was deleted"),
        _ => (false, "see the description of the method at docs.slack.dev"),
    };
    let text = format!("Slack refused {method} ({code}): {advice}");
    if can_be_repaired { SlackError::Repairable(text) } else { SlackError::Refused(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Response<Bytes> {
        let answer = Response::builder().status(status).header(RETRY_AFTER, "7");
        answer.body(Bytes::from(body.to_owned())).unwrap()
    }

    fn read_one(status: u16, body: &str) -> Result<Value, SlackError> {
        read("chat.postMessage", &answer(status, body))
    }

    #[test]
    fn an_answer_says_whether_another_attempt_may_succeed() {
        assert!(read_one(200, r#"{"ok":true,"ts":"1.0"}"#).is_ok());
        let limited = Err(SlackError::RateLimited(Duration::from_secs(7)));
        assert_eq!(read_one(429, ""), limited);
        assert_eq!(read_one(200, r#"{"ok":false,"error":"ratelimited"}"#), limited);
        for (status, body) in [(500, ""), (200, "<html>"), (200, r#"{"ok":false,"error":"internal_error"}"#)] {
            assert!(matches!(read_one(status, body), Err(SlackError::Unavailable(_))), "{status} {body}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do_and_whether_that_helps_the_same_request() {
        for (code, can_be_repaired, advice) in [
            ("invalid_auth", true, "install the app again"),
            ("account_inactive", true, "install the app again"),
            ("token_revoked", true, "install the app again"),
            ("missing_scope", true, "lacks a scope"),
            ("not_in_channel", true, "invite it there"),
            ("channel_not_found", true, "invite it there"),
            ("restricted_action", true, "forbids posts"),
            ("is_archived", false, "is archived"),
            ("message_not_found", false, "was deleted"),
            ("msg_too_long", false, "docs.slack.dev"),
        ] {
            let error = read_one(200, &format!(r#"{{"ok":false,"error":"{code}"}}"#)).unwrap_err();
            assert_eq!(matches!(error, SlackError::Repairable(_)), can_be_repaired, "{code}: {error:?}");
            assert_eq!(matches!(error, SlackError::Refused(_)), !can_be_repaired, "{code}: {error:?}");
            let text = error.to_string();
            assert!(text.contains(code) && text.contains(advice), "{text}");
        }
    }
}
