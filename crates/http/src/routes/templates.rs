//! The operations on the templates of a project. All who see the project read them; an administrator manages them.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::Answered;
use journeyman_core::ids::TemplateId;
use journeyman_core::resource::not_found;
use journeyman_core::template;

use crate::answer::created;
use crate::app::App;
use crate::conditional::{IfMatch, conditional, etag, tag_of};
use crate::error::ApiError;
use crate::extract::{IdempotencyKey, InProject, JsonBody, Parameters, segment};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, ProjectPath, errors};
use crate::page::{self, PageQuery};
use crate::wire::template::{ChangeTemplate, CreateTemplate, Template, TemplateList};

errors!(ListErrors: 400, 401, 403, 404, 503);
errors!(CreateErrors: 400, 401, 403, 404, 409, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ChangeErrors: 400, 401, 403, 404, 409, 412, 413, 415, 503, 504);
errors!(RemoveErrors: 401, 403, 404, 412, 503, 504);

/// A project whose templates the caller may change. Other callers are refused before the rest of the request is read.
pub(crate) struct TemplatesOf(InProject);

impl FromRequestParts<App> for TemplatesOf {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let at = InProject::from_request_parts(parts, state).await?;
        at.caller.needs_administrator()?;
        Ok(Self(at))
    }
}

/// The ID of the template in a path, and its project, for callers who may change it.
pub(crate) struct ChangeableTemplate {
    at: InProject,
    id: TemplateId,
}

impl FromRequestParts<App> for ChangeableTemplate {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let TemplatesOf(at) = TemplatesOf::from_request_parts(parts, state).await?;
        Ok(Self { at, id: template_of(parts, state).await? })
    }
}

/// The ID of the template in a path, and its project, for callers who see the project.
pub(crate) struct InTemplate {
    at: InProject,
    id: TemplateId,
}

impl FromRequestParts<App> for InTemplate {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let at = InProject::from_request_parts(parts, state).await?;
        Ok(Self { at, id: template_of(parts, state).await? })
    }
}

/// Parses the ID in a path. An ID that is not valid gets the same answer as one that does not exist.
async fn template_of(parts: &mut Parts, state: &App) -> Result<TemplateId, ApiError> {
    let id = segment(parts, state, "id").await.and_then(|id| id.parse().ok());
    id.ok_or_else(|| not_found::<journeyman_core::template::Template>().into())
}

/// List templates
///
/// Returns the templates of the project in pages, by name. A page with much text ends before `limit`.
#[utoipa::path(get, path = "/v2/projects/{projectId}/templates", tag = "Templates", operation_id = "listTemplates",
    params(ProjectPath, PageQuery),
    responses((status = 200, description = "A page of templates", body = TemplateList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    at: InProject,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<TemplateList>, ApiError> {
    let (limit, after) = query.read::<TemplateId>()?;
    let mut templates = app.cases.templates(&at.caller, &at.project).await?;
    page::begin_after(&mut templates, after, |template| template.id);
    let size = |template: &template::Template| template.settings.prompt.len();
    let next_cursor = page::cut_by_size(&mut templates, limit, size, |template| template.id.to_string());
    Ok(Json(TemplateList { templates: templates.into_iter().map(Template::from).collect(), next_cursor }))
}

/// Create a template
///
/// Stores a prompt under a name. A client that creates a job from a template copies the prompt, the agent, the model and
/// the labels into its request; a later change of the template does not affect the job.
#[utoipa::path(post, path = "/v2/projects/{projectId}/templates", tag = "Templates", operation_id = "createTemplate",
    params(ProjectPath, IdempotencyHeader), request_body = CreateTemplate,
    responses((status = 201, description = "The template", body = Template), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    TemplatesOf(at): TemplatesOf,
    key: IdempotencyKey,
    body: JsonBody<CreateTemplate>,
) -> Result<Response, ApiError> {
    let idempotency = key.of(&format!("create template {}", at.project), &body.bytes);
    let answer = |made: &template::Template| serde_json::to_string(&Template::from(made.clone())).unwrap_or_default();
    let made = app.cases.create_template(&at.caller, &at.project, body.value.into(), idempotency, answer).await?;
    let (body, is_replay) = match made {
        Answered::New(made) => (answer(&made), false),
        Answered::Replayed(body) => (body, true),
    };
    Ok(created(&format!("/v2/projects/{}/templates", at.project), body, is_replay))
}

/// Get a template
///
/// Returns the template.
#[utoipa::path(get, path = "/v2/projects/{projectId}/templates/{id}", tag = "Templates", operation_id = "getTemplate",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the template")),
    responses((status = 200, description = "The template", body = Template), GetErrors))]
pub(crate) async fn get(State(app): State<App>, found: InTemplate, headers: HeaderMap) -> Result<Response, ApiError> {
    let template = app.cases.template(&found.at.caller, &found.at.project, found.id).await?;
    Ok(conditional(&tag_of(template.version), Template::from(template), &headers))
}

/// Change a template
///
/// Changes the given fields.
#[utoipa::path(patch, path = "/v2/projects/{projectId}/templates/{id}", tag = "Templates",
    operation_id = "changeTemplate",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the template"), IfMatchHeader),
    request_body = ChangeTemplate,
    responses((status = 200, description = "The template", body = Template), ChangeErrors))]
pub(crate) async fn change(
    State(app): State<App>,
    found: ChangeableTemplate,
    IfMatch(precondition): IfMatch,
    body: JsonBody<ChangeTemplate>,
) -> Result<Response, ApiError> {
    let InProject { caller, project } = &found.at;
    let changes = body.value;
    let edit = Box::new(move |known: &_| changes.apply(known));
    let changed = app.cases.change_template(caller, project, found.id, precondition, edit).await?;
    Ok((etag(changed.version), Json(Template::from(changed))).into_response())
}

/// Delete a template
///
/// Deletes the template. Jobs that were created from it stay as they are. Deleting it again changes nothing.
#[utoipa::path(delete, path = "/v2/projects/{projectId}/templates/{id}", tag = "Templates",
    operation_id = "deleteTemplate",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the template"), IfMatchHeader),
    responses((status = 204, description = "The template is deleted"), RemoveErrors))]
pub(crate) async fn delete(
    State(app): State<App>,
    found: ChangeableTemplate,
    IfMatch(precondition): IfMatch,
) -> Result<StatusCode, ApiError> {
    app.cases.remove_template(&found.at.caller, &found.at.project, found.id, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}
