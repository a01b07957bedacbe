//! The form of a template, to create and to edit one.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use journeyman_app::{Answered, Error};
use journeyman_core::template::{self, TemplateSettings};

use super::{done, parsed};
use crate::choices::{Choices, chosen_model};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;

#[derive(Template)]
#[template(path = "template_form.html")]
struct FormPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    /// The ID and the version of the stored template; `None` in the form of a new one.
    current: Option<(String, u64)>,
    settings: TemplateSettings,
    /// The labels, separated by commas.
    labels: String,
    choices: Choices,
    error: Option<String>,
}

impl<'a> FormPage<'a> {
    fn new(
        at: &'a InProject,
        current: Option<(String, u64)>,
        settings: TemplateSettings,
        error: Option<String>,
    ) -> Self {
        let [agent, model] = [&settings.agent, &settings.model].map(|chosen| chosen.as_deref().unwrap_or_default());
        let choices = Choices::of_job(&at.shared, &at.project, agent, model);
        let labels: Vec<&str> = settings.labels.iter().map(String::as_str).collect();
        Self { at, frame: &at.frame, current, labels: labels.join(", "), settings, choices, error }
    }
}

/// Reads the values from a form.
fn settings(fields: &Fields) -> TemplateSettings {
    TemplateSettings {
        name: fields.given("name").unwrap_or_default(),
        description: fields.given("description").unwrap_or_default(),
        prompt: fields.text("prompt"),
        agent: fields.given("agent"),
        model: chosen_model(fields),
        labels: fields.separated("labels").into_iter().collect(),
    }
}

pub(super) async fn new(at: InProject, fields: Fields) -> Response {
    let page = async {
        at.needs_administrator()?;
        rendered(&FormPage::new(&at, None, settings(&fields), None))
    };
    at.answer(page.await)
}

pub(super) async fn create(at: InProject, fields: Fields) -> Response {
    at.answer(created(&at, &fields).await)
}

async fn created(at: &InProject, fields: &Fields) -> Page {
    at.needs_administrator()?;
    let settings = settings(fields);
    let once = fields.once(&format!("template {settings:?}"));
    match at.cases().create_template(&at.caller(), &at.project.id, settings.clone(), once, |_| String::new()).await {
        Ok(Answered::New(_) | Answered::Replayed(_)) => Ok(done(at, "created").into_response()),
        Err(error) => refused(&FormPage::new(at, None, settings, Some(refusal(error)?))),
    }
}

/// Returns the template that a form edits.
async fn stored(at: &InProject, id: &str) -> Result<template::Template, Failure> {
    at.needs_administrator()?;
    Ok(at.cases().template(&at.caller(), &at.project.id, parsed(id)?).await?)
}

pub(super) async fn edit(at: InProject, Path((_, id)): Path<(String, String)>) -> Response {
    let page = async {
        let template = stored(&at, &id).await?;
        rendered(&FormPage::new(&at, Some((template.id.to_string(), template.version)), template.settings, None))
    };
    at.answer(page.await)
}

pub(super) async fn save(at: InProject, Path((_, id)): Path<(String, String)>, fields: Fields) -> Response {
    at.answer(saved(&at, &id, &fields).await)
}

async fn saved(at: &InProject, id: &str, fields: &Fields) -> Page {
    let template = stored(at, id).await?;
    let settings = settings(fields);
    let new = settings.clone();
    let edit = Box::new(move |_: &TemplateSettings| new.clone());
    let changed =
        at.cases().change_template(&at.caller(), &at.project.id, template.id, fields.precondition(), edit).await;
    let text = match changed {
        Ok(_) => return Ok(done(at, "saved").into_response()),
        Err(Error::Admin(refusal)) if refusal.is_version_mismatch() => {
            "Someone has changed the template since you opened this page. Open it again, and repeat the change."
                .to_owned()
        }
        Err(error) => refusal(error)?,
    };
    let current = Some((template.id.to_string(), fields.version(template.version)));
    refused(&FormPage::new(at, current, settings, Some(text)))
}
