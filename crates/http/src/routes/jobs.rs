//! The operations on jobs: create, read, list, retry, cancel, archive, unarchive, delete.

pub(crate) mod cursor;
mod record;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use journeyman_app::{DetailedJob, JobRequest};
use journeyman_core::engine::Control;
use journeyman_core::ids::ProjectId;
use journeyman_core::job::label::Attribute;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::JobFilter;
use journeyman_core::rate::RateKind;
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use self::record::controlled;
pub(crate) use self::record::{accepted, record};
use crate::app::App;
use crate::caller::Caller;
use crate::conditional::ExpectedTags;
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Authenticated, IdempotencyKey, InJob, InProject, JsonBody, Parameters};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, JobPath, ProjectPath, errors};
use crate::page;
use crate::wire::details::{JobDetails, JobDetailsPage};
use crate::wire::job::{CreateJob, JobPage, JobRecord, Status};

/// The number of jobs on a page if the request does not say.
const PAGE: usize = 20;

/// The maximum value of `wait`, in seconds.
const WAIT_SECONDS: u64 = 60;

errors!(CreateErrors: 400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504);
errors!(ReadErrors: 400, 401, 403, 404, 503);
errors!(DetailsErrors: 401, 403, 404, 503);
errors!(AllErrors: 400, 401, 403, 503);
errors!(DeleteErrors: 401, 403, 404, 409, 412, 503, 504);
errors!(ChangeErrors: 400, 401, 403, 404, 422, 503, 504);
errors!(UnarchiveErrors: 400, 401, 403, 404, 409, 422, 503, 504);

/// Create a job
///
/// Stores the job with its first message and returns immediately; the agent works in the background. Poll the job
/// until its status is no longer `active`.
#[utoipa::path(post, path = "/v2/agent/{projectId}/job", tag = "Jobs", operation_id = "createJob",
    params(ProjectPath, IdempotencyHeader), request_body = CreateJob,
    responses((status = 201, description = "The job's record", body = JobRecord), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    at: InProject,
    key: IdempotencyKey,
    body: JsonBody<CreateJob>,
) -> Result<Response, ApiError> {
    let request = request(body.value);
    let idempotency = key.of("create", &body.bytes);
    let done = app.cases.create_job(&at.caller, &at.project, request, idempotency).await?;
    let location = format!("/v2/agent/{}/job/{}", at.project, done.record.id);
    let mut response = accepted(&app, StatusCode::CREATED, RateKind::Create, done);
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

pub(crate) fn request(body: CreateJob) -> JobRequest {
    let CreateJob { prompt, reference, branch, draft, auto_merge, title, model, effort, agent, .. } = body;
    let (pull_request, effort) = (body.pull_request.map(Into::into), effort.map(Into::into));
    let (labels, metadata) = (body.labels, body.metadata);
    JobRequest {
        prompt,
        reference,
        branch,
        model,
        effort,
        agent,
        title,
        draft,
        auto_merge,
        pull_request,
        labels,
        metadata,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GetQuery {
    /// The maximum number of seconds to hold the response while the job is `active` (long polling).
    #[param(maximum = 60)]
    wait: Option<u64>,
}

/// Get a job
///
/// Returns the job's record with an `ETag`. With `If-None-Match`, returns 304 if nothing has changed.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}", tag = "Jobs", operation_id = "getJob",
    params(JobPath, GetQuery),
    responses((status = 200, description = "The job's record", body = JobRecord), ReadErrors))]
pub(crate) async fn get(
    State(app): State<App>,
    at: InJob,
    Parameters(query): Parameters<GetQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wait = query.wait.unwrap_or(0);
    if wait > WAIT_SECONDS {
        let text = format!("wait: must be from 0 to {WAIT_SECONDS} seconds");
        return Err(ApiError::bad_request(ErrorCode::InvalidQuery, text));
    }
    let job = at.load(&app).await?;
    let job = settled(&app, job, Duration::from_secs(wait)).await?;
    Ok(record::conditional_record(job.record(), &headers))
}

/// Waits until the job is no longer active, the time has passed, or the server stops. Returns the current job.
pub(crate) async fn settled(app: &App, mut job: Job, wait: Duration) -> Result<Job, ApiError> {
    if wait.is_zero() {
        return Ok(job);
    }
    let end = Instant::now() + wait;
    let mut watch = app.services.store.watch(job.id);
    while job.status() == JobStatus::Active && Instant::now() < end {
        tokio::select! {
            () = watch.changed(job.last_seq) => {
                job = app.services.store.job(job.id).await?.ok_or_else(ApiError::job_not_found)?;
            }
            () = tokio::time::sleep_until(end) => break,
            () = app.shutdown.cancelled() => break,
        }
    }
    Ok(job)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Returns only jobs with this status.
    #[param(inline)]
    status: Option<Status>,
    /// Returns only jobs created after this time (ISO 8601).
    #[param(format = DateTime)]
    created_after: Option<String>,
    /// Returns only jobs created before this time (ISO 8601).
    #[param(format = DateTime)]
    created_before: Option<String>,
    /// Returns only jobs whose title contains this text.
    q: Option<String>,
    /// Returns only jobs with this label. Can be repeated: then jobs must have all labels.
    #[serde(default)]
    label: Vec<String>,
    /// Returns only jobs with this entry in their metadata, as `key:value`. Can be repeated.
    #[serde(default)]
    #[param(example = json!(["ticket:SHOP-12"]))]
    metadata: Vec<String>,
    /// Returns only jobs of this agent.
    agent: Option<String>,
    /// Returns only jobs whose first message has this author.
    author: Option<String>,
    /// Returns only jobs that work on this branch.
    branch: Option<String>,
    /// Returns only jobs that have worked on a pull request with this number.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pull_request: Option<u64>,
    /// The number of jobs on a page; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// The `nextCursor` of the previous page.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

/// List the records of jobs
///
/// Returns the records of the project's jobs in pages, newest first. Jobs that are created in the meantime do not shift
/// the pages.
#[utoipa::path(get, path = "/v2/agent/{projectId}/jobs", tag = "Jobs", operation_id = "listJobs",
    params(ProjectPath, ListQuery),
    responses((status = 200, description = "A page of jobs", body = JobPage), ReadErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    at: InProject,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Json<JobPage>, ApiError> {
    let limit = page::limit(query.limit, PAGE)?;
    let filter = filter(Some(at.project.clone()), query, limit)?;
    at.load(&app).await?;
    let mut jobs = app.services.store.jobs(filter).await?;
    let next_cursor = page::cut(&mut jobs, limit, cursor::after);
    Ok(Json(JobPage { jobs: jobs.iter().map(|job| job.record().into()).collect(), next_cursor }))
}

/// List a project's jobs
///
/// Returns the project's jobs with their details, in pages, newest first.
#[utoipa::path(get, path = "/v2/projects/{projectId}/jobs", tag = "Jobs", operation_id = "listProjectJobs",
    params(ProjectPath, ListQuery),
    responses((status = 200, description = "A page of jobs", body = JobDetailsPage), ReadErrors))]
pub(crate) async fn list_of_project(
    State(app): State<App>,
    at: InProject,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Json<JobDetailsPage>, ApiError> {
    at.load(&app).await?;
    find(&app, &at.caller, Some(at.project.clone()), query).await
}

/// List the jobs of all projects
///
/// Returns the jobs of all projects that the key may see, with their details, in pages, newest first.
#[utoipa::path(get, path = "/v2/jobs", tag = "Jobs", operation_id = "listAllJobs", params(ListQuery),
    responses((status = 200, description = "A page of jobs", body = JobDetailsPage), AllErrors))]
