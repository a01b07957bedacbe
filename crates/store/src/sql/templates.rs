//! Templates.

use async_trait::async_trait;
use journeyman_core::ids::{ProjectId, TemplateId};
use journeyman_core::ports::{StoreError, TemplateStore};
use journeyman_core::resource::{Key, Put, Resource as _};
use journeyman_core::template::Template;

use super::admin::Sealing;
use super::resource::{ResourceTable, statements};
use super::{Database, Row, SqlStore, Statement, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl<B: Database> TemplateStore for SqlStore<B> {
    async fn templates(&self, project: ProjectId) -> Result<Vec<Template>, StoreError> {
        let query = sql!("SELECT * FROM templates WHERE project = $1 ORDER BY name_key", project.as_str());
        self.all(query, rows::template).await
    }

    async fn template(&self, id: TemplateId) -> Result<Option<Template>, StoreError> {
        self.find(sql!("SELECT * FROM templates WHERE id = $1", id.to_string()), rows::template).await
    }
}

impl ResourceTable for Template {
    statements!("templates", of a project, named "name_key");

    fn read(row: &Row) -> Result<Self, StoreError> {
        rows::template(row)
    }

    fn put(Put { resource: template, .. }: &Put<Self>, _: Sealing<'_>) -> Result<Vec<Statement>, StoreError> {
        Ok(vec![sql!(
            "INSERT INTO templates (id, project, name_key, settings, created_at, version)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (id) DO UPDATE SET name_key = $3, settings = $4, version = $6",
            template.id.to_string(),
            template.project.as_str(),
            template.unique_name(),
            to_json(&template.settings)?,
            template.created_at,
            template.version,
        )])
    }
}
