//! The checks of commits on a code host.

use async_trait::async_trait;

use super::error::ForgeError;
use crate::checks::{Check, CommitStatus};
use crate::ids::Sha;

/// The checks of commits on a code host.
#[async_trait]
pub trait Checks: Send + Sync {
    /// Returns the checks of a commit, without the status that the service itself sets.
    async fn of_commit(&self, sha: &Sha) -> Result<Vec<Check>, ForgeError>;

    /// Returns the end of the log of a CI job, at most `limit` bytes; `None` if there is no log.
    async fn log(&self, log: &str, limit: usize) -> Result<Option<Vec<u8>>, ForgeError>;

    /// Sets the commit status of the service.
    async fn set_status(&self, sha: &Sha, status: &CommitStatus) -> Result<(), ForgeError>;
}
