//! The operations on projects.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Answered, ProjectEdit};
use serde_json::Value;

use crate::answer::created_as;
use crate::app::App;
use crate::conditional::{IfMatch, conditional, etag, tag_of};
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Administrator, Authenticated, IdempotencyKey, InProject, JsonBody, Parameters};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, ProjectPath, errors};
use crate::page::{self, PageQuery};
use crate::wire::code_host::FindingList;
use crate::wire::project::{self, CreateProject, Project, ProjectChanges, ProjectList};

errors!(ListErrors: 400, 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 409, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ChangeErrors: 400, 401, 403, 404, 409, 412, 413, 415, 503, 504);
errors!(DeleteErrors: 401, 403, 404, 409, 412, 503, 504);
errors!(TestErrors: 400, 401, 403, 404, 409, 413, 415, 422, 503);

/// List projects
///
/// Returns the projects that the key may see, in pages, ordered by ID.
#[utoipa::path(get, path = "/v2/projects", tag = "Projects", operation_id = "listProjects", params(PageQuery),
    responses((status = 200, description = "A page of the projects that the key may see", body = ProjectList),
        ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<ProjectList>, ApiError> {
    let (limit, after) = query.read()?;
    let mut projects = app.cases.projects_after(&caller, after, limit + 1).await?;
    let next_cursor = page::cut(&mut projects, limit, |project| project.id.to_string());
    let show = |project| project::show(project, &app.settings.public_url);
    Ok(Json(ProjectList { projects: projects.iter().map(show).collect(), next_cursor }))
}

/// Create a project
///
/// Requires `id` and `repository`; all other fields have defaults. If the repository `local:<name>` does not exist, it
/// is created, without commits.
#[utoipa::path(post, path = "/v2/projects", tag = "Projects", operation_id = "createProject",
    params(IdempotencyHeader), request_body = CreateProject,
    responses((status = 201, description = "The project", body = Project), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    key: IdempotencyKey,
    body: JsonBody<Value>,
) -> Result<Response, ApiError> {
    let proposal = project::create(body.value, app.services.engine.now()).map_err(invalid)?;
    let url = app.settings.public_url.clone();
    let answer = |project: &journeyman_core::project::Project| {
        serde_json::to_string(&project::show(project, &url)).unwrap_or_default()
    };
    let idempotency = key.of("create project", &body.bytes);
    let (body, version) = match app.cases.create_project(&caller, proposal, idempotency, answer).await? {
        Answered::New(project) => (answer(&project), Some(project.version)),
        Answered::Replayed(body) => (body, None),
    };
    Ok(created_as(version, "/v2/projects", body))
}

/// Test a project before creating it
///
/// Takes the same body as creating a project, and stores nothing. Tests whether jobs can work on the repository with its
/// credential. If it cannot be read or pushed to, the response is 422 with the reason.
#[utoipa::path(post, path = "/v2/repository/test", tag = "Projects", operation_id = "testNewProject",
    request_body = CreateProject,
    responses((status = 200, description = "The repository can be read; the findings", body = FindingList), TestErrors))]
pub(crate) async fn test_new(
    State(app): State<App>,
    Administrator(caller): Administrator,
    body: JsonBody<Value>,
) -> Result<Json<FindingList>, ApiError> {
    let proposal = project::create(body.value, app.services.engine.now()).map_err(invalid)?;
    Ok(Json(app.cases.test_new_project(&caller, proposal).await?.into()))
}

/// Test a change to a project
///
/// Takes the same body as changing the project, and stores nothing. Tests whether jobs can then work on the repository
/// with its credential, and whether webhooks arrive. If it cannot be read or pushed to, the response is 422 with the
/// reason.
#[utoipa::path(post, path = "/v2/projects/{projectId}/test", tag = "Projects", operation_id = "testProject",
    params(ProjectPath), request_body = ProjectChanges,
    responses((status = 200, description = "The repository can be read; the findings", body = FindingList), TestErrors))]
pub(crate) async fn test(
    State(app): State<App>,
    at: InProject,
    Administrator(caller): Administrator,
    body: JsonBody<Value>,
) -> Result<Json<FindingList>, ApiError> {
    Ok(Json(app.cases.test_project(&caller, &at.project, edit(body.value)).await?.into()))
}

/// Get a project
///
/// Returns the project with its settings and the names of its secrets. The values of secrets are never returned.
#[utoipa::path(get, path = "/v2/projects/{projectId}", tag = "Projects", operation_id = "getProject",
    params(ProjectPath),
    responses((status = 200, description = "The project", body = Project), GetErrors))]
pub(crate) async fn get(State(app): State<App>, at: InProject, headers: HeaderMap) -> Result<Response, ApiError> {
    let project = app.cases.project(&at.caller, &at.project).await?;
    Ok(conditional(&tag_of(project.version), project::show(&project, &app.settings.public_url), &headers))
}

/// Change a project
///
/// Takes a JSON merge patch (RFC 7396): omitted fields keep their values, and `null` restores a field's default or
/// removes a secret or variable. Concurrent changes to different fields are all kept. With `If-Match`, the change is
/// refused if the project has changed since the client read it.
#[utoipa::path(patch, path = "/v2/projects/{projectId}", tag = "Projects", operation_id = "changeProject",
    params(ProjectPath, IfMatchHeader), request_body = ProjectChanges,
    responses((status = 200, description = "The project", body = Project), ChangeErrors))]
pub(crate) async fn change(
    State(app): State<App>,
    at: InProject,
    Administrator(caller): Administrator,
    IfMatch(precondition): IfMatch,
    body: JsonBody<Value>,
) -> Result<Response, ApiError> {
    let changed = app.cases.change_project(&caller, &at.project, precondition, edit(body.value)).await?;
    Ok((etag(changed.version), Json(project::show(&changed, &app.settings.public_url))).into_response())
}

/// Delete a project
///
/// Deletes the project with its jobs, their logs, and its secrets. Its repository on the built-in code host is removed
/// afterward with its branches, pull requests and objects of Git LFS, unless another project uses it; a repository
/// elsewhere stays. The request is refused while jobs are active.
#[utoipa::path(delete, path = "/v2/projects/{projectId}", tag = "Projects", operation_id = "deleteProject",
    params(ProjectPath, IfMatchHeader),
    responses((status = 204, description = "The project is deleted"), DeleteErrors))]
pub(crate) async fn delete(
    State(app): State<App>,
    at: InProject,
    Administrator(caller): Administrator,
    IfMatch(precondition): IfMatch,
) -> Result<StatusCode, ApiError> {
    app.cases.delete_project(&caller, &at.project, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the edit that a merge patch describes.
fn edit(patch: Value) -> ProjectEdit {
    Box::new(move |project| project::change(project, patch.clone()))
}

fn invalid(text: String) -> ApiError {
    ApiError::bad_request(ErrorCode::InvalidBody, text)
}
