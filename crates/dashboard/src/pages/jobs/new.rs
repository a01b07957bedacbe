//! The form for a new job.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::JobRequest;
use journeyman_core::template::{self, TemplateSettings};

use super::begin::{self, BeginPage};
use crate::choices::{Choices, chosen_effort, chosen_model};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::{Shared, visible};

/// The directives of the test model that the form offers: the name, and the text that is inserted.
const DIRECTIVES: [(&str, &str); 5] = [
    ("Write a file", "[[write hello.txt|Hello]]"),
    ("Run a command", "[[run ls]]"),
    ("Say something", "[[say Done.]]"),
    ("Wait", "[[sleep 10]]"),
    ("Fail", "[[fail It did not work.]]"),
];

#[derive(Template)]
#[template(path = "jobs_new.html")]
struct NewPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    prompt: String,
    reference: String,
    branch: String,
    title: String,
    labels: String,
    pull_request: String,
    choices: Choices,
    draft: bool,
    auto_merge: bool,
    /// True if a field behind *More options* has a value.
    has_options: bool,
    /// The branches of the repository, if it is on the built-in code host.
    branches: Vec<String>,
    directives: [(&'static str, &'static str); 5],
    starters: Vec<Starter>,
    once: String,
    error: Option<String>,
}

/// A template of the project, to choose.
struct Starter {
    href: String,
    name: String,
    description: String,
    is_chosen: bool,
}

impl Starter {
    fn new(at: &InProject, template: &template::Template, chosen: Option<&str>) -> Self {
        let id = template.id.to_string();
        Self {
            href: at.path(&format!("/jobs/new?template={id}")),
            name: visible::line(&template.settings.name).into_owned(),
            description: visible::line(&template.settings.description).into_owned(),
            is_chosen: chosen == Some(id.as_str()),
        }
    }
}

/// Fills in the fields that are empty.
fn filled(fields: &Fields, template: &TemplateSettings) -> Fields {
    let labels: Vec<&str> = template.labels.iter().map(String::as_str).collect();
    let fields = fields.clone().or("prompt", Some(&template.prompt)).or("agent", template.agent.as_deref());
    fields.or("model", template.model.as_deref()).or("labels", Some(&labels.join(", ")))
}

impl<'a> NewPage<'a> {
    /// Returns the form with these values. `chosen` is the ID of the template that fills in the others.
    async fn new(shared: &Shared, at: &'a InProject, fields: &Fields, chosen: Option<&str>) -> Result<Self, Failure> {
        let templates = at.cases().templates(&at.caller(), &at.project.id).await?;
        let starters = templates.iter().map(|template| Starter::new(at, template, chosen)).collect();
        let template = templates.iter().find(|template| Some(template.id.to_string().as_str()) == chosen);
        if chosen.is_some() && template.is_none() {
            return Err(Failure::NotFound("template"));
        }
        let fields = &template.map_or_else(|| fields.clone(), |template| filled(fields, &template.settings));
        let once = fields.given("once").unwrap_or_else(|| at.once());
        let branches = if at.is_hosted() { begin::branches(shared, &at.project).await } else { None };
        let options = ["branch", "title", "labels", "pull-request"];
        Ok(Self {
            at,
            frame: &at.frame,
            prompt: fields.text("prompt"),
            reference: fields.text("ref"),
            branch: fields.text("branch"),
            title: fields.text("title"),
            labels: fields.text("labels"),
            pull_request: fields.text("pull-request"),
            choices: Choices::of_job(
                shared,
                &at.project,
                &fields.text("agent"),
                &chosen_model(fields).unwrap_or_default(),
            )
            .with_effort(&at.project, &fields.text("effort")),
            draft: fields.is_set("draft"),
            auto_merge: fields.is_set("auto-merge"),
            has_options: ["draft", "auto-merge"].iter().any(|name| fields.is_set(name))
                || options.iter().any(|name| fields.given(name).is_some()),
            branches: branches.unwrap_or_default(),
            directives: DIRECTIVES,
            starters,
            once,
            error: None,
        })
    }

    /// Returns the name of the chosen template.
    fn starter(&self) -> Option<&str> {
        self.starters.iter().find(|starter| starter.is_chosen).map(|starter| starter.name.as_str())
    }
}

pub(super) async fn new(State(shared): State<Shared>, at: InProject, fields: Fields) -> Response {
    let page = async {
        at.needs_write()?;
        let chosen = fields.given("template");
        rendered(&NewPage::new(&shared, &at, &fields, chosen.as_deref()).await?)
    };
    at.answer(page.await)
}

pub(super) async fn create(State(shared): State<Shared>, at: InProject, fields: Fields) -> Response {
    at.answer(create_page(&shared, &at, &fields).await)
}

async fn create_page(shared: &Shared, at: &InProject, fields: &Fields) -> Page {
    at.needs_write()?;
    if fields.is_set("after-push")
        && let Some(state) = begin::empty(shared, at).await?
    {
        return refused(&BeginPage::refused(shared, at, &state, fields).await?);
    }
    let request = match request(fields) {
        Ok(request) => request,
        Err(text) => {
            let mut page = NewPage::new(shared, at, fields, None).await?;
            page.error = Some(text);
            return refused(&page);
        }
    };
    let once = fields.once(&format!("create job {request:?}"));
    match at.cases().create_job(&at.caller(), &at.project.id, request, once).await {
        Ok(done) => Ok(Redirect::to(&at.path(&format!("/jobs/{}", done.record.id))).into_response()),
        Err(error) => {
            let mut page = NewPage::new(shared, at, fields, None).await?;
            page.error = Some(refusal(error)?);
            // A refused request is not stored under its key, and the next request may be a different one.
            page.once = at.once();
            refused(&page)
        }
    }
}

fn request(fields: &Fields) -> Result<JobRequest, String> {
    Ok(JobRequest {
        prompt: fields.text("prompt"),
        reference: fields.given("ref"),
        branch: fields.given("branch"),
        model: chosen_model(fields),
        effort: chosen_effort(fields)?,
        agent: fields.given("agent"),
        title: fields.given("title"),
        draft: fields.is_set("draft").then_some(true),
        auto_merge: fields.is_set("auto-merge").then_some(true),
        pull_request: fields.given("pull-request"),
        labels: fields.separated("labels"),
        ..JobRequest::default()
    })
}
