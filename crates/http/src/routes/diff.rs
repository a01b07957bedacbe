//! The diff of a job.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use journeyman_core::job::Job;
use journeyman_core::ports::{DiffError, GitBody};
use journeyman_core::project::Project;

use crate::app::App;
use crate::error::{ApiError, ErrorCode};
use crate::extract::InJob;
use crate::limits;
use crate::openapi::{JobPath, errors};

errors!(DiffErrors: 401, 403, 404, 429, 503);

/// Returns the diff of a job, which git reads as fast as it is taken. The caller needs a permit ([`limits::git`]).
pub(crate) async fn of(app: &App, project: &Project, job: &Job) -> Result<GitBody, ApiError> {
    app.services.diffs.diff(project, job).await.map_err(|error| {
        let DiffError::Unavailable(_) = &error;
        tracing::warn!(%error, job = %job.id, "the diff of a job could not be read");
        ApiError::away(ErrorCode::RepositoryUnavailable, "the repository cannot be read at the moment; try again later")
    })
}

/// Get a job's diff
///
/// Returns the job's changes relative to its base, as a unified diff. The diff is empty if nothing has changed. If it
/// cannot be read to its end, the connection breaks off.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/diff", tag = "Jobs", operation_id = "getDiff",
    params(JobPath),
    responses((status = 200, description = "A unified diff", body = String, content_type = "text/x-diff"), DiffErrors))]
pub(crate) async fn read(State(app): State<App>, at: InJob) -> Result<Response, ApiError> {
    let job = at.load(&app).await?;
    let project = at.at.load(&app).await?;
    let permit = limits::git(&app, &at.at.caller).await?;
    let diff = of(&app, &project, &job).await?;
    let body = limits::held(Body::from_stream(diff), permit);
    // A diff may contain any bytes, but most source files are UTF-8.
    Ok(([(CONTENT_TYPE, "text/x-diff; charset=utf-8")], body).into_response())
}
