//! The store of resources.

use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::ProjectId;
use crate::resource::Resource;

/// Reads resources of one kind. [`super::AdminStore`] changes them.
#[async_trait]
pub trait ResourceStore<R: Resource>: Send + Sync {
    /// Finds a resource.
    ///
    /// # Errors
    /// The database failed.
    async fn resource(&self, id: R::Id) -> Result<Option<R>, StoreError>;

    /// Returns all resources of a project if they belong to one ([`Resource::IN_PROJECT`]), or else all resources; in the
    /// order in which lists show them.
    ///
    /// # Errors
    /// The database failed.
    async fn resources(&self, project: Option<ProjectId>) -> Result<Vec<R>, StoreError>;
}
