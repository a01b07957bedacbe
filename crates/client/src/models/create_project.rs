//! The creation of projects.

use serde::Serialize;

use super::project_changes::ProjectChanges;

/// A project to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateProject {
    /// The ID of the project.
    pub id: String,
    /// The repository, and the other settings.
    #[serde(flatten)]
    pub settings: ProjectChanges,
}

impl CreateProject {
    /// Returns a project with default settings.
    pub fn new(id: impl Into<String>, repository: impl Into<String>) -> Self {
        Self { id: id.into(), settings: ProjectChanges::new().repository(repository.into()) }
    }

    /// Sets the settings. The repository stays as it is, unless the settings have one.
    #[must_use]
    pub fn settings(mut self, settings: ProjectChanges) -> Self {
        let repository =
            if settings.repository.is_keep() { self.settings.repository } else { settings.repository.clone() };
        self.settings = ProjectChanges { repository, ..settings };
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::models::Change;

    #[test]
    fn the_settings_do_not_replace_the_repository() {
        let settings = ProjectChanges::new().model("m").setup(Change::Reset);
        let project = CreateProject::new("shop", "local:shop").settings(settings);
        let document = serde_json::to_value(&project).expect("a document");
        assert_eq!(document, json!({"id": "shop", "repository": "local:shop", "model": "m", "setup": null}));
    }
}
