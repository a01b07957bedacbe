//! Templates of projects.

use reqwest::Method;

use crate::call::Call;
use crate::client::Client;
use crate::models::{ChangeTemplate, CreateTemplate, Template};
use crate::pager::Pager;

/// The operations on templates: prompts of a project that people choose when they create a job.
#[derive(Debug, Clone)]
pub struct Templates {
    pub(crate) client: Client,
}

impl Templates {
    /// Lists the templates of a project, by name.
    pub fn list(&self, project: &str) -> Pager<Template> {
        self.client.list(&["v2", "projects", project, "templates"], "templates")
    }

    /// Creates a template.
    pub fn create(&self, project: &str, template: &CreateTemplate) -> Call<Template> {
        self.client.post(&["v2", "projects", project, "templates"]).json(template)
    }

    /// Returns a template.
    pub fn get(&self, project: &str, template: &str) -> Call<Template> {
        self.client.get(&["v2", "projects", project, "templates", template])
    }

    /// Changes a template. Jobs that were created from it stay as they are.
    pub fn change(&self, project: &str, template: &str, changes: &ChangeTemplate) -> Call<Template> {
        let path = ["v2", "projects", project, "templates", template];
        self.client.call(Method::PATCH, &path).harmless().json(changes)
    }

    /// Deletes a template.
    pub fn delete(&self, project: &str, template: &str) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &["v2", "projects", project, "templates", template]).harmless()
    }
}
