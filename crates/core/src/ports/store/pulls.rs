//! The store of pull requests of the built-in code host.

use async_trait::async_trait;

use super::StoreError;
use crate::pull::{Comment, LocalPull, NewPull};
use crate::time::Timestamp;

/// Stores the pull requests of the built-in code host, and their comments. [`super::AdminStore`] ends them and adds
/// comments.
#[async_trait]
pub trait PullStore: Send + Sync {
    /// Opens a pull request with the repository's next number. Returns `None` if the head already has an open pull
    /// request.
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError>;

    /// Finds a pull request by its number.
    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError>;

    /// Finds the open pull request of a branch.
    async fn open_pull_of(&self, repository: String, head: String) -> Result<Option<LocalPull>, StoreError>;

    /// Returns the pull requests of a repository, newest first.
    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError>;

    /// Returns the comments on a pull request, oldest first.
    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError>;
}
