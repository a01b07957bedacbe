//! The store of templates.

use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::{ProjectId, TemplateId};
use crate::template::Template;

/// Reads templates. [`super::AdminStore`] changes them.
#[async_trait]
pub trait TemplateStore: Send + Sync {
    /// Returns the templates of a project, sorted by [`crate::template::name_key`].
    ///
    /// # Errors
    /// The database failed.
    async fn templates(&self, project: ProjectId) -> Result<Vec<Template>, StoreError>;

    /// Finds a template.
    ///
    /// # Errors
    /// The database failed.
    async fn template(&self, id: TemplateId) -> Result<Option<Template>, StoreError>;
}
