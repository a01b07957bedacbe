//! The wire format of the checks of a job's pull request.

use journeyman_app::ChecksOfJob;
use journeyman_core::checks;
use journeyman_core::checks::{CheckResult, CheckStop};
use journeyman_core::project::DEFAULT_CHECK_ATTEMPTS;
use serde::Serialize;
use utoipa::ToSchema;

/// The state of a check.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckState {
    /// The check has not finished.
    Pending,
    /// The check succeeded, or does not prevent a merge.
    Passed,
    /// The check failed.
    Failed,
    /// The check was skipped or canceled.
    Skipped,
    /// The check continues when a person acts, such as by an approval. It is no failure, and has not finished.
    Waiting,
    /// The entry does not count in the result, and its summary says why: people without access to the repository can have
    /// written it, or it only says something about the pull request.
    Ignored,
}

impl From<checks::CheckState> for CheckState {
    fn from(state: checks::CheckState) -> Self {
        match state {
            checks::CheckState::Pending => Self::Pending,
            checks::CheckState::Passed => Self::Passed,
            checks::CheckState::Failed => Self::Failed,
            checks::CheckState::Skipped => Self::Skipped,
            checks::CheckState::Waiting => Self::Waiting,
            checks::CheckState::Ignored => Self::Ignored,
        }
    }
}

/// A check of a commit: a CI job, or a commit status of another service.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Check {
    name: String,
    state: CheckState,
    /// The page of the check.
    #[schema(required)]
    url: Option<String>,
    /// A line of text about the result.
    #[schema(required)]
    summary: Option<String>,
    /// `true` if the check both failed and passed on the commit. Flaky checks are not repaired.
    flaky: bool,
}

/// The checks of the newest commit that a job has pushed to its pull request.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobChecks {
    /// The commit; `null` if the job has pushed none to a pull request on a code host with checks.
    #[schema(required)]
    sha: Option<String>,
    /// The result: `passed`, `failed`, `none` (the commit has no checks) or `timed_out`; `null` while the checks have not
    /// finished. New results may be added.
    #[schema(required, value_type = Option<String>)]
    result: Option<CheckResult>,
    /// The time of the result.
    #[schema(required, format = DateTime)]
    settled_at: Option<String>,
    /// The checks when they were last read, those that failed first.
    checks: Vec<Check>,
    /// The reason why failed checks are not repaired: `head_moved`, `fails_on_base`, `same_failure`, `attempts_used`,
    /// `daily_limit`, `archived` or `flaky`. New reasons may be added.
    #[schema(required, value_type = Option<String>)]
    stop: Option<CheckStop>,
    /// The number of messages that were sent to repair checks since they last passed, or a person last sent a message.
    attempts: u32,
    /// The maximum number of attempts.
    most_attempts: u32,
}

impl From<ChecksOfJob> for JobChecks {
    fn from(found: ChecksOfJob) -> Self {
        let ChecksOfJob { watch, settled, attempts, settings } = found;
        let check = |check: checks::Check| Check {
            name: check.name,
            state: check.state.into(),
            url: check.url,
            summary: check.summary,
            flaky: check.is_flaky,
        };
        Self {
            sha: watch.as_ref().map(|watch| watch.sha.to_string()),
            result: settled.as_ref().map(|settled| settled.result),
            settled_at: settled.as_ref().map(|settled| settled.at.to_string()),
            stop: settled.as_ref().and_then(|settled| settled.stop),
            attempts,
            checks: watch.map(|watch| watch.checks.into_iter().map(check).collect()).unwrap_or_default(),
            most_attempts: settings.attempts.unwrap_or(DEFAULT_CHECK_ATTEMPTS),
        }
    }
}
