//! The operations on the pull requests of a project. [`super::pulls`] lists those of one job.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journeyman_app::{Error, KnownComparison};
use journeyman_core::code_host::{PullRef, PullRepository, PullState};
use journeyman_core::ports::{PullCursor, PullFilter, PullPagesError};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::pull::LocalPull;
use journeyman_core::pull::compared::NoComparison;
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::pulls::{open_comparisons, open_pull};
use crate::app::App;
use crate::error::{ApiError, ErrorCode};
use crate::extract::{InProject, InPull, JsonBody, OptionalBody, Parameters};
use crate::openapi::{ProjectPath, PullPath, errors};
use crate::wire::pull::{MergePullRequest, OpenPullRequest, ProjectPull, ProjectPullList, PullRequestState};
use crate::{limits, page};

/// The time that a request for one pull request waits for the comparison with its base.
const COMPARISON_TIME: Duration = Duration::from_secs(5);

errors!(ListErrors: 400, 401, 403, 404, 503);
errors!(OpenErrors: 400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504);
errors!(GetErrors: 401, 403, 404, 422, 429, 503);
errors!(MergeErrors: 400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PullsQuery {
    /// Returns only pull requests in this state; by default, those that are open.
    #[param(inline)]
    state: Option<PullRequestState>,
    /// The maximum number of pull requests on the page; by default, 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// The `nextCursor` of the previous page.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

/// List pull requests
///
/// Returns the pull requests of the project's repository in pages, newest first. On the built-in code host, these are
/// all pull requests; on other code hosts, those that jobs have opened or work on, as the code host last reported them.
/// For open ones, it says how they compared with their bases at `comparedAt`; no code host is asked. A push to a base, a
/// merge and each push of a job cause another comparison.
#[utoipa::path(get, path = "/v2/projects/{projectId}/pulls", tag = "Pull requests", operation_id = "listPulls",
    params(ProjectPath, PullsQuery),
    responses((status = 200, description = "A page of pull requests", body = ProjectPullList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    at: InProject,
    Parameters(query): Parameters<PullsQuery>,
) -> Result<Json<ProjectPullList>, ApiError> {
    let limit = page::limit(query.limit, page::MOST)?;
    let after = query.cursor.as_deref().map(|text| cursor(text).ok_or_else(page::invalid_cursor)).transpose()?;
    let state = query.state.map_or(PullState::Open, PullState::from);
    let project = at.load(&app).await?;
    let Some(name) = local_name(&project) else { return remote(&app, &at, &project, state, after, limit).await };
    let all = app.services.store.pulls(name).await?;
    let is_next = |pull: &LocalPull| after.is_none_or(|after| pull.number < after.number);
    let found = all.into_iter().filter(|pull| pull.state == state && is_next(pull));
    let mut found: Vec<LocalPull> = found.take(limit + 1).collect();
    let next_cursor = page::cut(&mut found, limit, |pull| written(pull.created_at, pull.number));
    let comparisons = open_comparisons(&app, &at, found.iter().map(local_pull).collect()).await?;
    let mut pulls = Vec::new();
    for (pull, comparison) in found.into_iter().zip(comparisons) {
        pulls.push(described(&app, &project, pull, None, comparison).await?);
    }
    Ok(Json(ProjectPullList { pulls, next_cursor }))
}

/// Returns the page of a project on another code host.
async fn remote(
    app: &App,
    at: &InProject,
    project: &Project,
    state: PullState,
    after: Option<PullCursor>,
    limit: usize,
) -> Result<Json<ProjectPullList>, ApiError> {
    let filter = PullFilter { project: project.id.clone(), state, after, limit: limit + 1 };
    let mut found = app.services.store.remote_pulls(filter).await?;
    let next_cursor = page::cut(&mut found, limit, |pull| written(pull.created_at, pull.number));
    let comparisons = open_comparisons(app, at, found.iter().map(open_pull).collect()).await?;
    let pulls = found.into_iter().zip(comparisons).map(|(pull, comparison)| ProjectPull::of_indexed(pull, comparison));
    Ok(Json(ProjectPullList { pulls: pulls.collect(), next_cursor }))
}

/// Open a pull request
///
/// Opens a pull request on the built-in code host for a branch that was pushed. If the branch has an open one with the same
/// values, that one is returned with 200; another one is refused with 409. A branch that does not exist is refused with 422.
#[utoipa::path(post, path = "/v2/projects/{projectId}/pulls", tag = "Pull requests", operation_id = "openPull",
    params(ProjectPath), request_body = OpenPullRequest,
    responses((status = 201, description = "The new pull request", body = ProjectPull),
        (status = 200, description = "The pull request that was open before", body = ProjectPull), OpenErrors))]
pub(crate) async fn open(
    State(app): State<App>,
    at: InProject,
    body: JsonBody<OpenPullRequest>,
) -> Result<(StatusCode, Json<ProjectPull>), ApiError> {
    let project = at.load(&app).await?;
    needed_name(&project)?;
    let _permit = limits::git(&app, &at.caller).await?;
    let opened = app.cases.open_pull(&at.caller, &at.project, body.value.into()).await?;
    let status = if opened.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(described(&app, &project, opened.pull, None, None).await?)))
}