pub(crate) async fn list_of_all(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Json<JobDetailsPage>, ApiError> {
    find(&app, &caller, None, query).await
}

async fn find(
    app: &App,
    caller: &Caller,
    project: Option<ProjectId>,
    query: ListQuery,
) -> Result<Json<JobDetailsPage>, ApiError> {
    let limit = page::limit(query.limit, PAGE)?;
    let mut jobs = app.cases.find_jobs(caller, filter(project, query, limit)?).await?;
    let next_cursor = page::cut(&mut jobs, limit, |detailed| cursor::after(&detailed.job));
    Ok(Json(JobDetailsPage { jobs: jobs.into_iter().map(JobDetails::from).collect(), next_cursor }))
}

/// Returns the filter of a request, for one job more than `limit`.
fn filter(project: Option<ProjectId>, query: ListQuery, limit: usize) -> Result<JobFilter, ApiError> {
    let invalid = |text: String| ApiError::bad_request(ErrorCode::InvalidQuery, text);
    let moment = |name: &str, text: Option<String>| -> Result<Option<Timestamp>, ApiError> {
        text.map(|text| text.parse().map_err(|error| invalid(format!("{name}: {error}")))).transpose()
    };
    let texts = [("q", &query.q), ("agent", &query.agent), ("author", &query.author), ("branch", &query.branch)];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
    let lists =
        query.label.iter().map(|text| ("label", text)).chain(query.metadata.iter().map(|text| ("metadata", text)));
    if let Some((name, _)) = texts.chain(lists).find(|(_, text)| text.contains('\0')) {
        return Err(invalid(format!("{name}: must not contain the NUL character")));
    }
    if query.pull_request.is_some_and(|number| number > page::LARGEST_NUMBER) {
        return Err(invalid(format!("pullRequest: must be from 0 to {}", page::LARGEST_NUMBER)));
    }
    let entry = |text: String| match text.split_once(':') {
        Some((key, value)) => Ok(Attribute::Metadata(key.to_owned(), value.to_owned())),
        None => Err(invalid(format!("metadata: {text:?} must have the form key:value"))),
    };
    // The rarest attributes come first, because a list is read in the order of the first one.
    let metadata = query.metadata.into_iter().map(entry).collect::<Result<Vec<_>, ApiError>>()?.into_iter();
    let attributes = metadata
        .chain(query.label.into_iter().map(Attribute::Label))
        .chain(query.author.map(Attribute::Author))
        .chain(query.agent.map(Attribute::Agent));
    let after = query.cursor.map(|text| cursor::read(&text)).transpose();
    Ok(JobFilter {
        projects: project.map(|project| vec![project]),
        status: query.status.map(JobStatus::from),
        attributes: attributes.collect(),
        any_of: Vec::new(),
        branch: query.branch,
        pull: query.pull_request,
        pull_state: None,
        // The limits are exclusive at the precision that clients see: a job's own `createdAt` excludes it.
        created_after: moment("createdAfter", query.created_after)?.map(Timestamp::end_of_millisecond),
        created_before: moment("createdBefore", query.created_before)?.map(Timestamp::start_of_millisecond),
        title_contains: query.q.filter(|q| !q.is_empty()),
        after: after.map_err(|()| page::invalid_cursor())?,
        limit: limit + 1,
    })
}

/// Get a job's details
///
/// Returns the details that the record does not contain: the labels and metadata, the branch, the pull requests, the
/// checks, the length of the queue, the usage, the reason for a failure, and the cause that the job waits for.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/details", tag = "Jobs", operation_id = "getJobDetails",
    params(JobPath), responses((status = 200, description = "The job's details", body = JobDetails), DetailsErrors))]
