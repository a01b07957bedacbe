//! Changes of the settings of comments and checks.

use serde::Serialize;

use super::project::{Answers, CheckMode, Resolve, ReviewRequests, Reviews};
use super::values::Change;

/// The treatment of comments and issues on the code host.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommentChanges {
    /// The submitted reviews that become messages; by default, `all`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub reviews: Change<Reviews>,
    /// The name to mention, without `@`; by default, the name of the service's user on the code host, and
    /// `journeyman`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub mention: Change<String>,
    /// The time after the last comment until comments become one message, in seconds; by default, 20, and 0 on the
    /// built-in code host.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub settle_seconds: Change<u32>,
    /// The label that makes a job of an issue; by default, `journeyman`. An empty text means no label.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub issue_label: Change<String>,
    /// What people are told at the code host whose comments led to nothing; by default, `full`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub answers: Change<Answers>,
    /// The people who may ask for a review of a pull request; by default, `write`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub review_requests: Change<ReviewRequests>,
    /// The threads that the service marks as resolved; by default, `never`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub resolve: Change<Resolve>,
}

impl CommentChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `reviews`.
    #[must_use]
    pub fn reviews(mut self, value: impl Into<Change<Reviews>>) -> Self {
        self.reviews = value.into();
        self
    }

    /// Sets `mention`.
    #[must_use]
    pub fn mention(mut self, value: impl Into<Change<String>>) -> Self {
        self.mention = value.into();
        self
    }

    /// Sets `settle_seconds`.
    #[must_use]
    pub fn settle_seconds(mut self, value: impl Into<Change<u32>>) -> Self {
        self.settle_seconds = value.into();
        self
    }

    /// Sets `issue_label`.
    #[must_use]
    pub fn issue_label(mut self, value: impl Into<Change<String>>) -> Self {
        self.issue_label = value.into();
        self
    }

    /// Sets `answers`.
    #[must_use]
    pub fn answers(mut self, value: impl Into<Change<Answers>>) -> Self {
        self.answers = value.into();
        self
    }

    /// Sets `review_requests`.
    #[must_use]
    pub fn review_requests(mut self, value: impl Into<Change<ReviewRequests>>) -> Self {
        self.review_requests = value.into();
        self
    }

    /// Sets `resolve`.
    #[must_use]
    pub fn resolve(mut self, value: impl Into<Change<Resolve>>) -> Self {
        self.resolve = value.into();
        self
    }
}

/// The treatment of the checks of pull requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckChanges {
    /// The reaction to failed checks; by default, `report`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub mode: Change<CheckMode>,
    /// The maximum number of automatic attempts for one pull request; by default, 3.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub attempts: Change<u32>,
    /// The longest time to wait for checks that have not begun, in seconds; by default, 600.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub settle_seconds: Change<u32>,
    /// The names of the checks that count, where `*` stands for any text; by default, all.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub only: Change<Vec<String>>,
    /// The names of the checks that do not count, where `*` stands for any text; by default, none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub ignore: Change<Vec<String>>,
}

impl CheckChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `mode`.
    #[must_use]
    pub fn mode(mut self, value: impl Into<Change<CheckMode>>) -> Self {
        self.mode = value.into();
        self
    }

    /// Sets `attempts`.
    #[must_use]
    pub fn attempts(mut self, value: impl Into<Change<u32>>) -> Self {
        self.attempts = value.into();
        self
    }

    /// Sets `settle_seconds`.
    #[must_use]
    pub fn settle_seconds(mut self, value: impl Into<Change<u32>>) -> Self {
        self.settle_seconds = value.into();
        self
    }

    /// Sets `only`.
    #[must_use]
    pub fn only(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.only = value.into();
        self
    }

    /// Sets `ignore`.
    #[must_use]
    pub fn ignore(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.ignore = value.into();
        self
    }
}
