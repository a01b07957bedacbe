//! Templates.

use async_trait::async_trait;
use journeyman_core::ids::{ProjectId, TemplateId};
use journeyman_core::ports::{StoreError, TemplateStore};
use journeyman_core::template::{Template, name_key};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::ReadError;
use super::rows::collect;
use crate::rows::{self, to_json};

#[async_trait]
impl TemplateStore for SqliteStore {
    async fn templates(&self, project: ProjectId) -> Result<Vec<Template>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM templates WHERE project = ?1 ORDER BY name_key")?;
                collect(&mut query.query([project.as_str()])?, |row| rows::template(row))
            })
            .await
    }

    async fn template(&self, id: TemplateId) -> Result<Option<Template>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM templates WHERE id = ?1")?;
            let mut rows = query.query([id.to_string()])?;
            rows.next()?.map(rows::template).transpose()
        })
    }
}

/// Stores a template.
pub(super) fn put(db: &Connection, template: &Template) -> Result<(), ReadError> {
    db.prepare_cached(
        "INSERT INTO templates (id, project, name_key, settings, created_at, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (id) DO UPDATE SET name_key = ?3, settings = ?4, version = ?6",
    )?
    .execute(params![
        template.id.to_string(),
        template.project.as_str(),
        name_key(&template.settings.name),
        to_json(&template.settings)?,
        template.created_at.as_micros(),
        i64::try_from(template.version).unwrap_or(i64::MAX),
    ])?;
    Ok(())
}
