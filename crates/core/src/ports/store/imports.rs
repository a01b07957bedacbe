//! The store of imports.

use async_trait::async_trait;

use super::error::StoreError;
use crate::audit::AuditEntry;
use crate::ids::ProjectId;
use crate::import::Import;

/// Stores the last import into the repository of each project ([`crate::import`]).
#[async_trait]
pub trait ImportStore: Send + Sync {
    /// Returns the last import of a project.
    ///
    /// # Errors
    /// The database failed.
    async fn import_of(&self, project: ProjectId) -> Result<Option<Import>, StoreError>;

    /// Stores the row of a project, whose version is the one after the stored row's, and an audit entry in the same
    /// transaction; the first version is 1. Returns false, and stores nothing, if the stored row has another version, or
    /// the project does not exist.
    ///
    /// # Errors
    /// The database failed.
    async fn put_import(&self, import: Import, audit: Option<AuditEntry>) -> Result<bool, StoreError>;
}
