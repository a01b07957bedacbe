//! Decides which requests are repeated, and when.

use std::time::Duration;

use crate::error::Error;
use crate::models::ErrorCode;

const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(8);
/// The number of doublings after which the longest delay is reached.
const DOUBLINGS: u32 = 4;

/// Returns the delay until the next attempt; `None` if there should be none.
///
/// `attempt` is the number of attempts so far, `longest` the longest `Retry-After` to respect, and `jitter` a random
/// number from 0 to 1.
pub(crate) fn delay(
    error: &Error,
    is_repeatable: bool,
    attempt: u32,
    longest: Duration,
    jitter: f64,
) -> Option<Duration> {
    let full = LONGEST_DELAY.min(FIRST_DELAY * 2_u32.pow(attempt.saturating_sub(1).min(DOUBLINGS)));
    let delay = full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    match error {
        Error::Connection { is_unsent, .. } => (*is_unsent || is_repeatable).then_some(delay),
        Error::Api(refusal) => {
            if refusal.retry_after.is_some_and(|after| after > longest) {
                return None;
            }
            // The server itself sends these only if it has stored nothing.
            let nothing_stored = refusal.status == 429
                || refusal.code == Some(ErrorCode::ChangedMeanwhile)
                || (refusal.status == 503 && refusal.code.is_some());
            let is_temporary = matches!(refusal.status, 502..=504);
            let repeats = nothing_stored || (is_temporary && is_repeatable);
            repeats.then(|| delay.max(refusal.retry_after.unwrap_or_default()))
        }
        _ => None,
    }
}

/// Returns a random number from 0 to 1.
pub(crate) fn jitter() -> f64 {
    // The precision of 32 bits is enough for a delay.
    f64::from(rand::Rng::next_u32(&mut rand::rng())) / f64::from(u32::MAX)
}

/// Returns a new idempotency key.
pub(crate) fn idempotency_key() -> String {
    let mut random = rand::rng();
    format!("{:016x}{:016x}", rand::Rng::next_u64(&mut random), rand::Rng::next_u64(&mut random))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};

    use super::*;
    use crate::error::ApiError;

    const MINUTE: Duration = Duration::from_secs(60);

    fn refused(status: u16, code: &str, after: Option<&'static str>) -> Error {
        let headers = after.map(|after| (RETRY_AFTER, HeaderValue::from_static(after)));
        let body = if code.is_empty() { String::new() } else { format!(r#"{{"error":"x","code":"{code}"}}"#) };
        Error::Api(Box::new(ApiError::read(status, &HeaderMap::from_iter(headers), body.as_bytes())))
    }

    fn lost(is_unsent: bool) -> Error {
        Error::Connection { url: "u".to_owned(), cause: "c".to_owned(), is_unsent, is_timeout: false }
    }

    #[test]
    fn a_request_that_could_take_effect_twice_is_not_repeated() {
        for (error, repeatable, other) in [
            (lost(true), true, true),
            (lost(false), true, false),
            (refused(429, "rate_limited", None), true, true),
            (refused(503, "overloaded", None), true, true),
            (refused(503, "", None), true, false),
            (refused(502, "", None), true, false),
            (refused(504, "outcome_unknown", None), true, false),
            (refused(409, "changed_meanwhile", None), true, true),
            (refused(409, "job_busy", None), false, false),
            (refused(500, "internal", None), false, false),
            (refused(429, "rate_limited", Some("61")), false, false),
            (Error::Invalid("x".to_owned()), false, false),
        ] {
            assert_eq!(delay(&error, true, 1, MINUTE, 0.5).is_some(), repeatable, "{error}");
            assert_eq!(delay(&error, false, 1, MINUTE, 0.5).is_some(), other, "{error}");
        }
    }

    #[test]
    fn delays_grow_to_8_seconds_and_respect_the_server() {
        let delays: Vec<_> = (1..8).filter_map(|attempt| delay(&lost(true), false, attempt, MINUTE, 1.0)).collect();
        assert_eq!(
            delays.iter().map(Duration::as_millis).collect::<Vec<_>>(),
            [500, 1000, 2000, 4000, 8000, 8000, 8000]
        );
        assert_eq!(delay(&lost(true), false, 1, MINUTE, 0.0), Some(Duration::from_millis(250)));
        let asked = delay(&refused(429, "rate_limited", Some("20")), false, 1, MINUTE, 0.0);
        assert_eq!(asked, Some(Duration::from_secs(20)));
    }

    #[test]
    fn idempotency_keys_differ() {
        assert_ne!(idempotency_key(), idempotency_key());
    }
}
