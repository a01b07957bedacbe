//! The changes of a job's record of its checks.

use std::time::Duration;

use super::job_checks::{CheckResult, CheckStop, JobChecks};
use crate::ids::Sha;
use crate::message::NewMessage;
use crate::time::Timestamp;

/// The time for which automatic messages count.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An attempt to repair failed checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The message to the job.
    pub message: NewMessage,
    /// The [`signature`](super::signature) of the failure.
    pub signature: String,
    /// The maximum number of attempts.
    pub most_attempts: u32,
    /// The maximum number of automatic messages in a day.
    pub most_per_day: u32,
}

/// Returns the reason why an attempt is not made. `in_day` is the number of automatic messages of the job in the last
/// day.
#[must_use]
pub fn refusal(known: Option<&JobChecks>, attempt: &Attempt, in_day: usize) -> Option<CheckStop> {
    if known.is_some_and(|known| known.signature.as_ref() == Some(&attempt.signature)) {
        Some(CheckStop::SameFailure)
    } else if known.map_or(0, |known| known.attempts) >= attempt.most_attempts {
        Some(CheckStop::AttemptsUsed)
    } else if in_day >= usize::try_from(attempt.most_per_day).unwrap_or(usize::MAX) {
        Some(CheckStop::DailyLimit)
    } else {
        None
    }
}

/// Records the result of the checks of a commit.
pub(crate) fn settled(
    known: Option<&JobChecks>,
    report: &CheckReport,
    stop: Option<CheckStop>,
    now: Timestamp,
) -> JobChecks {
    let mut checks = known.cloned().unwrap_or_else(|| empty(&report.sha, report.result, now));
    if checks.sha != report.sha {
        checks.attempted = false;
    }
    checks.sha.clone_from(&report.sha);
    (checks.result, checks.stop, checks.at) = (report.result, stop, now);
    if report.result == super::CheckResult::Passed {
        (checks.attempts, checks.signature) = (0, None);
    }
    checks
}

/// Records that a message was sent to repair the checks.
pub(crate) fn attempt_began(checks: &mut JobChecks, signature: &str, now: Timestamp) {
    checks.attempted = true;
    checks.attempts += 1;
    checks.signature = Some(signature.to_owned());
    checks.automatic.retain(|at| is_in_day(*at, now));
    // The stored times have milliseconds.
    checks.automatic.push(now.start_of_millisecond());
}

/// Records that a person has sent a message, so that the attempts start again.
pub(crate) fn person_wrote(checks: &mut JobChecks) {
    (checks.attempts, checks.signature) = (0, None);
}

/// Returns whether an automatic message of the time `at` counts.
pub(crate) fn is_in_day(at: Timestamp, now: Timestamp) -> bool {
    at + DAY > now
}

fn empty(sha: &Sha, result: super::CheckResult, now: Timestamp) -> JobChecks {
    JobChecks {
        sha: sha.clone(),
        result,
        stop: None,
        attempted: false,
        attempts: 0,
        signature: None,
        automatic: Vec::new(),
        at: now,
    }
}

/// The result of the checks of a commit, to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The commit.
    pub sha: Sha,
    /// The result.
    pub result: CheckResult,
    /// The names of the failed checks.
    pub failed: Vec<String>,
    /// The reaction to failed checks.
    pub reaction: Reaction,
}

/// The reaction to failed checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// The result is recorded.
    Report,
    /// The checks would be repaired, but for this reason they are not.
    Stop(CheckStop),
    /// The message is sent, unless a limit is used up.
    Fix(Box<Attempt>),
}
