//! A check of a commit, and the status that the service sets.

/// The state of a commit status that the service sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusState {
    /// The job is working.
    Pending,
    /// The job has completed.
    Success,
    /// The job has failed.
    Failure,
}

/// A commit status that the service sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// The state.
    pub state: StatusState,
    /// A line of text, at most 140 characters.
    pub description: String,
    /// The page of the job.
    pub url: String,
    /// The branch that the commit was pushed to.
    pub branch: String,
}

/// The state of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The check has not finished.
    Pending,
    /// The check succeeded, or does not prevent a merge.
    Passed,
    /// The check failed.
    Failed,
    /// The check was skipped or canceled.
    Skipped,
    /// The check continues when a person acts: approves a run, starts a manual job, or does what the check asks for.
    Waiting,
    /// The entry does not count in the result, and is shown in words: people without access to the repository can have
    /// written it, or it only says something about the pull request.
    Ignored,
}

impl CheckState {
    /// Returns the state for people, as the end of "the check …".
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Pending => "has not finished",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "was skipped",
            Self::Waiting => "waits for a person",
            Self::Ignored => "does not count as a check",
        }
    }

    /// Returns the nearest state that versions up to 0.9 know. They would refuse a stored check with another one.
    const fn known_before(self) -> Self {
        match self {
            Self::Waiting => Self::Pending,
            Self::Ignored => Self::Skipped,
            known => known,
        }
    }
}

/// A check of a commit: a CI job, or a commit status of another service.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "StoredCheck", into = "StoredCheck")]
pub struct Check {
    /// The name.
    pub name: String,
    /// The state.
    pub state: CheckState,
    /// The page of the check.
    pub url: Option<String>,
    /// A line of text about the result.
    pub summary: Option<String>,
    /// The ID of the CI job whose log can be read; `None` if there is no log.
    pub log: Option<String>,
    /// The ID of the report, which [`Checks::log`] reads as it reads logs: the summary, the text and the annotations of the
    /// check. `None` if there is none.
    pub report: Option<String>,
    /// The result when the check last finished on this commit, passed or failed; `None` before that. The service fills it
    /// in ([`crate::checks::compared`]), because hosts show only the newest attempt.
    pub finished: Option<CheckState>,
    /// `true` if the check both failed and passed on this commit, so that its result says little about the commit. The
    /// service fills it in.
    pub is_flaky: bool,
}

impl Check {
    /// Returns a check with a name and a state, and nothing else.
    #[must_use]
    pub fn new(name: impl Into<String>, state: CheckState) -> Self {
        let name = name.into();
        Self { name, state, url: None, summary: None, log: None, report: None, finished: None, is_flaky: false }
    }
}

impl From<StoredCheck> for Check {
    fn from(stored: StoredCheck) -> Self {
        let StoredCheck { name, state, newer, url, summary, log, report, finished, is_flaky } = stored;
        Self { name, state: newer.unwrap_or(state), url, summary, log, report, finished, is_flaky }
    }
}

/// The form in which a check is stored.
#[derive(serde::Serialize, serde::Deserialize)]
struct StoredCheck {
    name: String,
    state: CheckState,
    /// The state, if older versions do not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    newer: Option<CheckState>,
    url: Option<String>,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    log: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished: Option<CheckState>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_flaky: bool,
}

impl From<Check> for StoredCheck {
    fn from(check: Check) -> Self {
        let Check { name, state, url, summary, log, report, finished, is_flaky } = check;
        let known = state.known_before();
        let newer = (known != state).then_some(state);
        Self { name, state: known, newer, url, summary, log, report, finished, is_flaky }
    }
}

/// The name of the commit status that the service sets. Among the checks of a commit, an entry with this name in the state
/// [`CheckState::Ignored`] says why the host cannot store the status.
pub const OWN_STATUS: &str = "journeyman";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_can_read_stored_checks() {
        for (state, known) in [
            (CheckState::Pending, "pending"),
            (CheckState::Passed, "passed"),
            (CheckState::Failed, "failed"),
            (CheckState::Skipped, "skipped"),
            (CheckState::Waiting, "pending"),
            (CheckState::Ignored, "skipped"),
        ] {
            let check = Check { report: Some("1".to_owned()), is_flaky: true, ..Check::new("test", state) };
            let stored = serde_json::to_value(&check).unwrap();
            assert_eq!(stored["state"], known);
            assert_eq!(serde_json::from_value::<Check>(stored).unwrap(), check);
        }
        let old = serde_json::json!({"name": "test", "state": "failed", "url": null, "summary": "1 failed"});
        let check = Check { summary: Some("1 failed".to_owned()), ..Check::new("test", CheckState::Failed) };
        assert_eq!(serde_json::from_value::<Check>(old).unwrap(), check);
        assert_eq!(serde_json::to_value(Check::new("a", CheckState::Passed)).unwrap().as_object().unwrap().len(), 5);
    }
}
