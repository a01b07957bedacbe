//! The wire format of the templates of projects.

use journeyman_core::template::{self, TemplateSettings};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// A prompt of a project that people choose when they create a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Template {
    /// The ID of the template.
    #[schema(example = "tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    id: String,
    /// The name, which no other template of the project has, ignoring case.
    name: String,
    /// A note for the people who choose a template.
    description: String,
    /// The prompt.
    prompt: String,
    /// The agent; `null` means the project's.
    #[schema(required)]
    agent: Option<String>,
    /// The model; `null` means the project's.
    #[schema(required)]
    model: Option<String>,
    /// The labels, sorted.
    labels: Vec<String>,
    /// The time of creation.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<template::Template> for Template {
    fn from(template: template::Template) -> Self {
        let TemplateSettings { name, description, prompt, agent, model, labels } = template.settings;
        Self {
            id: template.id.to_string(),
            name,
            description,
            prompt,
            agent,
            model,
            labels: labels.into_iter().collect(),
            created_at: template.created_at.to_string(),
        }
    }
}

/// A page of templates.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TemplateList {
    /// The templates, by name.
    pub(crate) templates: Vec<Template>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// A template to create.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CreateTemplate {
    /// The name, which no other template of the project may have, ignoring case.
    #[schema(min_length = 1, max_length = 80)]
    name: String,
    /// A note for the people who choose a template.
    #[serde(default)]
    #[schema(max_length = 200)]
    description: String,
    /// The prompt.
    #[schema(min_length = 1, max_length = 100_000)]
    prompt: String,
    /// The agent; by default, the project's.
    #[schema(min_length = 1, max_length = 200)]
    agent: Option<String>,
    /// The model; by default, the project's.
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    /// The labels of the job; a label has no comma.
    #[serde(default)]
    #[schema(max_items = 20)]
    labels: Vec<String>,
}

impl From<CreateTemplate> for TemplateSettings {
    fn from(new: CreateTemplate) -> Self {
        let CreateTemplate { name, description, prompt, agent, model, labels } = new;
        Self { name, description, prompt, agent, model, labels: labels.into_iter().collect() }
    }
}

/// Distinguishes `null` from an absent field.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// Changes of a template. Fields that are left out stay as they are.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct ChangeTemplate {
    /// The name, which no other template of the project may have, ignoring case.
    #[schema(nullable = false, min_length = 1, max_length = 80)]
    name: Option<String>,
    /// A note for the people who choose a template.
    #[schema(nullable = false, max_length = 200)]
    description: Option<String>,
    /// The prompt.
    #[schema(nullable = false, min_length = 1, max_length = 100_000)]
    prompt: Option<String>,
    /// The agent; `null` means the project's.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    agent: Option<Option<String>>,
    /// The model; `null` means the project's.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    model: Option<Option<String>>,
    /// All labels; those that are left out are removed.
    #[schema(nullable = false, max_items = 20)]
    labels: Option<Vec<String>>,
}

impl ChangeTemplate {
    /// Returns the values after the changes.
    pub(crate) fn apply(&self, known: &TemplateSettings) -> TemplateSettings {
        let (changes, known) = (self.clone(), known.clone());
        TemplateSettings {
            name: changes.name.unwrap_or(known.name),
            description: changes.description.unwrap_or(known.description),
            prompt: changes.prompt.unwrap_or(known.prompt),
            agent: changes.agent.unwrap_or(known.agent),
            model: changes.model.unwrap_or(known.model),
            labels: changes.labels.map_or(known.labels, |labels| labels.into_iter().collect()),
        }
    }
}
