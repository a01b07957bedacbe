//! The operation that returns the checks of a job's pull request.

use axum::Json;
use axum::extract::State;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::InJob;
use crate::openapi::{JobPath, errors};
use crate::wire::checks::JobChecks;

errors!(ChecksErrors: 401, 403, 404, 503);

/// Get the checks of a job's pull request
///
/// Returns the checks of the newest commit that the job has pushed, as far as the code host has reported them. The event
/// `checks.settled` says when all of them have finished.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/checks", tag = "Jobs", operation_id = "getJobChecks",
    params(JobPath), responses((status = 200, description = "The checks", body = JobChecks), ChecksErrors))]
pub(crate) async fn get(State(app): State<App>, at: InJob) -> Result<Json<JobChecks>, ApiError> {
    let job = at.load(&app).await?;
    Ok(Json(app.cases.checks_of_job(&at.at.caller, &job).await?.into()))
}
