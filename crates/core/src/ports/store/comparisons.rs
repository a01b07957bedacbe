//! The store of comparisons of pull requests with their bases.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::code_host::PullRef;
use crate::ids::ProjectId;
use crate::pull::compared::{ComparedPull, DueComparison, EndedComparison, MovedBranch};
use crate::time::Timestamp;

/// Stores how pull requests compare with their bases, and when they are compared again ([`crate::pull::compared`]).
/// Changes of jobs that store an open pull request make its project due at once ([`crate::job::change::Row::Pull`]).
#[async_trait]
pub trait ComparisonStore: Send + Sync {
    /// Adds the projects to the schedule that have open pull requests and are not on it. They are due at once.
    ///
    /// # Errors
    /// The database failed.
    async fn plan_comparisons(&self) -> Result<(), StoreError>;

    /// Makes the projects due at once whose open pull requests a branch concerns: as the branch to merge into or the
    /// branch with the commits, or because the branch to merge into is not known yet. Returns them. On the built-in code
    /// host, each branch concerns all open pull requests of its repository.
    ///
    /// # Errors
    /// The database failed.
    async fn wake_comparisons(&self, moved: MovedBranch) -> Result<Vec<ProjectId>, StoreError>;

    /// Makes a project of the schedule due at once if its last comparison ended before `before`, because a person looks
    /// at it.
    ///
    /// # Errors
    /// The database failed.
    async fn refresh_comparison(&self, project: ProjectId, before: Timestamp) -> Result<(), StoreError>;

    /// Claims projects that are due, longest first: hides them from other processes until `now` plus `lease`.
    ///
    /// # Errors
    /// The database failed.
    async fn claim_comparisons(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<DueComparison>, StoreError>;

    /// Stores the results of a claimed project, and when it is due again. An event that arrived after the claim makes it
    /// due at the end of the pause. Returns false, and changes nothing, if another process has claimed it meanwhile, or
    /// the project was deleted.
    ///
    /// # Errors
    /// The database failed.
    async fn end_comparison(&self, due: &DueComparison, end: EndedComparison) -> Result<bool, StoreError>;

    /// Returns the stored comparisons of these pull requests, in any order.
    ///
    /// # Errors
    /// The database failed.
    async fn comparisons(&self, pulls: Vec<PullRef>) -> Result<Vec<ComparedPull>, StoreError>;

    /// Returns all stored comparisons of a project, in any order.
    ///
    /// # Errors
    /// The database failed.
    async fn comparisons_in(&self, project: ProjectId) -> Result<Vec<ComparedPull>, StoreError>;
}
