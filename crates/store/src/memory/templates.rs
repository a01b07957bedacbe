//! Templates.

use async_trait::async_trait;
use journeyman_core::ids::{ProjectId, TemplateId};
use journeyman_core::ports::{StoreError, TemplateStore};
use journeyman_core::template::{Template, name_key};

use super::MemoryStore;

#[async_trait]
impl TemplateStore for MemoryStore {
    async fn templates(&self, project: ProjectId) -> Result<Vec<Template>, StoreError> {
        let tables = self.tables();
        let mut own: Vec<Template> =
            tables.templates.values().filter(|template| template.project == project).cloned().collect();
        own.sort_by_key(|template| name_key(&template.settings.name));
        Ok(own)
    }

    async fn template(&self, id: TemplateId) -> Result<Option<Template>, StoreError> {
        Ok(self.tables().templates.get(&id).cloned())
    }
}
