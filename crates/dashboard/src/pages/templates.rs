//! `/projects/{project}/settings/templates`: the templates of a project, a section of its settings. All who see the
//! project see them; an administrator changes them.

mod form;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::ids::TemplateId;
use journeyman_core::template;

use super::settings::SECTIONS;
use crate::failure::{Failure, Page, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::{Shared, choices, visible};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects/{project}/settings/templates", get(list).post(form::create))
        .route("/projects/{project}/settings/templates/new", get(form::new))
        .route("/projects/{project}/settings/templates/{template}/edit", get(form::edit).post(form::save))
        .route("/projects/{project}/settings/templates/{template}/remove", post(remove))
}

/// The maximum length of the beginning of a prompt in the list, in characters.
const BEGINNING_CHARS: usize = 120;

#[derive(Template)]
#[template(path = "templates.html")]
struct ListPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    section: &'static str,
    sections: [(&'static str, &'static str); 9],
    rows: Vec<Row>,
}

/// A template, for the list.
struct Row {
    id: String,
    name: String,
    /// The description, or the beginning of the prompt.
    text: String,
    /// The agent, the model and the labels that the template sets.
    facts: Vec<String>,
    version: u64,
}

impl Row {
    fn new(at: &InProject, template: &template::Template) -> Self {
        let template::TemplateSettings { name, description, prompt, agent, model, labels } = &template.settings;
        let shown = |text: &str| visible::line(text).into_owned();
        let beginning = || -> String {
            prompt.trim_start().lines().next().unwrap_or_default().chars().take(BEGINNING_CHARS).collect()
        };
        let agent = agent.as_ref().map(|agent| choices::name_of(&at.shared, agent));
        let others = model.iter().chain(labels).map(|fact| shown(fact));
        Self {
            id: template.id.to_string(),
            name: shown(name),
            text: shown(&if description.is_empty() { beginning() } else { description.clone() }),
            facts: agent.into_iter().chain(others).collect(),
            version: template.version,
        }
    }
}

async fn list(at: InProject) -> Response {
    let page = async {
        let templates = at.cases().templates(&at.caller(), &at.project.id).await?;
        let rows = templates.iter().map(|template| Row::new(&at, template)).collect();
        rendered(&ListPage { at: &at, frame: &at, section: "templates", sections: SECTIONS, rows })
    };
    at.answer(page.await)
}

/// Parses the ID in a path.
fn parsed(id: &str) -> Result<TemplateId, Failure> {
    id.parse().map_err(|_| Failure::NotFound("template"))
}

/// Returns the path of the list, with a confirmation.
fn done(at: &InProject, confirmation: &str) -> Redirect {
    Redirect::to(&at.path(&format!("/settings/templates?done={confirmation}")))
}

async fn remove(at: InProject, Path((_, id)): Path<(String, String)>, fields: Fields) -> Response {
    let page = async {
        at.needs_administrator()?;
        let precondition = fields.precondition();
        at.cases().remove_template(&at.caller(), &at.project.id, parsed(&id)?, precondition).await?;
        Ok(done(&at, "removed").into_response()) as Page
    };
    at.answer(page.await)
}
