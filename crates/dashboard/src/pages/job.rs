//! `/projects/{project}/jobs/{job}`: the conversation and the other tabs of a job.

mod actions;
mod base;
pub(super) mod block;
mod changes;
mod checks;
mod conversation;
mod events;
mod head;
mod line_comments;
mod live;
mod messages_and_runs;
mod now;
pub(super) mod outcome;
mod plan;
mod reason;
mod record;
mod runs;
mod side;
pub(super) mod status;
mod thread;
mod update;
mod update_base;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use journeyman_core::job::Job;

use crate::Shared;
use crate::failure::Failure;
use crate::in_project::{InProject, segment};

pub(super) fn routes() -> Router<Shared> {
    let path = |rest: &str| format!("/projects/{{project}}/jobs/{{job}}{rest}");
    Router::new()
        .route(&path(""), get(conversation::show))
        .route(&path("/live"), get(live::stream))
        .route(&path("/changes"), get(changes::show))
        .route(&path("/changes/lines"), get(changes::lines))
        .route(&path("/changes/comments"), post(line_comments::send))
        .route(&path("/runs"), get(runs::show))
        .route(&path("/events"), get(events::show))
        .route(&path("/record"), get(record::show))
        .route(&path("/messages"), post(actions::send))
        .route(&path("/messages/{message}/withdraw"), post(actions::withdraw))
        .route(&path("/again"), post(actions::again))
        .route(&path("/update"), post(update_base::update))
        .route(&path("/retry"), post(actions::retry))
        .route(&path("/cancel"), post(actions::cancel))
        .route(&path("/archive"), post(actions::archive))
        .route(&path("/unarchive"), post(actions::unarchive))
}

/// The context of a page that belongs to a job.
#[derive(Clone)]
pub(super) struct InJob {
    pub(super) at: InProject,
    pub(super) job: Job,
}

impl std::ops::Deref for InJob {
    type Target = InProject;

    fn deref(&self) -> &InProject {
        &self.at
    }
}

impl InJob {
    /// Returns the path of a page of the job. `rest` begins with a slash, or is empty.
    pub(super) fn page(&self, rest: &str) -> String {
        self.path(&format!("/jobs/{}{rest}", self.job.id))
    }

    /// Returns the job's path in the HTTP interface, for display. `rest` begins with a slash, or is empty.
    pub(super) fn job_api(&self, rest: &str) -> String {
        format!("/v2/agent/{}/job/{}{rest}", self.project.id, self.job.id)
    }
}

impl FromRequestParts<Shared> for InJob {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let at = InProject::from_request_parts(parts, shared).await?;
        let found = async {
            let id = segment(parts, shared, "job").await.and_then(|id| id.parse().ok());
            let job = shared.services.store.job(id.ok_or(Failure::NotFound("job"))?).await?;
            job.filter(|job| job.project == at.project.id).ok_or(Failure::NotFound("job"))
        };
        match found.await {
            Ok(job) => Ok(Self { at, job }),
            Err(failure) => Err(failure.page(&at)),
        }
    }
}
