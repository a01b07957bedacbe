//! The form with which people open a pull request for a branch that they have pushed.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::Error;
use journeyman_core::ports::PullPagesError;
use journeyman_core::pull::NewPull;

use crate::Shared;
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::words;

#[derive(Template)]
#[template(path = "pulls_new.html")]
struct OpenPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    /// The branches of the repository, the default branch first.
    branches: Vec<String>,
    new: NewPull,
    error: Option<String>,
}

impl OpenPage<'_> {
    fn base(&self) -> &str {
        let usual = self.branches.first().map(String::as_str).unwrap_or_default();
        self.new.base.as_deref().unwrap_or(usual)
    }
}

async fn form<'a>(
    shared: &Shared,
    at: &'a InProject,
    new: NewPull,
    error: Option<String>,
) -> Result<OpenPage<'a>, Failure> {
    let branches = shared.services.pulls.branches(&at.project).await?;
    Ok(OpenPage { at, frame: at, branches, new, error })
}

/// Reads the values from a form.
fn values(fields: &Fields) -> NewPull {
    NewPull {
        title: fields.given("title").unwrap_or_default(),
        body: fields.text("body"),
        head: fields.given("head").unwrap_or_default(),
        base: fields.given("base"),
        draft: fields.is_set("draft"),
        ..NewPull::default()
    }
}

fn needs_hosted(at: &InProject) -> Result<(), Failure> {
    at.needs_write()?;
    if at.is_hosted() { Ok(()) } else { Err(Failure::NoPulls) }
}

pub(super) async fn new(State(shared): State<Shared>, at: InProject, fields: Fields) -> Response {
    let page = async {
        needs_hosted(&at)?;
        rendered(&form(&shared, &at, values(&fields), None).await?)
    };
    at.answer(page.await)
}

pub(super) async fn open(State(shared): State<Shared>, at: InProject, fields: Fields) -> Response {
    at.answer(opened(&shared, &at, &fields).await)
}

async fn opened(shared: &Shared, at: &InProject, fields: &Fields) -> Page {
    needs_hosted(at)?;
    let new = values(fields);
    let error = match at.cases().open_pull(&at.caller(), &at.project.id, new.clone()).await {
        Ok(opened) => return Ok(Redirect::to(&at.path(&format!("/pulls/{}", opened.pull.number))).into_response()),
        Err(Error::Pull(error @ PullPagesError::NoBranch(_))) => words::sentence(&error.to_string()),
        Err(error) => refusal(error)?,
    };
    refused(&form(shared, at, new, Some(error)).await?)
}
