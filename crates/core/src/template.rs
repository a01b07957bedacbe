//! Templates of a project: prompts that people choose when they create a job.
//!
//! The client that creates a job copies the values of a template into its request. A job does not refer to a template, so
//! a change of the template does not affect jobs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{ProjectId, TemplateId};
use crate::job::label::{InvalidLabel, Labels};
use crate::prompt::{InvalidPrompt, check_prompt};
use crate::refusal::ResourceKind;
use crate::resource::Resource;
use crate::time::Timestamp;

/// The maximum number of templates of a project.
pub const MAX_TEMPLATES: usize = 50;

/// The maximum length of a name, in characters.
pub const MAX_NAME_CHARS: usize = 80;

/// The maximum length of a description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 200;

/// The maximum length of the name of an agent or a model, in characters.
pub const MAX_CHOICE_CHARS: usize = 200;

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The ID.
    pub id: TemplateId,
    /// The project whose jobs are created from the template.
    pub project: ProjectId,
    /// The values that a new job gets.
    pub settings: TemplateSettings,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The number of the current version, starting at 1. Every change increases it.
    pub version: u64,
}

impl Resource for Template {
    const KIND: ResourceKind = ResourceKind::Template;
    const LIMIT: usize = MAX_TEMPLATES;
    const IN_PROJECT: bool = true;
    type Id = TemplateId;
    type Secrets = ();
    type Related = ();

    fn id(&self) -> &TemplateId {
        &self.id
    }

    fn project(&self) -> Option<&ProjectId> {
        Some(&self.project)
    }

    fn unique_name(&self) -> String {
        name_key(&self.settings.name)
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn with_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    fn check(&self) -> Result<(), String> {
        self.settings.check().map_err(|error| error.to_string())
    }
}

/// The values of a template, which an administrator chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateSettings {
    /// The name, which no other template of the project has, ignoring case.
    pub name: String,
    /// A note for the people who choose a template.
    #[serde(default)]
    pub description: String,
    /// The prompt.
    pub prompt: String,
    /// The agent; `None` means the project's.
    #[serde(default)]
    pub agent: Option<String>,
    /// The model; `None` means the project's.
    #[serde(default)]
    pub model: Option<String>,
    /// The labels.
    #[serde(default)]
    pub labels: BTreeSet<String>,
}

/// An error in the values of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// The name is empty, is too long, or has other characters.
    #[error(
        "name: must have 1 to {MAX_NAME_CHARS} characters, no control characters, and no space at its beginning or end"
    )]
    Name,
    /// The name has the form of an ID.
    #[error("name: must not begin with \"tpl_\", as IDs do")]
    NameLikeId,
    /// The description is too long.
    #[error("description: can have up to {MAX_DESCRIPTION_CHARS} characters, and no control characters")]
    Description,
    /// The prompt is not valid.
    #[error(transparent)]
    Prompt(#[from] InvalidPrompt),
    /// The name of the agent or the model is not valid.
    #[error("{0}: must have 1 to {MAX_CHOICE_CHARS} characters, and no control characters")]
    Choice(&'static str),
    /// A label is not valid, or there are too many.
    #[error(transparent)]
    Labels(#[from] InvalidLabel),
    /// A label has a comma.
    #[error("labels: {0:?} has a comma, which separates labels in the form for a new job")]
    Comma(String),
}

impl TemplateSettings {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error that names the field.
    pub fn check(&self) -> Result<(), InvalidTemplate> {
        let is_line = |text: &str, most: usize| text.chars().count() <= most && !text.chars().any(char::is_control);
        if self.name.is_empty() || self.name.trim() != self.name || !is_line(&self.name, MAX_NAME_CHARS) {
            return Err(InvalidTemplate::Name);
        }
        // A command can name a template by its name or its ID.
        if name_key(&self.name).starts_with("tpl_") {
            return Err(InvalidTemplate::NameLikeId);
        }
        if !is_line(&self.description, MAX_DESCRIPTION_CHARS) {
            return Err(InvalidTemplate::Description);
        }
        check_prompt(&self.prompt)?;
        for (field, value) in [("agent", &self.agent), ("model", &self.model)] {
            let is_valid = |value: &String| !value.trim().is_empty() && is_line(value, MAX_CHOICE_CHARS);
            if value.as_ref().is_some_and(|value| !is_valid(value)) {
                return Err(InvalidTemplate::Choice(field));
            }
        }
        Labels::new(self.labels.iter().cloned())?;
        match self.labels.iter().find(|label| label.contains(',')) {
            Some(label) => Err(InvalidTemplate::Comma(label.clone())),
            None => Ok(()),
        }
    }
}

/// Returns the form of a name in which two names are compared. Templates are also sorted by it.
#[must_use]
pub fn name_key(name: &str) -> String {
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> TemplateSettings {
        TemplateSettings {
            name: "Fix a bug".to_owned(),
            description: "For the steps of a bug report.".to_owned(),
            prompt: "Fix this bug:\n".to_owned(),
            agent: Some("journeyman".to_owned()),
            model: Some("test/scripted".to_owned()),
            labels: ["bug".to_owned()].into(),
        }
    }

    #[test]
    fn each_invalid_field_is_named() {
        type Change = fn(&mut TemplateSettings);
        let cases: [(Change, &str); 16] = [
            (|s| s.name.clear(), "name: must have"),
            (|s| s.name = " a".to_owned(), "name: must have"),
            (|s| s.name = "a\nb".to_owned(), "name: must have"),
            (|s| s.name = "ä".repeat(MAX_NAME_CHARS + 1), "name: must have"),
            (|s| s.name = "tpl_bug".to_owned(), "name: must not begin"),
            (|s| s.name = "TPL_bug".to_owned(), "name: must not begin"),
            (|s| s.description = "x".repeat(MAX_DESCRIPTION_CHARS + 1), "description:"),
            (|s| s.description = "a\0".to_owned(), "description:"),
            (|s| s.prompt.clear(), "prompt "),
            (|s| s.prompt = "a\0b".to_owned(), "prompt "),
            (|s| s.agent = Some(" ".to_owned()), "agent:"),
            (|s| s.model = Some("a\tb".to_owned()), "model:"),
            (|s| s.model = Some("m".repeat(MAX_CHOICE_CHARS + 1)), "model:"),
            (|s| s.labels = [" a".to_owned()].into(), "labels:"),
            (|s| s.labels = (0..21).map(|number| number.to_string()).collect(), "labels: a job can have at most 20"),
            (|s| s.labels = ["a, b".to_owned()].into(), "labels: \"a, b\" has a comma"),
        ];
        assert_eq!(settings().check(), Ok(()));
        for (number, (change, named)) in cases.into_iter().enumerate() {
            let mut settings = settings();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(named), "case {number}: {error}");
        }
    }

    #[test]
    fn all_values_but_the_name_and_the_prompt_may_be_missing() {
        let stored: TemplateSettings = serde_json::from_str(r#"{"name":"a","prompt":"b"}"#).unwrap();
        assert_eq!(stored.check(), Ok(()));
        assert_eq!((stored.description.as_str(), stored.agent, stored.labels.len()), ("", None, 0));
    }

    #[test]
    fn names_are_compared_ignoring_case() {
        assert_eq!(name_key("Größe ÄNDERN"), name_key("größe ändern"));
        assert_ne!(name_key("a b"), name_key("ab"));
    }
}
