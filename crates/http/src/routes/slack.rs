//! The operations on Slack workspaces. Only an administrator manages them: a connected account acts as its user.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Answered, DescribedSlack};
use journeyman_core::ids::SlackWorkspaceId;
use journeyman_core::resource::not_found;

use crate::answer::created;
use crate::app::App;
use crate::conditional::{IfMatch, conditional, etag, tag_of};
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Administrator, Authenticated, IdempotencyKey, JsonBody, Parameters};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, errors};
use crate::page::{self, PageQuery};
use crate::wire::code_host::FindingList;
use crate::wire::slack::{
    ChangeSlackWorkspace, SlackCode, SlackEventPage, SlackPostPage, SlackWorkspace, SlackWorkspaceList, show,
};

errors!(ListErrors: 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 409, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ChangeErrors: 400, 401, 403, 404, 412, 413, 415, 422, 503, 504);
errors!(RemoveErrors: 401, 403, 404, 412, 503, 504);
errors!(CodeErrors: 401, 403, 503, 504);
errors!(PageErrors: 400, 401, 403, 404, 503);

fn shown(app: &App, described: &DescribedSlack) -> SlackWorkspace {
    show(described, app.cases.slack_url(described.workspace.id))
}

/// Parses the ID in a path. An ID that is not valid gets the same answer as one that does not exist.
fn parsed(id: &str) -> Result<SlackWorkspaceId, ApiError> {
    id.parse().map_err(|_| not_found::<journeyman_core::slack::SlackWorkspace>().into())
}

fn invalid(text: String) -> ApiError {
    ApiError::bad_request(ErrorCode::InvalidBody, text)
}

/// List Slack workspaces
///
/// Returns all connected workspaces, oldest first, without secrets.
#[utoipa::path(get, path = "/v2/slack/workspaces", tag = "Slack", operation_id = "listSlackWorkspaces",
    responses((status = 200, description = "The workspaces", body = SlackWorkspaceList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    Administrator(caller): Administrator,
) -> Result<Json<SlackWorkspaceList>, ApiError> {
    let found = app.cases.slack_workspaces(&caller).await?;
    Ok(Json(SlackWorkspaceList { workspaces: found.iter().map(|one| shown(&app, one)).collect() }))
}

/// Connect a Slack workspace
///
/// Asks Slack for the workspace of the bot token, and stores it. Secrets are stored encrypted and never returned.
#[utoipa::path(post, path = "/v2/slack/workspaces", tag = "Slack", operation_id = "createSlackWorkspace",
    params(IdempotencyHeader), request_body = ChangeSlackWorkspace,
    responses((status = 201, description = "The workspace", body = SlackWorkspace), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    key: IdempotencyKey,
    body: JsonBody<ChangeSlackWorkspace>,
) -> Result<Response, ApiError> {
    let idempotency = key.of("create slack workspace", &body.bytes);
    let edit = body.value.read().map_err(invalid)?;
    let answer = |described: &DescribedSlack| serde_json::to_string(&shown(&app, described)).unwrap_or_default();
    let made = app.cases.create_slack_workspace(&caller, edit, idempotency, answer).await?;
    let (body, is_replay) = match made {
        Answered::New(described) => (answer(&described), false),
        Answered::Replayed(body) => (body, true),
    };
    Ok(created("/v2/slack/workspaces", body, is_replay))
}

/// Get a Slack workspace
///
/// Returns the workspace, and which of its secrets are set.
#[utoipa::path(get, path = "/v2/slack/workspaces/{id}", tag = "Slack", operation_id = "getSlackWorkspace",
    params(("id" = String, Path, description = "The ID of the workspace")),
    responses((status = 200, description = "The workspace", body = SlackWorkspace), GetErrors))]
pub(crate) async fn get(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.cases.slack_workspace(&caller, parsed(&id)?).await?;
    Ok(conditional(&tag_of(found.workspace.version), shown(&app, &found), &headers))
}

/// Change a Slack workspace
///
/// Changes the given fields, and connects and disconnects channels and people.
#[utoipa::path(patch, path = "/v2/slack/workspaces/{id}", tag = "Slack", operation_id = "changeSlackWorkspace",
    params(("id" = String, Path, description = "The ID of the workspace"), IfMatchHeader),
    request_body = ChangeSlackWorkspace,
    responses((status = 200, description = "The workspace", body = SlackWorkspace), ChangeErrors))]
