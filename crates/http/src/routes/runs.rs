//! The operation that lists the runs of a job.

use axum::Json;
use axum::extract::State;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{InJob, Parameters};
use crate::openapi::{JobPath, errors};
use crate::page::{self, PageQuery};
use crate::wire::run::{Run, RunList};

errors!(ListErrors: 400, 401, 403, 404, 503);

/// List a job's runs
///
/// Returns the attempts at the job's messages, each with its outcome, the reason for a failure, and its tokens, cost,
/// and times, in pages, oldest first.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/runs", tag = "Jobs", operation_id = "listRuns",
    params(JobPath, PageQuery),
    responses((status = 200, description = "A page of runs", body = RunList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    at: InJob,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<RunList>, ApiError> {
    let (limit, after) = query.read()?;
    let job = at.load(&app).await?;
    let mut runs = app.services.store.runs_after(job.id, after, limit + 1).await?;
    let next_cursor = page::cut(&mut runs, limit, |run| run.id.to_string());
    let messages = app.services.store.messages(job.id).await?;
    Ok(Json(RunList { runs: runs.into_iter().map(|run| Run::new(run, &messages)).collect(), next_cursor }))
}
