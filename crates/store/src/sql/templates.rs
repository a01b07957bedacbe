//! Templates.

use journeyman_core::ports::StoreError;
use journeyman_core::resource::{Key, Put, Resource as _};
use journeyman_core::template::Template;

use super::admin::Sealing;
use super::resource::{ResourceTable, statements};
use super::{Row, Statement, sql};
use crate::rows::{self, to_json};

impl ResourceTable for Template {
    statements!("templates", of a project, by "name_key", named "name_key");

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