pub(crate) async fn change(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
    body: JsonBody<ChangeSlackWorkspace>,
) -> Result<Response, ApiError> {
    let edit = body.value.read().map_err(invalid)?;
    let changed = app.cases.change_slack_workspace(&caller, parsed(&id)?, precondition, edit).await?;
    Ok((etag(changed.workspace.version), Json(shown(&app, &changed))).into_response())
}

/// Remove a Slack workspace
///
/// Removes the workspace with its secrets, events, threads and posts. Jobs stay. Removing it again changes nothing.
#[utoipa::path(delete, path = "/v2/slack/workspaces/{id}", tag = "Slack", operation_id = "removeSlackWorkspace",
    params(("id" = String, Path, description = "The ID of the workspace"), IfMatchHeader),
    responses((status = 204, description = "The workspace is removed"), RemoveErrors))]
pub(crate) async fn remove(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
) -> Result<StatusCode, ApiError> {
    app.cases.remove_slack_workspace(&caller, parsed(&id)?, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Test a Slack workspace
///
/// Tests whether Slack accepts the tokens, whether events arrive, and whether posts are accepted. Stores nothing. The
/// response is 200 also if a test fails; see `health` of each finding.
#[utoipa::path(post, path = "/v2/slack/workspaces/{id}/check", tag = "Slack", operation_id = "checkSlackWorkspace",
    params(("id" = String, Path, description = "The ID of the workspace")),
    responses((status = 200, description = "The findings", body = FindingList), GetErrors))]
pub(crate) async fn check(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
) -> Result<Json<FindingList>, ApiError> {
    Ok(Json(app.cases.check_slack_workspace(&caller, parsed(&id)?).await?.into()))
}

/// List the events of a Slack workspace
///
/// Returns the mentions, replies and direct messages, newest first, and what became of each.
#[utoipa::path(get, path = "/v2/slack/workspaces/{id}/events", tag = "Slack", operation_id = "listSlackEvents",
    params(("id" = String, Path, description = "The ID of the workspace"), PageQuery),
    responses((status = 200, description = "A page of events", body = SlackEventPage), PageErrors))]
pub(crate) async fn events(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<SlackEventPage>, ApiError> {
    let (limit, before) = query.read::<u64>()?;
    let mut events = app.cases.slack_events(&caller, parsed(&id)?, before, limit + 1).await?;
    let next_cursor = page::cut(&mut events, limit, |event| event.number.to_string());
    Ok(Json(SlackEventPage { events: events.into_iter().map(Into::into).collect(), next_cursor }))
}

/// List the posts to a Slack workspace
///
/// Returns what the server writes to Slack, newest first, with the error of each post that failed.
#[utoipa::path(get, path = "/v2/slack/workspaces/{id}/posts", tag = "Slack", operation_id = "listSlackPosts",
    params(("id" = String, Path, description = "The ID of the workspace"), PageQuery),
    responses((status = 200, description = "A page of posts", body = SlackPostPage), PageErrors))]
pub(crate) async fn posts(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<SlackPostPage>, ApiError> {
    let (limit, before) = query.read::<u64>()?;
    let mut posts = app.cases.slack_posts(&caller, parsed(&id)?, before, limit + 1).await?;
    let next_cursor = page::cut(&mut posts, limit, |post| post.number.to_string());
    Ok(Json(SlackPostPage { posts: posts.into_iter().map(Into::into).collect(), next_cursor }))
}

/// Create a code for a Slack account
///
/// The user sends `link CODE` to the bot in a direct message within ten minutes, and is then known in Slack. Needs an API
/// key of a user, for all projects and with the scope `write`. An earlier code of the user is no longer valid.
#[utoipa::path(post, path = "/v2/slack/code", tag = "Slack", operation_id = "createSlackCode",
    responses((status = 200, description = "The code, which is shown once", body = SlackCode), CodeErrors))]
pub(crate) async fn code(State(app): State<App>, Authenticated(caller): Authenticated) -> Result<Response, ApiError> {
    let (code, expires_at) = app.cases.create_slack_code(&caller).await?;
    let body = SlackCode { code, expires_at: expires_at.to_string() };
    Ok(([(CACHE_CONTROL, "no-store")], Json(body)).into_response())
}
