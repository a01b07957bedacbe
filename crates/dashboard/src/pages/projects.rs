//! `/projects`: the list, and a new one.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_core::project::{DEFAULT_AGENT, DEFAULT_MODEL, Project};
use serde_json::{Value, json};

use crate::failure::{Page, refused, rendered};
use crate::fields::Fields;
use crate::frame::{Frame, InProject};
use crate::interface::Call;
use crate::moment::Moment;
use crate::{Shared, visible};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects", get(list).post(create))
        .route("/projects/new", get(new))
        .route("/projects/{project}", get(|at: InProject| async move { Redirect::to(&at.path("/jobs")) }))
}

#[derive(Template)]
#[template(path = "projects.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
}

struct Row {
    id: String,
    repository: String,
    agent: String,
    model: String,
    created: Moment,
}

impl Row {
    fn new(frame: &Frame, project: &Project) -> Self {
        Self {
            id: project.id.to_string(),
            repository: visible::line(&project.repository).into_owned(),
            agent: visible::line(&project.agent).into_owned(),
            model: visible::line(&project.model).into_owned(),
            created: frame.moment(project.created_at),
        }
    }
}

async fn list(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async {
        let projects = shared.services.store.projects().await?;
        let rows = projects.iter().map(|project| Row::new(&frame, project)).collect();
        rendered(&ListPage { frame: &frame, rows })
    };
    frame.answer(page.await)
}

#[derive(Template)]
#[template(path = "projects_new.html")]
struct NewPage<'a> {
    frame: &'a Frame,
    id: String,
    hosted: bool,
    repository: String,
    username: String,
    reference: String,
    agent: String,
    model: String,
    error: Option<String>,
    /// Whether the repository could not be reached, which may be meant.
    untested: bool,
}

impl<'a> NewPage<'a> {
    fn new(frame: &'a Frame, fields: &Fields) -> Self {
        let or = |text: String, usual: &str| if text.is_empty() { usual.to_owned() } else { text };
        Self {
            frame,
            id: fields.text("id"),
            hosted: fields.text("where") != "remote",
            repository: fields.text("repository"),
            username: fields.text("username"),
            reference: fields.text("ref"),
            agent: or(fields.text("agent"), DEFAULT_AGENT),
            model: or(fields.text("model"), DEFAULT_MODEL),
            error: None,
            untested: false,
        }
    }

    fn agents(&self) -> &[String] {
        &self.frame.shared.settings.agents
    }
}

async fn new(frame: Frame) -> Response {
    let page = async {
        frame.needs_administrator()?;
        rendered(&NewPage::new(&frame, &Fields::default()))
    };
    frame.answer(page.await)
}

async fn create(frame: Frame, fields: Fields) -> Response {
    frame.answer(create_page(&frame, &fields).await)
}

async fn create_page(frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let body = body(fields);
    let mut page = NewPage::new(frame, fields);
    if !page.hosted
        && !fields.is_set("untested")
        && let Err(refusal) = frame.call(Call::post("/v2/repository/test", Some(body.clone()))).await
    {
        page.untested = refusal.status == StatusCode::UNPROCESSABLE_ENTITY;
        page.error = Some(refusal.text);
        return refused(&page);
    }
    match frame.call(Call::post("/v2/projects", Some(body))).await {
        Ok(created) => {
            let id = created["id"].as_str().unwrap_or_default();
            Ok(Redirect::to(&format!("/projects/{id}/jobs?done=created")).into_response())
        }
        Err(refusal) if refusal.status.is_client_error() => {
            page.error = Some(refusal.text);
            refused(&page)
        }
        Err(refusal) => Err(refusal.into()),
    }
}

fn body(fields: &Fields) -> Value {
    let id = fields.text("id").trim().to_owned();
    let hosted = fields.text("where") != "remote";
    let repository = if hosted { format!("local:{id}") } else { fields.text("repository").trim().to_owned() };
    let mut body = json!({ "id": id, "repository": repository });
    for field in ["ref", "agent", "model"] {
        if let Some(text) = fields.given(field) {
            body[field] = json!(text);
        }
    }
    if !hosted {
        for field in ["username", "token"] {
            if let Some(text) = fields.given(field) {
                body["codeHost"][field] = json!(text);
            }
        }
    }
    body
}

/// A line of a shell that sends a job.
pub(super) fn curl(frame: &Frame, project: &str, key: &str) -> String {
    let url = &frame.shared.settings.public_url;
    format!(
        "curl {url}/v2/agent/{project}/job \\\n  -H \"Authorization: Bearer {key}\" \\\n  \
         -H \"Content-Type: application/json\" \\\n  -d '{{\"prompt\": \"Fix the typo in the README\"}}'"
    )
}
