//! Projects.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use journeyman_core::ports::{ForgeError, ProjectWriteError};
use journeyman_core::project::{Project as StoredProject, SecretChanges};
use journeyman_core::run::{Reason, ReasonCode};
use serde_json::Value;

use crate::app::App;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Administrator, InProject, JsonBody};
use crate::openapi::{ProjectPath, errors};
use crate::repository_host;
use crate::routes::jobs::check_agent;
use crate::wire::project::{self, CreateProject, Project, ProjectChanges, ProjectList};

errors!(ListErrors: 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 409, 413, 415, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ChangeErrors: 400, 401, 403, 404, 413, 415, 503, 504);
errors!(DeleteErrors: 401, 403, 404, 409, 503, 504);

/// List projects
///
/// Returns the projects that the key may see, ordered by id.
#[utoipa::path(get, path = "/v2/projects", tag = "Projects", operation_id = "listProjects",
    responses((status = 200, description = "All projects that the key may see", body = ProjectList), ListErrors))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<ProjectList>, ApiError> {
    let projects = app.services.store.projects().await?;
    let seen = projects.iter().filter(|project| caller.sees(&project.id));
    Ok(Json(ProjectList { projects: seen.map(|project| project::show(project, &app.settings.public_url)).collect() }))
}

/// Create a project
///
/// Needs `id` and `repository`; everything else has a default. The repository of `local:<name>` is made, empty, if it
/// is not there.
#[utoipa::path(post, path = "/v2/projects", tag = "Projects", operation_id = "createProject",
    request_body = CreateProject,
    responses((status = 201, description = "The project", body = Project), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    body: JsonBody<Value>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Project>), ApiError> {
    let invalid = |text| ApiError::bad_request(ErrorCode::InvalidBody, text);
    let (new, secrets) = project::create(body.value, app.services.engine.now()).map_err(invalid)?;
    check_agent(&app, &new.agent, &new.settings.sandbox)?;
    if app.services.store.project(new.id.clone()).await?.is_some() {
        return Err(ProjectWriteError::Exists.into());
    }
    let host = repository_host::admit(&app, &caller, &new.repository).await?;
    app.services.forges.prepare(&new).await.map_err(|error| not_prepared(&error))?;
    let created = app.services.store.create_project(new, secrets).await?;
    let subject = repository_host::subject(&created.id, host.as_ref());
    app.note(caller.audit(&app, "project.created", subject)).await;
    let location = [(LOCATION, format!("/v2/projects/{}", created.id))];
    Ok((StatusCode::CREATED, location, Json(project::show(&created, &app.settings.public_url))))
}

errors!(TestErrors: 400, 401, 403, 404, 409, 413, 415, 422, 503);

/// Test a project that is to be
///
/// Takes what creating one takes, and stores nothing: whether its repository can be read with its credential. 422 says
/// why not.
#[utoipa::path(post, path = "/v2/repository/test", tag = "Projects", operation_id = "testNewProject",
    request_body = CreateProject,
    responses((status = 204, description = "The repository can be read"), TestErrors))]
pub(crate) async fn test_new(
    State(app): State<App>,
    Administrator(caller): Administrator,
    body: JsonBody<Value>,
) -> Result<StatusCode, ApiError> {
    let invalid = |text| ApiError::bad_request(ErrorCode::InvalidBody, text);
    let (new, secrets) = project::create(body.value, app.services.engine.now()).map_err(invalid)?;
    check_agent(&app, &new.agent, &new.settings.sandbox)?;
    if app.services.store.project(new.id.clone()).await?.is_some() {
        return Err(ProjectWriteError::Exists.into());
    }
    reachable(&app, &caller, &new, &secrets).await
}

/// Test a change of a project
///
/// Takes what changing it takes, and stores nothing: whether its repository can then be read with its credential. 422
/// says why not.
#[utoipa::path(post, path = "/v2/projects/{projectId}/test", tag = "Projects", operation_id = "testProject",
    params(ProjectPath), request_body = ProjectChanges,
    responses((status = 204, description = "The repository can be read"), TestErrors))]
pub(crate) async fn test(
    State(app): State<App>,
    at: InProject,
    Administrator(caller): Administrator,
    body: JsonBody<Value>,
) -> Result<StatusCode, ApiError> {
    let invalid = |text| ApiError::bad_request(ErrorCode::InvalidBody, text);
    let (changed, secrets) = project::change(stored(&app, at).await?, body.value).map_err(invalid)?;
    reachable(&app, &caller, &changed, &secrets).await
}

