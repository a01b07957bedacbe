//! Templates.

use async_trait::async_trait;
use journeyman_core::ids::{ProjectId, TemplateId};
use journeyman_core::ports::{StoreError, TemplateStore};
use journeyman_core::template::{Template, name_key};

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, to_json};

#[async_trait]
impl TemplateStore for PostgresStore {
    async fn templates(&self, project: ProjectId) -> Result<Vec<Template>, StoreError> {
        let query = call!("SELECT * FROM templates WHERE project = $1 ORDER BY name_key", project.to_string());
        let found = self.read(query).await?;
        Ok(found.iter().map(rows::template).collect::<Result<_, PgError>>()?)
    }

    async fn template(&self, id: TemplateId) -> Result<Option<Template>, StoreError> {
        let found = self.read(call!("SELECT * FROM templates WHERE id = $1", id.to_string())).await?;
        Ok(found.first().map(rows::template).transpose()?)
    }
}

/// Returns the statement that stores a template.
pub(super) fn put(template: &Template) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO templates (id, project, name_key, settings, created_at, version) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (id) DO UPDATE SET name_key = $3, settings = $4, version = $6",
        template.id.to_string(),
        template.project.to_string(),
        name_key(&template.settings.name),
        to_json(&template.settings)?,
        template.created_at.as_micros(),
        i64::try_from(template.version).unwrap_or(i64::MAX),
    ))
}
