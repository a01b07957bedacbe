//! The operation that lists the runs of a job.

use axum::Json;
use axum::extract::State;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::InJob;
use crate::openapi::{JobPath, errors};
use crate::wire::run::RunList;

errors!(ListErrors: 401, 403, 404, 503);

/// List a job's runs
///
/// Returns all attempts at the job's messages, each with its outcome, the reason for a failure, and its tokens, cost,
/// and times.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/runs", tag = "Jobs", operation_id = "listRuns",
    params(JobPath), responses((status = 200, description = "All runs", body = RunList), ListErrors))]
pub(crate) async fn list(State(app): State<App>, at: InJob) -> Result<Json<RunList>, ApiError> {
    let job = at.load(&app).await?;
    let runs = app.services.store.runs(job.id).await?;
    Ok(Json(RunList { runs: runs.into_iter().map(Into::into).collect() }))
}
