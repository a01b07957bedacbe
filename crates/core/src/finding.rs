//! Findings: the results of tests that a person asks for, such as the test of a code host.

use serde::Serialize;

use crate::time::Timestamp;

/// The health of one tested thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The test passed.
    Ok,
    /// Something will not work, or could not be tested.
    Warning,
    /// The tested thing cannot be used.
    Failure,
}

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the test, in a word or two.
    pub check: String,
    /// The health.
    pub health: Health,
    /// The result, and the remedy unless the test passed. For people.
    pub text: String,
    /// The time of the event that the text reports; it is shown after the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Finding {
    /// Returns a finding.
    #[must_use]
    pub fn new(check: &str, health: Health, text: impl Into<String>) -> Self {
        Self { check: check.to_owned(), health, text: text.into(), at: None }
    }

    /// Returns the finding of a test that passed because of an event. The time of the event is shown after the text.
    #[must_use]
    pub fn ok_at(check: &str, text: impl Into<String>, at: Timestamp) -> Self {
        Self { at: Some(at), ..Self::ok(check, text) }
    }

    /// Moves the time of the event to the end of the text, for readers without a clock of their own.
    #[must_use]
    pub fn with_time_in_text(self) -> Self {
        match self.at {
            Some(at) => Self { text: format!("{} at {at}", self.text), at: None, ..self },
            None => self,
        }
    }

    /// Returns the finding of a test that passed.
    #[must_use]
    pub fn ok(check: &str, text: impl Into<String>) -> Self {
        Self::new(check, Health::Ok, text)
    }

    /// Returns the finding of something that will not work, or could not be tested.
    #[must_use]
    pub fn warning(check: &str, text: impl Into<String>) -> Self {
        Self::new(check, Health::Warning, text)
    }

    /// Returns the finding of something that cannot be used.
    #[must_use]
    pub fn failure(check: &str, text: impl Into<String>) -> Self {
        Self::new(check, Health::Failure, text)
    }
}

/// Returns the first finding of something that cannot be used.
#[must_use]
pub fn first_failure(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|finding| finding.health == Health::Failure)
}
