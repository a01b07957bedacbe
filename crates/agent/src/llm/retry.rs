//! Decides whether and when to retry a failed call.
//!
//! Invariant: a call has at most [`MAX_ATTEMPTS`] attempts, and at most [`MAX_WAIT`] passes between two of them.

use std::time::Duration;

/// The maximum number of attempts for one call.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

/// The longest wait between two attempts, even if the server asks for more.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

/// Returns whether a call with this HTTP status may succeed later: too many requests, overload (529), an error of the
/// server, or a request that did not arrive in time.
pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// Parses a `Retry-After` header that gives seconds; the providers do not use dates.
pub(crate) fn parse_retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Returns the wait after attempt number `attempt`, counted from 1: the time that the server asks for, or 1, 2, 4, 8 …
/// seconds.
pub(crate) fn wait(attempt: u32, retry_after: Option<Duration>) -> Duration {
    let doubling = Duration::from_secs(1_u64 << attempt.saturating_sub(1).min(6));
    retry_after.unwrap_or(doubling).min(MAX_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_only() {
        for (value, expected) in [
            ("0", Some(0)),
            (" 7 ", Some(7)),
            ("3600", Some(3600)),
            ("1.5", None),
            ("-1", None),
            ("Wed, 21 Oct 2026 07:28:00 GMT", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(value), expected.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn waits_double_follow_the_server_and_are_bounded() {
        let seconds: Vec<_> = (1..=4).map(|attempt| wait(attempt, None).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8]);
        assert_eq!(wait(1, Some(Duration::from_secs(9))), Duration::from_secs(9));
        assert_eq!(wait(1, Some(Duration::from_secs(3600))), MAX_WAIT);
        assert_eq!(wait(u32::MAX, None), MAX_WAIT);
    }

    #[test]
    fn only_overload_and_server_errors_are_retried() {
        for status in [408, 429, 500, 502, 503, 529] {
            assert!(is_transient(status), "{status}");
        }
        for status in [200, 400, 401, 403, 404, 413, 422] {
            assert!(!is_transient(status), "{status}");
        }
    }
}
