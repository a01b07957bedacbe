//! The store of watched commits.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::checks::{Check, CheckWatch};
use crate::ids::{JobId, ProjectId, Sha};
use crate::time::Timestamp;

/// Claims and ends looks at the checks of commits ([`crate::checks`]). Changes of jobs write the watches
/// ([`crate::job::change::Row::WatchChecks`]).
#[async_trait]
pub trait CheckStore: Send + Sync {
    /// Claims watches that are due, oldest first: hides them from other processes until `now` plus `lease`, and counts a
    /// look.
    ///
    /// # Errors
    /// The database failed.
    async fn claim_watches(&self, now: Timestamp, lease: Duration, limit: usize)
    -> Result<Vec<CheckWatch>, StoreError>;

    /// Ends a look: stores the checks, unless they are `None`, and the time of the next look; `None` if only a webhook
    /// causes one. A webhook that arrived during the look causes another one at its time. Returns false, and changes
    /// nothing, if another process has claimed the watch meanwhile, or the job has pushed another commit.
    ///
    /// # Errors
    /// The database failed.
    async fn end_look(
        &self,
        watch: &CheckWatch,
        checks: Option<Vec<Check>>,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError>;

    /// Makes the watches of a commit due at `at`, unless they are due earlier. Returns their jobs.
    ///
    /// # Errors
    /// The database failed.
    async fn wake_watches(&self, sha: Sha, at: Timestamp) -> Result<Vec<(JobId, ProjectId)>, StoreError>;

    /// Returns the watch of a job.
    ///
    /// # Errors
    /// The database failed.
    async fn watch_of(&self, job: JobId) -> Result<Option<CheckWatch>, StoreError>;
}
