//! When to try again, and when to give up.

use std::time::Duration;

/// How often a message is tried when the agent or the world fails in a way that may pass.
pub const MAX_FAILURES: u32 = 3;

/// How often a message is taken over from workers that died. More than [`MAX_FAILURES`], because a crash of ours is
/// seldom the message's fault; yet bounded, because a message that kills each worker must not go round for ever.
pub const MAX_LOSSES: u32 = 20;

/// The number of losses after which the next takeover is delayed: a service that crashes at each start must not use up
/// [`MAX_LOSSES`] in a few seconds.
const QUICK_LOSSES: u32 = 3;

const FIRST: Duration = Duration::from_secs(1);

/// The longest delay that [`backoff`] returns.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// The default time for which a message waits for an outage to pass.
pub const OUTAGE_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The default time for which a message waits after a refusal: of a credential, or because a repository does not exist.
pub const REFUSAL_PATIENCE: Duration = Duration::from_secs(30 * 60);

/// The longest possible lease. A lease that ends later was made before the clock was set back.
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 60);

/// Returns the delay before a message is taken over from the `losses`th worker that died.
#[must_use]
pub fn takeover_delay(losses: u32) -> Duration {
    losses.checked_sub(QUICK_LOSSES).filter(|more| *more > 0).map_or(Duration::ZERO, |more| backoff(more, 999))
}

/// The wait before the next attempt after `failures` of them (1 or more): it doubles from one second to five
/// minutes, and between half and all of it is waited, as `permille` (0 to 999) says. The jitter keeps many jobs that
/// failed together from coming back together.
#[must_use]
pub fn backoff(failures: u32, permille: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = FIRST.saturating_mul(1 << doublings).min(LONGEST_BACKOFF);
    full / 2 + (full / 2).saturating_mul(permille.min(999)) / 999
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_ends_at_five_minutes() {
        let full: Vec<_> = (1..=10).map(|n| backoff(n, 999).as_secs()).collect();
        assert_eq!(full, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(backoff(u32::MAX, 999).as_secs(), 300);
    }

    #[test]
    fn the_first_takeovers_are_at_once_and_later_ones_wait() {
        let waits: Vec<_> = (1..=6).map(|losses| takeover_delay(losses).as_secs()).collect();
        assert_eq!(waits, [0, 0, 0, 1, 2, 4]);
        assert_eq!(takeover_delay(MAX_LOSSES), LONGEST_BACKOFF);
    }

    #[test]
    fn jitter_takes_away_at_most_half() {
        assert_eq!(backoff(2, 0), Duration::from_secs(1));
        assert_eq!(backoff(2, 999), Duration::from_secs(2));
    }
}
