//! The operation that lists the pull requests of a job.

use axum::Json;
use axum::extract::State;
use journeyman_core::code_host::HostName;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::InJob;
use crate::openapi::{JobPath, errors};
use crate::wire::pull::{JobPull, JobPullList};

errors!(ListErrors: 401, 403, 404, 503);

/// List a job's pull requests
///
/// Returns all pull requests that the job has opened, oldest first: a follow-up after a merge opens another one. Those on
/// the built-in code host have a text too. `GET …/diff` returns the changes.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/pulls", tag = "Jobs", operation_id = "listJobPulls",
    params(JobPath), responses((status = 200, description = "All pull requests", body = JobPullList), ListErrors))]
pub(crate) async fn list(State(app): State<App>, at: InJob) -> Result<Json<JobPullList>, ApiError> {
    let job = at.load(&app).await?;
    let mut pulls = Vec::new();
    for pull in app.services.store.indexed_pulls_of(job.id).await? {
        let local = if pull.repository.host == HostName::local() {
            app.services.store.pull(pull.repository.id.clone(), pull.number).await?
        } else {
            None
        };
        pulls.push(JobPull::of(pull, local));
    }
    Ok(Json(JobPullList { pulls }))
}
