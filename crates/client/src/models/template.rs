//! Templates of projects.

use serde::{Deserialize, Serialize};

use super::values::Change;

/// A prompt of a project that people choose when they create a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Template {
    /// The ID of the template.
    pub id: String,
    /// The name, which no other template of the project has, ignoring case.
    pub name: String,
    /// A note for the people who choose a template.
    pub description: String,
    /// The prompt.
    pub prompt: String,
    /// The agent; `None` means the project's.
    pub agent: Option<String>,
    /// The model; `None` means the project's.
    pub model: Option<String>,
    /// The labels, sorted.
    pub labels: Vec<String>,
    /// The time of creation.
    pub created_at: String,
}

/// A template to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateTemplate {
    /// The name, which no other template of the project may have, ignoring case.
    pub name: String,
    /// A note for the people who choose a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The prompt.
    pub prompt: String,
    /// The agent; by default, the project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model; by default, the project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The labels of the job; a label has no comma.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}

impl CreateTemplate {
    /// Returns the request with its required fields.
    pub fn new(name: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self { name: name.into(), description: None, prompt: prompt.into(), agent: None, model: None, labels: None }
    }

    /// Sets `description`.
    #[must_use]
    pub fn description(mut self, value: impl Into<String>) -> Self {
        self.description = Some(value.into());
        self
    }

    /// Sets `agent`.
    #[must_use]
    pub fn agent(mut self, value: impl Into<String>) -> Self {
        self.agent = Some(value.into());
        self
    }

    /// Sets `model`.
    #[must_use]
    pub fn model(mut self, value: impl Into<String>) -> Self {
        self.model = Some(value.into());
        self
    }

    /// Sets `labels`.
    #[must_use]
    pub fn labels(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.labels = Some(value.into_iter().map(Into::into).collect());
        self
    }
}

/// The changes of a template. Fields that are not given stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeTemplate {
    /// The name, which no other template of the project may have, ignoring case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A note for the people who choose a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The agent; `Change::Reset` means the project's.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub agent: Change<String>,
    /// The model; `Change::Reset` means the project's.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub model: Change<String>,
    /// All labels; those that are left out are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}

impl ChangeTemplate {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `name`.
    #[must_use]
    pub fn name(mut self, value: impl Into<String>) -> Self {
        self.name = Some(value.into());
        self
    }

    /// Sets `description`.
    #[must_use]
    pub fn description(mut self, value: impl Into<String>) -> Self {
        self.description = Some(value.into());
        self
    }

    /// Sets `prompt`.
    #[must_use]
    pub fn prompt(mut self, value: impl Into<String>) -> Self {
        self.prompt = Some(value.into());
        self
    }

    /// Sets `agent`.
    #[must_use]
    pub fn agent(mut self, value: impl Into<Change<String>>) -> Self {
        self.agent = value.into();
        self
    }

    /// Sets `model`.
    #[must_use]
    pub fn model(mut self, value: impl Into<Change<String>>) -> Self {
        self.model = value.into();
        self
    }

    /// Sets `labels`.
    #[must_use]
    pub fn labels(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.labels = Some(value.into_iter().map(Into::into).collect());
        self
    }
}
