//! `/projects/{project}/pulls`: pull requests of the built-in code host, and the list of those on other code hosts.

mod actions;
pub(super) mod badge;
mod bar;
pub(super) mod base_note;
mod comments;
mod commits;
mod detail;
mod ending;
mod files;
mod list;
mod live;
pub(super) mod merge_box;
mod open;
mod progress;
mod read;
mod remote;
mod review_form;
mod row;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use journeyman_core::ports::PullPagesError;

use crate::Shared;
use crate::failure::Failure;
use crate::in_project::{InProject, segment};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects/{project}/pulls", get(list::list).post(open::open))
        .route("/projects/{project}/pulls/new", get(open::new))
        .route("/projects/{project}/pulls/{number}", get(detail::detail))
        .route("/projects/{project}/pulls/{number}/commits", get(commits::show))
        .route("/projects/{project}/pulls/{number}/files", get(files::show))
        .route("/projects/{project}/pulls/{number}/files/lines", get(files::lines))
        .route("/projects/{project}/pulls/{number}/live", get(live::stream))
        .route("/projects/{project}/pulls/{number}/update", post(actions::update))
        .route("/projects/{project}/pulls/{number}/merge", post(actions::merge))
        .route("/projects/{project}/pulls/{number}/close", post(actions::close))
        .route("/projects/{project}/pulls/{number}/comments", post(actions::comment))
        .route("/projects/{project}/pulls/{number}/comments/{comment}/resolve", post(actions::resolve))
        .route("/projects/{project}/pulls/{number}/lines", post(actions::line))
        .route("/projects/{project}/pulls/{number}/review", post(actions::review))
        .route("/projects/{project}/pulls/{number}/drafts/{comment}/remove", post(actions::remove_draft))
}

/// The pull request in the path of a request. An invalid number is treated like that of a missing pull request.
#[derive(Clone)]
struct Target {
    at: InProject,
    number: u64,
}

impl std::ops::Deref for Target {
    type Target = InProject;

    fn deref(&self) -> &InProject {
        &self.at
    }
}

impl Target {
    /// Returns the path of the pull request's page. `rest` begins with a slash or a question mark, or is empty.
    fn page(&self, rest: &str) -> String {
        self.path(&format!("/pulls/{}{rest}", self.number))
    }
}

impl FromRequestParts<Shared> for Target {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let at = InProject::from_request_parts(parts, shared).await?;
        match segment(parts, shared, "number").await.and_then(|number| canonical(&number)) {
            Some(number) => Ok(Self { at, number }),
            None => Err(Failure::from(PullPagesError::NotFound).page(&at)),
        }
    }
}

/// Parses a number in its canonical form, so that each pull request has only one URL: `+7` and `07` are invalid.
fn canonical(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}