async fn reachable(
    app: &App,
    caller: &Caller,
    project: &StoredProject,
    secrets: &SecretChanges,
) -> Result<StatusCode, ApiError> {
    if let Some(host) = repository_host::admit(app, caller, &project.repository).await? {
        // The test connects to the host, so the audit entry is written first.
        app.note(caller.audit(app, "repository.tested", repository_host::subject(&project.id, Some(&host)))).await;
    }
    let refused = |reason: Reason| {
        let code = match reason.code {
            ReasonCode::RepositoryNotFound => ErrorCode::RepositoryNotFound,
            ReasonCode::CredentialRefused => ErrorCode::CredentialRefused,
            _ => ErrorCode::RepositoryUnreachable,
        };
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, code, reason.text)
    };
    app.services.forges.check(project, secrets).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get a project
///
/// Returns the project with its settings and the names of its secrets. The values of secrets are never returned.
#[utoipa::path(get, path = "/v2/projects/{projectId}", tag = "Projects", operation_id = "getProject",
    params(ProjectPath), responses((status = 200, description = "The project", body = Project), GetErrors))]
pub(crate) async fn get(State(app): State<App>, at: InProject) -> Result<Json<Project>, ApiError> {
    Ok(Json(project::show(&stored(&app, at).await?, &app.settings.public_url)))
}

/// The project as the store has it: what is remembered of it may be older.
async fn stored(app: &App, at: InProject) -> Result<StoredProject, ApiError> {
    app.services.store.project(at.project).await?.ok_or_else(ApiError::project_not_found)
}

/// Change a project
///
/// A JSON merge patch: what is left out stays, `null` gives a field back its default and removes a secret or variable.
#[utoipa::path(patch, path = "/v2/projects/{projectId}", tag = "Projects", operation_id = "changeProject",
    params(ProjectPath), request_body = ProjectChanges,
    responses((status = 200, description = "The project", body = Project), ChangeErrors))]
pub(crate) async fn change(
    State(app): State<App>,
    at: InProject,
    Administrator(caller): Administrator,
    body: JsonBody<Value>,
) -> Result<Json<Project>, ApiError> {
    let current = stored(&app, at).await?;
    let (agent, repository, sandbox) =
        (current.agent.clone(), current.repository.clone(), current.settings.sandbox.clone());
    let invalid = |text| ApiError::bad_request(ErrorCode::InvalidBody, text);
    let (changed, secrets) = project::change(current, body.value).map_err(invalid)?;
    // An agent that was taken out of the configuration since must not keep other fields from being changed.
    if changed.agent != agent || changed.settings.sandbox != sandbox {
        check_agent(&app, &changed.agent, &changed.settings.sandbox)?;
    }
    let mut host = None;
    if changed.repository != repository {
        host = repository_host::admit(&app, &caller, &changed.repository).await?;
        app.services.forges.prepare(&changed).await.map_err(|error| not_prepared(&error))?;
    }
    let changed = app.services.store.update_project(changed, secrets).await?;
    app.known.forget();
    let subject = repository_host::subject(&changed.id, host.as_ref());
    app.note(caller.audit(&app, "project.changed", subject)).await;
    Ok(Json(project::show(&changed, &app.settings.public_url)))
}

/// Delete a project
///
/// With its jobs, their logs and its secrets; its repository stays. Refused while jobs are active.
#[utoipa::path(delete, path = "/v2/projects/{projectId}", tag = "Projects", operation_id = "deleteProject",
    params(ProjectPath), responses((status = 204, description = "It is gone"), DeleteErrors))]
pub(crate) async fn delete(
    State(app): State<App>,
    at: InProject,
    Administrator(caller): Administrator,
) -> Result<StatusCode, ApiError> {
    app.services.store.delete_project(at.project.clone()).await?;
    app.known.forget();
    app.note(caller.audit(&app, "project.deleted", &at.project)).await;
    Ok(StatusCode::NO_CONTENT)
}

fn not_prepared(error: &ForgeError) -> ApiError {
    ApiError::internal(&format!("a repository on the built-in code host could not be made: {error}"))
}
