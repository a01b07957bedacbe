//! Projects, which have no secrets here.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ProjectStore, StoreError};
use journeyman_core::project::{Project, RepositoryIdentity};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;

use super::MemoryStore;

impl MemoryStore {
    /// Stores a project, in place of one with the same ID.
    pub fn put_project(&self, project: Project) {
        self.tables().projects.insert(project.id.clone(), project);
    }
}

#[async_trait]
impl ProjectStore for MemoryStore {
    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        Ok(self.tables().projects.get(&id).cloned())
    }

    async fn projects(&self) -> Result<Vec<Project>, StoreError> {
        Ok(self.tables().projects.values().cloned().collect())
    }

    async fn projects_after(&self, after: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let tables = self.tables();
        let rest = tables.projects.values().filter(|project| after.as_ref().is_none_or(|after| project.id > *after));
        Ok(rest.take(limit).cloned().collect())
    }

    async fn secrets(&self, _: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn retired_secrets(&self, _: ProjectId, _: Timestamp) -> Result<Vec<(String, SecretValue)>, StoreError> {
        Ok(Vec::new())
    }

    async fn identify_repository(&self, id: ProjectId, seen: RepositoryIdentity) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let is_new = |project: &&mut Project| project.repository == seen.address && project.repository_id().is_none();
        if let Some(project) = tables.projects.get_mut(&id).filter(is_new) {
            project.identity = Some(seen);
        }
        Ok(())
    }
}