/// Get a pull request
///
/// Returns a pull request of the built-in code host, and whether it can be merged now. Those on other code hosts are
/// refused with 422; the list has their URLs.
#[utoipa::path(get, path = "/v2/projects/{projectId}/pulls/{number}", tag = "Pull requests", operation_id = "getPull",
    params(PullPath), responses((status = 200, description = "The pull request", body = ProjectPull), GetErrors))]
pub(crate) async fn get(State(app): State<App>, at: InPull) -> Result<Json<ProjectPull>, ApiError> {
    let project = at.at.load(&app).await?;
    needed_name(&project)?;
    let _permit = limits::git(&app, &at.at.caller).await?;
    let detail = app.services.pulls.pull(&project, at.number).await?;
    let mergeable = (detail.pull.state == PullState::Open).then_some(detail.mergeable);
    let comparison = match local_pull(&detail.pull) {
        Some(pull) => Some(compared_now(&app, &at.at, &project, pull).await?),
        None => None,
    };
    Ok(Json(described(&app, &project, detail.pull, mergeable, comparison).await?))
}

/// Merge a pull request
///
/// Merges a pull request of the built-in code host into its base branch. Merging it again changes nothing. A closed one,
/// one whose branches conflict, and one whose commits cannot be rebased are refused with 409; one on another code host is
/// refused with 422.
#[utoipa::path(post, path = "/v2/projects/{projectId}/pulls/{number}/merge", tag = "Pull requests",
    operation_id = "mergePull", params(PullPath), request_body(content = Option<MergePullRequest>),
    responses((status = 200, description = "The merged pull request", body = ProjectPull), MergeErrors))]
pub(crate) async fn merge(
    State(app): State<App>,
    at: InPull,
    body: OptionalBody<MergePullRequest>,
) -> Result<Json<ProjectPull>, ApiError> {
    let InPull { at: InProject { caller, project: id }, number } = &at;
    let project = at.at.load(&app).await?;
    let name = needed_name(&project)?;
    let _permit = limits::git(&app, caller).await?;
    let merged = app.cases.merge_pull(caller, id, *number, body.value.method.into()).await;
    let pull = app.services.store.pull(name, *number).await?;
    match (merged, pull) {
        (Ok(()), Some(pull)) => Ok(Json(described(&app, &project, pull, None, None).await?)),
        // Another request has merged it, which may be an earlier attempt at this one.
        (Err(Error::Pull(PullPagesError::NotOpen)), Some(pull)) if pull.state == PullState::Merged => {
            Ok(Json(described(&app, &project, pull, None, None).await?))
        }
        (Ok(()), None) => Err(PullPagesError::NotFound.into()),
        (Err(error), _) => Err(error.into()),
    }
}

/// Compares a pull request of the built-in code host with its base now, so that the answer matches whether it can be
/// merged. If this takes too long, the last comparison is returned.
async fn compared_now(
    app: &App,
    at: &InProject,
    project: &Project,
    pull: PullRef,
) -> Result<KnownComparison, ApiError> {
    if let Some(found) = app.cases.compare_now(project, &pull, COMPARISON_TIME).await {
        return Ok(KnownComparison { result: Ok(found), at: Some(app.services.clock.now()) });
    }
    let known = open_comparisons(app, at, vec![Some(pull)]).await?.into_iter().next().flatten();
    Ok(known.unwrap_or(KnownComparison { result: Err(NoComparison::NotYet), at: None }))
}

/// Describes a pull request of the built-in code host, with the job that opened it.
async fn described(
    app: &App,
    project: &Arc<Project>,
    pull: LocalPull,
    mergeable: Option<bool>,
    comparison: Option<KnownComparison>,
) -> Result<ProjectPull, ApiError> {
    let known = app.services.store.indexed_pull(PullRepository::local(&pull.repository), pull.number).await?;
    // Another project may have the same repository.
    let job = known.filter(|known| known.project == project.id).map(|known| known.job);
    let url = format!("{}/projects/{}/pulls/{}", app.settings.public_url, project.id, pull.number);
    Ok(ProjectPull::of_local(pull, url, job, mergeable, comparison))
}

/// Returns a pull request of the built-in code host if it is open.
fn local_pull(pull: &LocalPull) -> Option<PullRef> {
    let is_open = pull.state == PullState::Open;
    is_open.then(|| PullRef { repository: PullRepository::local(&pull.repository), number: pull.number })
}

/// Returns the name of the project's repository on the built-in code host; `None` if it is on another one.
fn local_name(project: &Project) -> Option<String> {
    match parse_address(&project.repository) {
        Ok(Address::Local(name)) => Some(name),
        _ => None,
    }
}

fn needed_name(project: &Project) -> Result<String, ApiError> {
    local_name(project).ok_or_else(|| {
        let text = "the repository of this project is not on the built-in code host; use its pull requests there";
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::PullRequestsUnsupported, text)
    })
}

fn written(created_at: Timestamp, number: u64) -> String {
    format!("{}-{number}", created_at.as_micros())
}

fn cursor(text: &str) -> Option<PullCursor> {
    let (micros, number) = text.split_once('-')?;
    let number = number.parse().ok().filter(|number| *number <= page::LARGEST_NUMBER)?;
    Some(PullCursor { created_at: Timestamp::from_micros(micros.parse().ok()?), number })
}
