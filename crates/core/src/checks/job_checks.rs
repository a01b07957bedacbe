//! The state of the checks of a pull request, as its job stores it.

use serde::{Deserialize, Serialize};

use crate::ids::Sha;
use crate::time::{Timestamp, micros};

/// The result of the checks of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// All checks passed.
    Passed,
    /// At least one check failed.
    Failed,
    /// The commit has no checks.
    None,
    /// A check did not finish within a day.
    TimedOut,
}

/// The reason why failed checks are not repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStop {
    /// Another commit was pushed to the branch, so the failure may not be the job's.
    HeadMoved,
    /// The same checks fail on the commit that the branch started from.
    FailsOnBase,
    /// The checks fail as they did before the last attempt.
    SameFailure,
    /// All attempts are used up.
    AttemptsUsed,
    /// The limit of automatic messages in a day is used up.
    DailyLimit,
    /// The job is archived.
    Archived,
    /// The checks have also passed on this commit.
    Flaky,
    /// A reason that a newer version has stored.
    #[serde(other)]
    Unknown,
}

/// The checks of a job's pull request, as far as decisions depend on them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobChecks {
    /// The commit.
    pub sha: Sha,
    /// The result.
    pub result: CheckResult,
    /// The reason why failed checks are not repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<CheckStop>,
    /// `true` if a message was sent to repair the checks of this commit.
    #[serde(default)]
    pub attempted: bool,
    /// The number of attempts since the checks last passed, or a person last sent a message.
    #[serde(default)]
    pub attempts: u32,
    /// The [`signature`] of the failure that the last attempt was to repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The times of the automatic messages of the last day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub automatic: Vec<Timestamp>,
    /// The time of the result.
    #[serde(with = "micros")]
    pub at: Timestamp,
}