pub(crate) async fn details(State(app): State<App>, at: InJob) -> Result<Json<JobDetails>, ApiError> {
    let found = app.services.store.job_overview(at.id).await?;
    let found = found.filter(|found| found.job.project == at.at.project).ok_or_else(ApiError::job_not_found)?;
    Ok(Json(DetailedJob::new(found.job, found.extras).into()))
}

/// Delete a job
///
/// Deletes the job with its messages, runs and events; its branch and its pull requests stay. A job that is active is
/// refused: cancel or archive it first. Deleting a job again changes nothing.
#[utoipa::path(delete, path = "/v2/agent/{projectId}/job/{id}", tag = "Jobs", operation_id = "deleteJob",
    params(JobPath, IfMatchHeader),
    responses((status = 204, description = "The job is deleted"), DeleteErrors))]
pub(crate) async fn delete(State(app): State<App>, at: InJob, headers: HeaderMap) -> Result<StatusCode, ApiError> {
    let tags = ExpectedTags::of(&headers);
    let is_expected = move |job: &Job| tags.match_tag(&record::tag(job.record()));
    app.cases.delete_job(&at.at.caller, &at.at.project, at.id, is_expected).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Retry a job now
///
/// If the job waits for an external cause to pass (`waiting` in its details), starts the next attempt now instead of
/// when it is due. A job that does not wait does not change.
#[utoipa::path(post, path = "/v2/agent/{projectId}/job/{id}/retry", tag = "Jobs", operation_id = "retryJob",
    params(JobPath, IdempotencyHeader),
    responses((status = 200, description = "The job's record", body = JobRecord), ChangeErrors))]
pub(crate) async fn retry(State(app): State<App>, at: InJob, key: IdempotencyKey) -> Result<Response, ApiError> {
    control(&app, &at, key, Control::Retry).await
}

/// Cancel a job
///
/// Stops the run and withdraws the queued messages; the job becomes `failed`. A turn that has already ended is not
/// stopped: its work is published, its message becomes `finished`, and then the job becomes `completed`. A job that is
/// not active does not change.
#[utoipa::path(post, path = "/v2/agent/{projectId}/job/{id}/cancel", tag = "Jobs", operation_id = "cancelJob",
    params(JobPath, IdempotencyHeader),
    responses((status = 200, description = "The job's record", body = JobRecord), ChangeErrors))]
pub(crate) async fn cancel(State(app): State<App>, at: InJob, key: IdempotencyKey) -> Result<Response, ApiError> {
    control(&app, &at, key, Control::Cancel).await
}

/// Archive a job
///
/// Cancels the job first if it is active. Messages to an archived job are refused. The work of a turn that has already
/// ended is still published.
#[utoipa::path(post, path = "/v2/agent/{projectId}/job/{id}/archive", tag = "Jobs", operation_id = "archiveJob",
    params(JobPath, IdempotencyHeader),
    responses((status = 200, description = "The job's record", body = JobRecord), ChangeErrors))]
pub(crate) async fn archive(State(app): State<App>, at: InJob, key: IdempotencyKey) -> Result<Response, ApiError> {
    control(&app, &at, key, Control::Archive).await
}

/// Unarchive a job
///
/// Restores the status that the job had before it was archived.
#[utoipa::path(post, path = "/v2/agent/{projectId}/job/{id}/unarchive", tag = "Jobs", operation_id = "unarchiveJob",
    params(JobPath, IdempotencyHeader),
    responses((status = 200, description = "The job's record", body = JobRecord), UnarchiveErrors))]
pub(crate) async fn unarchive(State(app): State<App>, at: InJob, key: IdempotencyKey) -> Result<Response, ApiError> {
    control(&app, &at, key, Control::Unarchive).await
}

async fn control(app: &App, at: &InJob, key: IdempotencyKey, control: Control) -> Result<Response, ApiError> {
    let idempotency = key.of(&format!("{control:?} {}", at.id), b"");
    let done = app.cases.control_job(&at.at.caller, &at.at.project, at.id, control, idempotency).await?;
    Ok(controlled(done))
}
