//! The pull request of a job.

use serde::{Deserialize, Serialize};

use crate::code_host::{PullRef, PullRepository, PullState};

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pull {
    /// The number at the code host.
    pub number: u64,
    /// The URL of the page.
    pub url: String,
    /// The repository of the pull request; `None` if an older version opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PullRepository>,
    /// The title, as the code host last told it; `None` if an older version opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `true` if it was a draft when the code host was last asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
    /// The state, as the code host last told it.
    #[serde(default)]
    pub state: PullState,
    /// `true` if the job has not opened it, and has not pushed to it yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_untouched: bool,
    /// `true` if it was merged while the job was active, and the job is archived when its work is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archives_job: bool,
}

impl Pull {
    /// Returns whether this is the pull request of a reference.
    #[must_use]
    pub fn is(&self, reference: &PullRef) -> bool {
        self.number == reference.number && self.repository.as_ref() == Some(&reference.repository)
    }

    /// Returns an open pull request that is not in the index.
    #[must_use]
    pub fn new(number: u64, url: impl Into<String>) -> Self {
        Self {
            number,
            url: url.into(),
            repository: None,
            title: None,
            draft: false,
            state: PullState::Open,
            is_untouched: false,
            archives_job: false,
        }
    }

    /// Returns whether this is the same pull request as `other`.
    #[must_use]
    pub fn is_same(&self, other: &Pull) -> bool {
        self.number == other.number && self.repository == other.repository
    }
}
