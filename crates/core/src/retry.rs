//! The delays between attempts, and the maximum numbers of attempts.

use std::time::Duration;

/// The number of failed attempts after which a message fails, if the causes may be temporary.
pub const MAX_FAILURES: u32 = 3;

/// The maximum number of times that a message is taken over from workers that died. It is higher than [`MAX_FAILURES`],
/// because a message rarely causes a crash of the service, but it is limited, because a message that crashes every
/// worker must not be retried forever.
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

/// The longest possible lease. A lease that ends later was granted before the clock was set back.
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 60);

/// Returns the delay before a message is taken over from the `losses`th worker that died.
#[must_use]
pub fn takeover_delay(losses: u32) -> Duration {
    losses.checked_sub(QUICK_LOSSES).filter(|more| *more > 0).map_or(Duration::ZERO, |more| backoff(more, 999))
}

/// Returns the delay before the next attempt after `failures` failed attempts (1 or more). The full delay doubles from
/// one second to five minutes; `permille` (0 to 999) selects a delay between half of it and all of it. The jitter
/// prevents many jobs that failed together from retrying together.
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
    fn the_delay_doubles_up_to_five_minutes() {
        let full: Vec<_> = (1..=10).map(|n| backoff(n, 999).as_secs()).collect();
        assert_eq!(full, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(backoff(u32::MAX, 999).as_secs(), 300);
    }

    #[test]
    fn the_first_takeovers_are_immediate_and_later_ones_are_delayed() {
        let waits: Vec<_> = (1..=6).map(|losses| takeover_delay(losses).as_secs()).collect();
        assert_eq!(waits, [0, 0, 0, 1, 2, 4]);
        assert_eq!(takeover_delay(MAX_LOSSES), LONGEST_BACKOFF);
    }

    #[test]
    fn jitter_reduces_the_delay_by_at_most_half() {
        assert_eq!(backoff(2, 0), Duration::from_secs(1));
        assert_eq!(backoff(2, 999), Duration::from_secs(2));
    }
}
