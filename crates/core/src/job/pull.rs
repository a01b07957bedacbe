//! The branch and the pull request of a job.

use serde::{Deserialize, Serialize};

use crate::code_host::PullRepository;
use crate::ids::Sha;

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
