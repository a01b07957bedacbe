//! Projects.

use reqwest::Method;

use crate::call::Call;
use crate::client::Client;
use crate::models::{CreateProject, Finding, Project, ProjectChanges};
use crate::pager::Pager;
use crate::resources::code_hosts::findings;

/// The operations on projects.
#[derive(Debug, Clone)]
pub struct Projects {
    pub(crate) client: Client,
}

impl Projects {
    /// Lists the projects that the key may see.
    pub fn list(&self) -> Pager<Project> {
        self.client.list(&["v2", "projects"], "projects")
    }

    /// Creates a project.
    pub fn create(&self, project: &CreateProject) -> Call<Project> {
        self.client.post(&["v2", "projects"]).json(project)
    }

    /// Returns a project.
    pub fn get(&self, project: &str) -> Call<Project> {
        self.client.get(&["v2", "projects", project])
    }

    /// Changes settings of a project.
    pub fn change(&self, project: &str, changes: &ProjectChanges) -> Call<Project> {
        self.client.call(Method::PATCH, &["v2", "projects", project]).harmless().json(changes)
    }

    /// Deletes a project, which must have no active jobs.
    pub fn delete(&self, project: &str) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &["v2", "projects", project]).harmless()
    }

    /// Checks a project before its creation. Nothing is stored.
    pub fn test_new(&self, project: &CreateProject) -> Call<Vec<Finding>> {
        findings(self.client.call(Method::POST, &["v2", "repository", "test"]).harmless().json(project))
    }

    /// Checks a project with changes that are not stored.
    pub fn test(&self, project: &str, changes: &ProjectChanges) -> Call<Vec<Finding>> {
        findings(self.client.call(Method::POST, &["v2", "projects", project, "test"]).harmless().json(changes))
    }
}
