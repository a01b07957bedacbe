//! The stores of code hosts, and of the index of pull requests.

use async_trait::async_trait;

use super::error::StoreError;
use super::resources::ResourceStore;
use crate::code_host::{CodeHost, CodeHostId, HostSecrets, PullRepository, PullState};
use crate::ids::{JobId, ProjectId};
use crate::pull::IndexedPull;
use crate::time::Timestamp;

/// Reads the code hosts that are defined in the store. [`super::AdminStore`] changes them.
#[async_trait]
pub trait CodeHostStore: ResourceStore<CodeHost> {
    /// Returns the decrypted secrets of a code host; none if it does not exist.
    ///
    /// # Errors
    /// The database failed, or a secret cannot be decrypted.
    async fn code_host_secrets(&self, id: CodeHostId) -> Result<HostSecrets, StoreError>;
}

/// Selects pull requests of a project on remote code hosts for a page, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFilter {
    /// The project.
    pub project: ProjectId,
    /// The state.
    pub state: PullState,
    /// Only pull requests after this one in the list.
    pub after: Option<PullCursor>,
    /// The maximum number of pull requests.
    pub limit: usize,
}

/// The position of a pull request in the list of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PullCursor {
    /// The time at which the job opened it, or began to work on it.
    pub created_at: Timestamp,
    /// The number in the repository.
    pub number: u64,
}

/// The numbers of pull requests of a project on remote code hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullCounts {
    /// The number of open ones.
    pub open: u64,
    /// The number of merged ones.
    pub merged: u64,
    /// The number of those that were closed without a merge.
    pub closed: u64,
}

impl PullCounts {
    /// Adds pull requests with a state.
    pub const fn add(&mut self, state: PullState, count: u64) {
        let known = match state {
            PullState::Open => &mut self.open,
            PullState::Merged => &mut self.merged,
            PullState::Closed => &mut self.closed,
        };
        *known += count;
    }
}

/// Reads the index of the pull requests of jobs. Changes of jobs write it ([`crate::job::change::Row::Pull`]).
#[async_trait]
pub trait PullIndex: Send + Sync {
    /// Finds the job of a pull request.
    ///
    /// # Errors
    /// The database failed.
    async fn indexed_pull(&self, repository: PullRepository, number: u64) -> Result<Option<IndexedPull>, StoreError>;

    /// Returns the pull requests of these jobs, oldest first.
    ///
    /// # Errors
    /// The database failed.
    async fn indexed_pulls_of(&self, jobs: Vec<JobId>) -> Result<Vec<IndexedPull>, StoreError>;

    /// Returns the pull requests of a project on remote code hosts that match a filter, newest first.
    ///
    /// # Errors
    /// The database failed.
    async fn remote_pulls(&self, filter: PullFilter) -> Result<Vec<IndexedPull>, StoreError>;

    /// Counts the pull requests of a project on remote code hosts.
    ///
    /// # Errors
    /// The database failed.
    async fn count_remote_pulls(&self, project: ProjectId) -> Result<PullCounts, StoreError>;
}
