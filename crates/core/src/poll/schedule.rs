//! Decides when a repository is polled again.

use std::time::Duration;

use crate::time::Timestamp;

/// The interval while something happens.
pub const ACTIVE: Duration = Duration::from_secs(60);

/// The interval when nothing happens for some time, and without open pull requests.
pub const QUIET: Duration = Duration::from_secs(600);

/// The interval while webhooks arrive, so that a lost webhook is noticed.
pub const HOOKED: Duration = Duration::from_secs(900);

/// The time after a webhook for which webhooks are expected to arrive.
pub const HOOKS_ARRIVE: Duration = Duration::from_secs(24 * 3600);

/// The longest interval after failures.
const LONGEST: Duration = Duration::from_secs(900);

/// The number of polls in a row that find nothing before the interval grows.
const PATIENCE: u32 = 10;

/// The state of a repository after a poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// `true` if a job has an open pull request.
    pub has_pulls: bool,
    /// The number of polls in a row that found nothing.
    pub quiet: u32,
    /// The number of polls in a row that failed.
    pub failures: u32,
    /// The time of the newest webhook.
    pub hooked_at: Option<Timestamp>,
}

/// Returns the time until the next poll of a repository.
#[must_use]
pub fn interval(activity: Activity, now: Timestamp) -> Duration {
    let Activity { has_pulls, quiet, failures, hooked_at } = activity;
    if failures > 0 {
        return doubled(ACTIVE, failures - 1).min(LONGEST);
    }
    if hooked_at.is_some_and(|at| now.since(at) < HOOKS_ARRIVE) {
        return HOOKED;
    }
    if has_pulls { doubled(ACTIVE, quiet.saturating_sub(PATIENCE)).min(QUIET) } else { QUIET }
}

fn doubled(time: Duration, times: u32) -> Duration {
    time.saturating_mul(1 << times.min(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_depends_on_what_happens() {
        let now = Timestamp::from_micros(1_000_000_000_000);
        let active = Activity { has_pulls: true, ..Activity::default() };
        let quiet = |quiet: u32| Activity { quiet, ..active };
        let failed = |failures: u32| Activity { failures, ..active };
        let hooked = |ago: u64| Activity { hooked_at: Some(now - Duration::from_secs(ago)), ..active };
        for (activity, seconds) in [
            (active, 60),
            (quiet(10), 60),
            (quiet(11), 120),
            (quiet(13), 480),
            (quiet(14), 600),
            (quiet(u32::MAX), 600),
            (Activity::default(), 600),
            (hooked(60), 900),
            (hooked(24 * 3600 - 1), 900),
            (hooked(24 * 3600), 60),
            (failed(1), 60),
            (failed(3), 240),
            (failed(7), 900),
            (failed(u32::MAX), 900),
            (Activity { failures: 2, ..hooked(60) }, 120),
        ] {
            assert_eq!(interval(activity, now), Duration::from_secs(seconds), "{activity:?}");
        }
    }
}
