//! The caller of a request: an API key, or a user of the dashboard.

use journeyman_core::ids::ProjectId;

use crate::error::ApiError;

pub(crate) use journeyman_app::{Actor, Caller};

/// Returns the ID of a project in a path, if the caller may see the project.
pub(crate) fn visible(caller: &Caller, project: &str) -> Result<ProjectId, ApiError> {
    let id = project.parse::<ProjectId>().map_err(|_| ApiError::project_not_found())?;
    caller.needs_project(&id)?;
    Ok(id)
}
