//! Projects on hold: something that all jobs of a project need, such as its repository, cannot be used. One job at a
//! time probes it; the other jobs wait without using up attempts.

use serde::{Deserialize, Serialize};

use crate::retry::backoff;
use crate::run::Reason;
use crate::time::{Timestamp, micros};

/// The reason why a project is on hold, and the time of the next probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The cause, as found by the last probe.
    pub reason: Reason,
    /// The step that fails.
    pub cause: HoldCause,
    /// The time since which the cause has existed.
    #[serde(with = "micros")]
    pub since: Timestamp,
    /// The time at which the cause was last seen.
    #[serde(with = "micros")]
    pub seen_at: Timestamp,
    /// The number of probes that found the cause.
    pub attempts: u32,
    /// The time of the next probe.
    #[serde(with = "micros")]
    pub next_probe_at: Timestamp,
}

/// The step that fails while a project is on hold. A run that gets past this step ends the hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldCause {
    /// Reading the repository.
    Fetch,
    /// Publishing to the repository.
    Push,
    /// Calling the project's model.
    Model,
}

/// The failure of a run, caused by something that all jobs of its project need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldFailure {
    /// The cause.
    pub reason: Reason,
    /// The step that failed.
    pub cause: HoldCause,
    /// The time at which the run began.
    pub started_at: Timestamp,
    /// The time at which the run failed.
    pub at: Timestamp,
    /// The jitter of the delay before the next probe (0 to 999).
    pub permille: u32,
}

impl Hold {
    /// Returns the hold after a failure. A run that began before the cause was last seen does not count as a probe and
    /// changes nothing; otherwise many runs that fail together would count as many probes.
    #[must_use]
    pub fn after(before: Option<&Self>, failure: &HoldFailure) -> Self {
        let is_same = |before: &&Self| before.cause == failure.cause && before.reason.code == failure.reason.code;
        let same = before.filter(is_same);
        if let Some(same) = same.filter(|same| failure.started_at < same.seen_at) {
            return same.clone();
        }
        let attempts = same.map_or(0, |same| same.attempts).saturating_add(1);
        Self {
            reason: failure.reason.clone(),
            cause: failure.cause,
            since: same.map_or(failure.at, |same| same.since),
            seen_at: failure.at,
            attempts,
            next_probe_at: failure.at + backoff(attempts, failure.permille),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::ReasonCode;

    const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn failure(code: ReasonCode, started: u64, at: u64) -> HoldFailure {
        let [started_at, at] = [started, at].map(|seconds| START + Duration::from_secs(seconds));
        HoldFailure { reason: Reason::new(code, "away"), cause: HoldCause::Fetch, started_at, at, permille: 999 }
    }

    #[test]
    fn probes_back_off_and_runs_that_fail_together_count_once() {
        let first = Hold::after(None, &failure(ReasonCode::RepositoryUnreachable, 0, 1));
        assert_eq!((first.attempts, first.next_probe_at), (1, START + Duration::from_secs(2)));
        let together = Hold::after(Some(&first), &failure(ReasonCode::RepositoryUnreachable, 0, 5));
        assert_eq!(together, first, "the run began before the hold");
        let probe = Hold::after(Some(&first), &failure(ReasonCode::RepositoryUnreachable, 2, 3));
        assert_eq!((probe.attempts, probe.since), (2, first.since));
        assert_eq!(probe.next_probe_at, START + Duration::from_secs(5));
    }

    #[test]
    fn a_failure_with_another_cause_starts_a_new_hold() {
        let first = Hold::after(None, &failure(ReasonCode::RepositoryUnreachable, 0, 1));
        let other = Hold::after(Some(&first), &failure(ReasonCode::CredentialRefused, 2, 3));
        assert_eq!((other.attempts, other.since), (1, START + Duration::from_secs(3)));
    }
}
