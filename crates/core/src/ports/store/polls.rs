//! The store of the schedule of polls.

use async_trait::async_trait;

use super::error::StoreError;
use crate::code_host::HostName;
use crate::ids::ProjectId;
use crate::poll::Poll;
use crate::pull::IndexedPull;
use crate::time::Timestamp;

/// Stores when the repository of each project is polled, and up to where its changes were read.
#[async_trait]
pub trait PollStore: Send + Sync {
    /// Returns the schedule of all projects, by project.
    ///
    /// # Errors
    /// The database failed.
    async fn polls(&self) -> Result<Vec<Poll>, StoreError>;

    /// Returns the row of a project; `None` if its repository is not polled.
    ///
    /// # Errors
    /// The database failed.
    async fn poll_of(&self, project: ProjectId) -> Result<Option<Poll>, StoreError>;

    /// Returns the code hosts of the schedule.
    ///
    /// # Errors
    /// The database failed.
    async fn polled_hosts(&self) -> Result<Vec<HostName>, StoreError>;

    /// Returns the polls of a code host that are due, the longest overdue first. A poll that is due later than
    /// [`LONGEST_DELAY`](crate::poll::LONGEST_DELAY) is due now.
    ///
    /// # Errors
    /// The database failed.
    async fn due_polls(&self, host: HostName, now: Timestamp, limit: usize) -> Result<Vec<Poll>, StoreError>;

    /// Stores the row of a project, whose version is the one after the stored row's; the first version is 1. Returns
    /// false, and stores nothing, if the stored row has another version.
    ///
    /// # Errors
    /// The database failed.
    async fn put_poll(&self, poll: Poll) -> Result<bool, StoreError>;

    /// Removes a project from the schedule.
    ///
    /// # Errors
    /// The database failed.
    async fn remove_poll(&self, project: ProjectId) -> Result<(), StoreError>;

    /// Returns the pull requests of the jobs of a project, oldest first.
    ///
    /// # Errors
    /// The database failed.
    async fn indexed_pulls_in(&self, project: ProjectId) -> Result<Vec<IndexedPull>, StoreError>;

    /// Returns the number of open pull requests of each project that has some.
    ///
    /// # Errors
    /// The database failed.
    async fn open_pulls(&self) -> Result<Vec<(ProjectId, u32)>, StoreError>;

    /// Returns the time of the newest event of a project that a webhook has reported.
    ///
    /// # Errors
    /// The database failed.
    async fn last_hook_at(&self, project: ProjectId) -> Result<Option<Timestamp>, StoreError>;
}
