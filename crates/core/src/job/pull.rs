//! The branch and the pull request of a job.

use serde::{Deserialize, Serialize};

use crate::code_host::HostName;
use crate::ids::Sha;
use crate::pull::PullState;

/// The branch that a job works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Branch {
    /// The name of the branch on the code host, without `refs/heads/`.
    pub name: String,
    /// The number of the branch among the job's branches, from 1.
    pub generation: u32,
    /// The commit that the branch started from.
    pub base: Sha,
    /// The newest commit of the branch, even if it has not been pushed yet.
    pub head: Sha,
    /// The newest commit that is known to be on the code host.
    pub pushed: Option<Sha>,
    /// The repository on its code host; `None` if the host gives repositories no ID, or an older version began the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PullRepository>,
    /// `true` if the code host had the branch before the job worked on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existed: bool,
}

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

/// The repository of a pull request, in the index of pull requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PullRepository {
    /// The code host.
    pub host: HostName,
    /// The ID of the repository on its host, which stays the same when the repository is renamed.
    pub id: String,
}

impl PullRepository {
    /// Returns a repository of the built-in code host, whose ID is its name.
    #[must_use]
    pub fn local(name: &str) -> Self {
        Self { host: HostName::local(), id: name.to_owned() }
    }
}
