//! The form for a new job.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::JobRequest;

use super::begin::{self, BeginPage};
use crate::Shared;
use crate::choices::{Choices, chosen_model};
use crate::failure::{Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;

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
    /// True if a field behind *More options* has a value.
    has_options: bool,
    /// The branches of the repository, if it is on the built-in code host.
    branches: Vec<String>,
    directives: [(&'static str, &'static str); 5],
    once: String,
    error: Option<String>,
}

impl<'a> NewPage<'a> {
    async fn new(shared: &Shared, at: &'a InProject, fields: &Fields) -> Self {
        let once = fields.given("once").unwrap_or_else(|| at.once());
        let branches = if at.is_hosted() { begin::branches(shared, &at.project).await } else { None };
        let options = ["branch", "title", "labels", "pull-request"];
        Self {
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
            ),
            draft: fields.is_set("draft"),
            has_options: fields.is_set("draft") || options.iter().any(|name| fields.given(name).is_some()),
            branches: branches.unwrap_or_default(),
            directives: DIRECTIVES,
            once,
            error: None,
        }
    }
}

pub(super) async fn new(State(shared): State<Shared>, at: InProject, fields: Fields) -> Response {
    let page = async {
        at.needs_write()?;
        rendered(&NewPage::new(&shared, &at, &fields).await)
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
    let request = request(fields);
    let once = fields.once(&format!("create job {request:?}"));
    match at.cases().create_job(&at.caller(), &at.project.id, request, once).await {
        Ok(done) => Ok(Redirect::to(&at.path(&format!("/jobs/{}", done.record.id))).into_response()),
        Err(error) => {
            let mut page = NewPage::new(shared, at, fields).await;
            page.error = Some(refusal(error)?);
            // A refused request is not stored under its key, and the next request may be a different one.
            page.once = at.once();
            refused(&page)
        }
    }
}

fn request(fields: &Fields) -> JobRequest {
    let labels = fields.text("labels");
    let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty());
    JobRequest {
        prompt: fields.text("prompt"),
        reference: fields.given("ref"),
        branch: fields.given("branch"),
        model: chosen_model(fields),
        agent: fields.given("agent"),
        title: fields.given("title"),
        draft: fields.is_set("draft").then_some(true),
        pull_request: fields.given("pull-request"),
        labels: labels.map(str::to_owned).collect(),
        ..JobRequest::default()
    }
}
