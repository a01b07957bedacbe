//! The ID of a project's repository. After a rename, another repository may get the address in the project, and must not
//! get the project's work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use journeyman_core::code_host::HostRepository;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ForgeError, ProjectStore};
use journeyman_core::project::{Project, RepositoryIdentity};

/// The identity of the repository of a project.
pub(crate) struct Identity {
    store: Arc<dyn ProjectStore>,
    project: ProjectId,
    address: String,
    id: Option<String>,
    is_recorded: AtomicBool,
}

impl Identity {
    pub(crate) fn new(project: &Project, store: Arc<dyn ProjectStore>) -> Self {
        let id = project.repository_id().map(str::to_owned);
        let is_recorded = AtomicBool::new(id.is_some());
        Self { store, project: project.id.clone(), address: project.repository.clone(), id, is_recorded }
    }

    /// Returns the ID, if the repository was seen before.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Records a repository that was found, if none was seen before.
    pub(crate) async fn record(&self, found: &HostRepository) -> Result<(), ForgeError> {
        if self.is_recorded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let seen = RepositoryIdentity { address: self.address.clone(), id: found.id.clone() };
        let recorded = self.store.identify_repository(self.project.clone(), seen).await;
        recorded.map_err(|error| ForgeError::Unclear(error.to_string()))?;
        self.is_recorded.store(true, Ordering::Relaxed);
        Ok(())
    }
}
