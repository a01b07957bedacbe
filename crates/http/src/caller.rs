//! Who calls, and what they can see.

use std::net::IpAddr;
use std::sync::Arc;

use journeyman_core::ids::{ProjectId, UserId};
use journeyman_core::key::ApiKey;
use journeyman_core::message::Origin;
use journeyman_core::ports::AuditEntry;
use journeyman_core::project::Project;
use journeyman_core::user::{Role, User};

use crate::app::App;
use crate::error::ApiError;

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) who: Who,
    /// Where from.
    pub(crate) address: Option<IpAddr>,
    /// Where what they say comes from.
    pub(crate) origin: Origin,
}

/// A key, or somebody at the dashboard.
#[derive(Debug, Clone)]
pub(crate) enum Who {
    /// The key that was shown.
    Key(Arc<ApiKey>),
    /// Who has signed in.
    User(Arc<User>),
}

impl Caller {
    /// The name that others see.
    pub(crate) fn name(&self) -> &str {
        match &self.who {
            Who::Key(key) => &key.name,
            Who::User(user) => &user.name,
        }
    }

    /// Who it is in the audit log, and as the creator of keys.
    pub(crate) fn id(&self) -> String {
        match &self.who {
            Who::Key(key) => key.id.to_string(),
            Who::User(user) => user.id.to_string(),
        }
    }

    /// The user whose rights they have, if it is somebody's.
    pub(crate) fn owner(&self) -> Option<UserId> {
        match &self.who {
            Who::Key(key) => key.owner,
            Who::User(user) => Some(user.id),
        }
    }

    /// Whether they may see a project.
    pub(crate) fn sees(&self, project: &ProjectId) -> bool {
        match &self.who {
            Who::Key(key) => key.sees(project),
            Who::User(_) => true,
        }
    }

    /// Whether they may manage projects and all keys.
    pub(crate) fn is_administrator(&self) -> bool {
        match &self.who {
            Who::Key(key) => key.projects.is_none(),
            Who::User(user) => user.role == Role::Administrator,
        }
    }

    /// A line of the audit log about what they do.
    pub(crate) fn audit(&self, app: &App, action: &str, subject: impl ToString) -> AuditEntry {
        AuditEntry {
            at: app.services.engine.now(),
            actor: self.id(),
            action: action.to_owned(),
            subject: subject.to_string(),
            address: self.address.map(|address| address.to_string()),
        }
    }

    /// A project's id, if this caller may see it.
    pub(crate) fn visible(&self, project: &str) -> Result<ProjectId, ApiError> {
        let id = project.parse::<ProjectId>().map_err(|_| ApiError::project_not_found())?;
        if self.sees(&id) { Ok(id) } else { Err(ApiError::project_not_found()) }
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
