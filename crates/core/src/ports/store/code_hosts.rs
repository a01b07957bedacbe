//! The stores of code hosts, and of the index of pull requests.

use async_trait::async_trait;

use super::StoreError;
use crate::code_host::{CodeHost, CodeHostId, HostSecrets};
use crate::ids::JobId;
use crate::job::PullRepository;
use crate::pull::IndexedPull;

/// Reads the code hosts that are defined in the store. [`super::AdminStore`] changes them.
#[async_trait]
pub trait CodeHostStore: Send + Sync {
    /// Returns all code hosts, by ID.
    ///
    /// # Errors
    /// The database failed.
    async fn code_hosts(&self) -> Result<Vec<CodeHost>, StoreError>;

    /// Returns the decrypted secrets of a code host; none if it does not exist.
    ///
    /// # Errors
    /// The database failed, or a secret cannot be decrypted.
    async fn code_host_secrets(&self, id: CodeHostId) -> Result<HostSecrets, StoreError>;
}

/// Reads the index of the pull requests of jobs. Changes of jobs write it ([`crate::job::change::Row::Pull`]).
#[async_trait]
pub trait PullIndex: Send + Sync {
    /// Finds the job of a pull request.
    ///
    /// # Errors
    /// The database failed.
    async fn indexed_pull(&self, repository: PullRepository, number: u64) -> Result<Option<IndexedPull>, StoreError>;

    /// Returns the pull requests of a job, oldest first.
    ///
    /// # Errors
    /// The database failed.
    async fn indexed_pulls_of(&self, job: JobId) -> Result<Vec<IndexedPull>, StoreError>;
}
