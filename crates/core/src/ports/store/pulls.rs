//! The store of pull requests of the built-in code host.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::error::StoreError;
use crate::pull::{Comment, CommentState, LocalPull, NewComment, NewPull, PullReviews, PullText};
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

    /// Returns the pull requests of a branch, newest first.
    async fn pulls_of_branch(&self, repository: String, head: String) -> Result<Vec<LocalPull>, StoreError>;

    /// Changes the texts of a pull request; does nothing if it does not exist.
    async fn edit_pull(&self, repository: String, number: u64, text: PullText) -> Result<(), StoreError>;

    /// Returns the pull requests of a repository, newest first.
    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError>;

    /// Deletes all pull requests of a repository with their comments, because the repository is removed.
    async fn remove_pulls(&self, repository: String) -> Result<(), StoreError>;

    /// Returns the comments on a pull request by their numbers, including the drafts of all authors.
    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError>;

    /// Returns the states of the submitted comments on a pull request, by their numbers.
    async fn comment_states(&self, repository: String, number: u64) -> Result<Vec<CommentState>, StoreError>;

    /// Returns the numbers of submitted comments on pull requests, and the verdicts on them, by the numbers of the pull
    /// requests. Those without submitted comments are left out.
    async fn reviews_of_pulls(
        &self,
        repository: String,
        numbers: Vec<u64>,
    ) -> Result<BTreeMap<u64, PullReviews>, StoreError>;

    /// Adds a comment of the service after the existing ones, unless there is one with this marker. Returns its number
    /// on the pull request; `None` if the pull request does not exist.
    async fn comment_once(
        &self,
        repository: String,
        number: u64,
        marker: String,
        comment: NewComment,
    ) -> Result<Option<u64>, StoreError>;
}
