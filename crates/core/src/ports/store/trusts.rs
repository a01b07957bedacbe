//! The store of trusts.

use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::TrustId;
use crate::trust::Trust;

/// Reads trusts. [`super::AdminStore`] changes them.
#[async_trait]
pub trait TrustStore: Send + Sync {
    /// Returns all trusts, oldest first.
    ///
    /// # Errors
    /// The database failed.
    async fn trusts(&self) -> Result<Vec<Trust>, StoreError>;

    /// Finds a trust.
    ///
    /// # Errors
    /// The database failed.
    async fn trust(&self, id: TrustId) -> Result<Option<Trust>, StoreError>;
}
