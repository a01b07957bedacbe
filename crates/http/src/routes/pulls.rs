//! The operation that lists the pull requests of a job.

use axum::Json;
use axum::extract::State;
use journeyman_app::KnownComparison;
use journeyman_core::code_host::{HostName, PullRef, PullState};
use journeyman_core::pull::IndexedPull;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{InJob, InProject, Parameters};
use crate::openapi::{JobPath, errors};
use crate::page::{self, PageQuery};
use crate::wire::pull::{JobPull, JobPullList};

errors!(ListErrors: 400, 401, 403, 404, 503);

/// List a job's pull requests
///
/// Returns the pull requests that the job has opened, in pages, oldest first: a follow-up after a merge opens another
/// one. Those on the built-in code host have a text too. `GET …/diff` returns the changes. For open ones, it says how they
/// compared with their bases at `comparedAt`; no code host is asked.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/pulls", tag = "Jobs", operation_id = "listJobPulls",
    params(JobPath, PageQuery),
    responses((status = 200, description = "A page of pull requests", body = JobPullList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    at: InJob,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<JobPullList>, ApiError> {
    let (limit, first) = query.read::<usize>()?;
    let job = at.load(&app).await?;
    // A job has few pull requests, and none is ever removed from its list, so an index in the list is a cursor.
    let first = first.unwrap_or(0);
    let found = app.services.store.indexed_pulls_of(vec![job.id]).await?;
    let mut found: Vec<_> = found.into_iter().skip(first).collect();
    let next_cursor = page::cut(&mut found, limit, |_| first.saturating_add(limit).to_string());
    let comparisons = open_comparisons(&app, &at.at, found.iter().map(open_pull).collect()).await?;
    let mut pulls = Vec::new();
    for (pull, comparison) in found.into_iter().zip(comparisons) {
        let local = if pull.repository.host == HostName::local() {
            app.services.store.pull(pull.repository.id.clone(), pull.number).await?
        } else {
            None
        };
        pulls.push(JobPull::of(pull, local, comparison));
    }
    Ok(Json(JobPullList { pulls, next_cursor }))
}

/// Returns the pull request if it is open, as far as the index knows.
pub(super) fn open_pull(pull: &IndexedPull) -> Option<PullRef> {
    let is_open = pull.state == PullState::Open;
    is_open.then(|| PullRef { repository: pull.repository.clone(), number: pull.number })
}

/// Returns what is known about open pull requests and their bases, in the same order.
pub(super) async fn open_comparisons(
    app: &App,
    at: &InProject,
    pulls: Vec<Option<PullRef>>,
) -> Result<Vec<Option<KnownComparison>>, ApiError> {
    let open: Vec<PullRef> = pulls.iter().flatten().cloned().collect();
    if open.is_empty() {
        return Ok(vec![None; pulls.len()]);
    }
    let mut found = app.cases.known_comparisons(&*at.load(app).await?, &open).await?.into_iter();
    Ok(pulls.into_iter().map(|pull| pull.and_then(|_| found.next())).collect())
}
