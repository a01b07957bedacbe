//! The checks of pull requests: CI jobs, and commit statuses of other services.
//!
//! 1. When a job pushes a commit to a pull request, the commit is watched ([`CheckWatch`]). Webhooks wake the watch; in
//!    between, the code host is asked at growing intervals.
//! 2. When all checks have finished, [`assess`] returns the result, and the job records it ([`JobChecks`]). The commit is
//!    looked at for the rest of a day, because checks can begin late or be repeated ([`late_look`]).
//! 3. If the project wants failed checks repaired, the job gets a message ([`prompt`]), unless a rule stops it
//!    ([`CheckStop`]). The next push is watched again.

mod assess;
mod check;
mod record;
mod signature;
mod text;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, ProjectId, Sha};
use crate::time::{Timestamp, micros};

pub use assess::{Assessment, assess, compared, counted, late_look, next_look};
pub use record::{Attempt, refusal};
pub(crate) use record::{attempt_began, is_in_day, person_wrote, settled};
pub use signature::signature;
pub use text::{FailedCheck, OtherChecks, prompt, receipt, report, report_marker};

pub use self::check::{Check, CheckState, CommitStatus, OWN_STATUS, StatusState};

/// The time for which a claimed watch is hidden from other processes: the delay after the death of a process.
pub const WATCH_LEASE: Duration = Duration::from_secs(120);

/// The time limit of a look at the checks of a commit. It is shorter than the lease.
pub const WATCH_LIMIT: Duration = Duration::from_secs(100);

/// The delay after a webhook until the checks are read, so that webhooks that arrive together cause one look.
pub const WAKE_DELAY: Duration = Duration::from_secs(5);

/// The longest delay between two looks. A watch that is due later was stored before a clock was set back, and is due
/// now.
pub const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// The maximum number of bytes of a CI log that an agent gets: the end of the log.
pub const LOG_BYTES: usize = 64 << 10;

/// The maximum number of failed checks whose logs and reports an agent gets.
pub const MOST_LOGS: usize = 10;

/// The maximum number of files with logs and reports: two for each check.
pub const MOST_LOG_FILES: usize = 2 * MOST_LOGS;

/// The maximum number of checks of a commit that are stored.
pub const MOST_CHECKS: usize = 100;

/// The folder in the agent's home with the logs of failed checks.
pub const LOG_FOLDER: &str = "ci";

/// A commit whose checks are watched. Each job watches at most one commit: the newest that it has pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckWatch {
    /// The job.
    pub job: JobId,
    /// The project of the job.
    pub project: ProjectId,
    /// The commit.
    pub sha: Sha,
    /// The time of the push.
    pub since: Timestamp,
    /// The time of the next look; `None` if only a webhook causes one.
    pub due_at: Option<Timestamp>,
    /// The number of looks: the fencing token of a claim.
    pub looks: u32,
    /// The checks at the last look, those that failed first.
    pub checks: Vec<Check>,
}

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
