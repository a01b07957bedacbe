//! Who calls, and what they can see.

use std::sync::Arc;

use journeyman_core::ids::ProjectId;
use journeyman_core::key::ApiKey;
use journeyman_core::project::Project;

use crate::app::App;
use crate::error::ApiError;

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The key that was shown.
    pub(crate) key: Arc<ApiKey>,
}

impl Caller {
    /// A project's id, if this caller may see it.
    pub(crate) fn visible(&self, project: &str) -> Result<ProjectId, ApiError> {
        let id = project.parse::<ProjectId>().map_err(|_| ApiError::project_not_found())?;
        if self.key.sees(&id) { Ok(id) } else { Err(ApiError::project_not_found()) }
    }

    /// A project, if this caller may see it.
    pub(crate) async fn project(&self, app: &App, project: &str) -> Result<Arc<Project>, ApiError> {
        load(app, self.visible(project)?).await
    }
}

/// A project that the caller may see.
pub(crate) async fn load(app: &App, id: ProjectId) -> Result<Arc<Project>, ApiError> {
    let found = app.known.project(&*app.services.store, id, app.services.engine.now()).await?;
    found.ok_or_else(ApiError::project_not_found)
}
