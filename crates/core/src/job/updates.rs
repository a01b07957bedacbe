//! The state of the updates of a pull request, as its job stores it.

use serde::{Deserialize, Serialize};

use crate::ids::Sha;
use crate::time::{Timestamp, micros};

/// The reason why the service does not ask a job to update its pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateStop {
    /// The limit of automatic messages in a day is used up.
    DailyLimit,
    /// The job failed after the last such message, and no person has written since.
    LastFailed,
    /// A reason that a newer version has stored.
    #[serde(other)]
    Unknown,
}

impl UpdateStop {
    /// Returns the reason, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::DailyLimit => "the limit of automatic messages in a day is used up",
            Self::LastFailed => "my last attempt to do so failed",
            Self::Unknown => "a rule of another version of the service prevents it",
        }
    }
}

/// The updates of a job's pull request, as far as decisions depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobUpdates {
    /// The newest commit of the base at the last decision.
    pub base: Sha,
    /// The newest commit of the pull request at the last decision.
    pub head: Sha,
    /// The reason why no message was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<UpdateStop>,
    /// `true` if a message was sent, and no person has written since.
    #[serde(default)]
    pub asked: bool,
    /// The times of the messages of the last day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub automatic: Vec<Timestamp>,
    /// The time of the last decision.
    #[serde(with = "micros")]
    pub at: Timestamp,
}
