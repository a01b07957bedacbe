//! How pull requests compare with their bases, on all code hosts.

use async_trait::async_trait;

use crate::code_host::PullRef;
use crate::project::Project;
use crate::pull::compared::Compared;

/// The reason why pull requests cannot be compared with their bases now, for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotCompared(pub String);

/// What a comparison may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A person waits: a repository that this machine does not have is not compared.
    Quick,
    /// Nobody waits, and the comparison is repeated often: a missing repository is fetched, and what the code host has
    /// said about a pull request is used for ten minutes, or longer if the project has many: the code host is asked about
    /// 20 pull requests at most.
    Complete,
}

/// Compares pull requests with their bases.
#[async_trait]
pub trait BaseComparisons: Send + Sync {
    /// Reads the branches of the project's repository, as its code host has them now.
    async fn open(&self, project: &Project, effort: Effort) -> Result<Box<dyn OpenedRepository>, NotCompared>;
}

/// The branches of a repository at one moment.
#[async_trait]
pub trait OpenedRepository: Send + Sync {
    /// Returns how a pull request compares with its base, or the reason why it does not. The branches are those of now;
    /// the code host may have been asked about the pull request, and so about its base, up to a minute ago, or longer
    /// ([`Effort::Complete`]).
    async fn compare(&self, pull: &PullRef) -> Result<Compared, NotCompared>;
}
