//! Pull requests as references: the repository, the number and the state.

use serde::{Deserialize, Serialize};

use crate::code_host::HostName;

/// The state of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullState {
    /// The pull request is open.
    #[default]
    Open,
    /// The pull request was merged.
    Merged,
    /// The pull request was closed without a merge.
    Closed,
}

impl PullState {
    /// Returns the name on pages and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
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

/// A pull request, by its repository and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRef {
    /// The repository.
    pub repository: PullRepository,
    /// The number.
    pub number: u64,
}
