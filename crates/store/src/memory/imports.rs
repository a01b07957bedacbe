//! Imports into the repositories of projects.

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::ProjectId;
use journeyman_core::import::Import;
use journeyman_core::ports::{ImportStore, StoreError};

use super::MemoryStore;

#[async_trait]
impl ImportStore for MemoryStore {
    async fn import_of(&self, project: ProjectId) -> Result<Option<Import>, StoreError> {
        Ok(self.tables().imports.get(&project).cloned())
    }

    async fn put_import(&self, import: Import, audit: Option<AuditEntry>) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let stored = tables.imports.get(&import.project).map_or(0, |stored| stored.version);
        if import.version != stored + 1 || !tables.projects.contains_key(&import.project) {
            return Ok(false);
        }
        tables.imports.insert(import.project.clone(), import);
        if let Some(entry) = audit {
            tables.note(entry);
        }
        Ok(true)
    }
}
