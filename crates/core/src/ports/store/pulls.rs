//! The store of pull requests of the built-in code host.

use async_trait::async_trait;

use super::StoreError;
use crate::ids::Sha;
use crate::pull::{Comment, LocalPull, NewComment, NewPull, PullState};
use crate::time::Timestamp;

/// Pull requests of the built-in code host.
#[async_trait]
pub trait PullStore: Send + Sync {
    /// Opens one with the repository's next number; `None` if the head has an open one already.
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError>;

    /// One.
    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError>;

    /// The open one of a branch.
    async fn open_pull_of(&self, repository: String, head: String) -> Result<Option<LocalPull>, StoreError>;

    /// All of a repository, newest first.
    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError>;

    /// Ends an open one; false if it was not open.
    async fn end_pull(
        &self,
        repository: String,
        number: u64,
        state: PullState,
        between: Option<(Sha, Sha)>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Adds a comment, behind the others.
    async fn comment(&self, repository: String, number: u64, comment: NewComment) -> Result<Comment, StoreError>;

    /// The comments on one, oldest first.
    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError>;
}
