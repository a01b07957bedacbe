//! The rate limit: a maximum number of uses in an hour, which begins with the first use.
//!
//! The limit has a fixed window and not a token bucket, because the promise is "100 uses per project per hour": a
//! bucket of 100 tokens would allow nearly 200 uses in the hour after an idle one.

use std::time::Duration;

use crate::time::Timestamp;

/// The length of a window.
pub const WINDOW: Duration = Duration::from_secs(3600);

/// The maximum time by which a window may begin in the future and still count: a machine with a fast clock opened it.
/// The limit is exact for machines whose clocks are within 5 s of the correct time, and so within 10 s of each other. A
/// window that begins later was opened before this machine's clock was set back.
pub const CLOCK_DIFFERENCE: Duration = Duration::from_secs(10);

/// The kind of use that is counted. The stored names must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateKind {
    /// The creation of a job.
    Create,
    /// A message to a job.
    Message,
}

impl RateKind {
    /// Returns the name in the store and in the `RateLimit-Policy` header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Message => "message",
        }
    }
}

/// A window, which begins with its first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The time of the first use.
    pub started_at: Timestamp,
    /// The number of uses.
    pub used: u32,
}

/// The state of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateState {
    /// The maximum number of uses in an hour; 0 means no limit.
    pub limit: u32,
    /// The number of uses that remain in this window.
    pub remaining: u32,
    /// The time until the window ends.
    pub resets_in: Duration,
}

/// Counts one more use. Returns the updated window and the state of the limit.
///
/// # Errors
/// Returns the state of the limit if no use remains in this window.
pub fn charge(window: Option<Window>, limit: u32, now: Timestamp) -> Result<(Window, RateState), RateState> {
    let is_running = |w: &Window| now.since(w.started_at) < WINDOW && w.started_at.since(now) <= CLOCK_DIFFERENCE;
    let running = window.filter(is_running);
    let window = running.unwrap_or(Window { started_at: now, used: 0 });
    let state = |used: u32| RateState {
        limit,
        remaining: limit.saturating_sub(used),
        resets_in: WINDOW.saturating_sub(now.since(window.started_at)),
    };
    if limit != 0 && window.used >= limit {
        return Err(state(window.used));
    }
    let used = window.used.saturating_add(1);
    Ok((Window { used, ..window }, state(used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_000_000_000);

    #[test]
    fn the_limit_holds_until_the_window_ends() {
        let (first, state) = charge(None, 2, START).expect("the first use");
        assert_eq!((first.used, state.remaining), (1, 1));
        let (second, _) = charge(Some(first), 2, START + Duration::from_secs(10)).expect("the second use");
        let refused = charge(Some(second), 2, START + Duration::from_secs(60)).expect_err("the third use");
        assert_eq!(refused, RateState { limit: 2, remaining: 0, resets_in: Duration::from_secs(3540) });
        let (fresh, _) = charge(Some(second), 2, START + WINDOW).expect("an hour later");
        assert_eq!(fresh, Window { started_at: START + WINDOW, used: 1 });
    }

    #[test]
    fn zero_is_no_limit() {
        let full = Window { started_at: START, used: u32::MAX };
        assert!(charge(Some(full), 0, START).is_ok());
    }

    #[test]
    fn a_window_opened_by_a_machine_with_a_fast_clock_counts() {
        let ahead = Window { started_at: START + CLOCK_DIFFERENCE, used: 1 };
        let (second, state) = charge(Some(ahead), 2, START).expect("one is left");
        assert_eq!((second, state.remaining), (Window { used: 2, ..ahead }, 0));
        let refused = charge(Some(second), 2, START).expect_err("none is left");
        assert_eq!(refused.resets_in, WINDOW);
    }

    #[test]
    fn a_window_from_the_future_is_replaced() {
        let future = Window { started_at: START + WINDOW, used: 9 };
        assert_eq!(charge(Some(future), 2, START).map(|(w, _)| w.started_at), Ok(START));
    }
}
