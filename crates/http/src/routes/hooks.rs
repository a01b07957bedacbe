//! Webhooks of code hosts.
//!
//! A webhook has no API key: its signature is its credential. The body is read only if the code host is known and the
//! headers can be those of a signed webhook, so that strangers use little. The answer says that the webhook is stored; what becomes
//! of it shows in the inbox. The routes are not part of the OpenAPI document, because code hosts define the bodies.

use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use journeyman_app::{Holder, Received, SlackReceived};
use journeyman_core::ids::SlackWorkspaceId;
use journeyman_core::inbox::MOST_BYTES;
use journeyman_core::ports::{HookRefusal, RawHook, SignedRequest};
use journeyman_core::resource::not_found;
use journeyman_core::slack;
use serde_json::json;

use crate::app::App;
use crate::arrivals::GRACE;
use crate::auth::{client_address, mark_connection};
use crate::body::{declared_length, too_large};
use crate::error::{ApiError, ErrorCode};
use crate::limits;

/// Returns the routes of webhooks: of a code host, of one project on it, and of a Slack workspace.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/hooks/{codeHost}", post(of_host))
        .route("/hooks/{codeHost}/{projectId}", post(of_project))
        .route("/hooks/slack/{workspaceId}", post(of_slack))
}

/// Receives an event of Slack. Slack sends an event again unless it is answered with 200 within three seconds.
///
/// A code host can have the ID `slack`. No project has an ID of the form of a workspace's, so the path is not ambiguous.
async fn of_slack(State(app): State<App>, Path(id): Path<String>, request: Request) -> Result<Response, ApiError> {
    let unknown = || ApiError::from(not_found::<journeyman_core::slack::SlackWorkspace>());
    let Ok(id) = id.parse::<SlackWorkspaceId>() else { return receive(&app, "slack", Some(&id), request).await };
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let (timestamp, signature) = (header("x-slack-request-timestamp"), header("x-slack-signature"));
    check_length(&parts, slack::MOST_BYTES)?;
    match app.cases.check_slack_head(id, &timestamp, &signature).await {
        Ok(()) => {}
        Err(HookRefusal::NotFound) => return Err(unknown()),
        Err(refusal) => return Err(refused(refusal)),
    }
    let request = Request::from_parts(parts.clone(), body);
    let (body, _arrival) = app.hooks.read(request, slack::MOST_BYTES, sender(&app, &parts), GRACE).await?;
    let signed = SignedRequest { timestamp, signature, body: body.into() };
    let received = app.cases.receive_slack(id, &signed).await;
    mark_connection(&parts, received.is_ok());
    let status = match received {
        Ok(SlackReceived::Challenge(text)) => return Ok(Json(json!({ "challenge": text })).into_response()),
        Ok(SlackReceived::Stored) => "stored",
        Ok(SlackReceived::Known) => "known",
        Ok(SlackReceived::NotUsed) => "not_used",
        Err(HookRefusal::NotFound) => return Err(unknown()),
        Err(refusal) => return Err(refused(refusal)),
    };
    Ok(Json(json!({ "status": status })).into_response())
}

async fn of_host(State(app): State<App>, Path(host): Path<String>, request: Request) -> Result<Response, ApiError> {
    receive(&app, &host, None, request).await
}

async fn of_project(
    State(app): State<App>,
    Path((host, project)): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    receive(&app, &host, Some(&project), request).await
}

async fn receive(app: &App, host: &str, project: Option<&str>, request: Request) -> Result<Response, ApiError> {
    let host = host.parse().map_err(|_| refused(HookRefusal::NotFound))?;
    let project = project.map(str::parse).transpose().map_err(|_| refused(HookRefusal::NotFound))?;
    let (parts, body) = request.into_parts();
    check_length(&parts, MOST_BYTES)?;
    let mut hook = RawHook { headers: to_headers(&parts.headers), body: Vec::new() };
    match app.cases.check_hook_head(&host, project.as_ref(), &hook).await {
        Ok(()) => {}
        Err(HookRefusal::Test) => return Ok(Json(json!({ "status": "tested" })).into_response()),
        Err(refusal) => return Err(refused(refusal)),
    }
    let request = Request::from_parts(parts.clone(), body);
    let (body, _arrival) = app.hooks.read(request, MOST_BYTES, sender(app, &parts), GRACE).await?;
    hook.body = body.into();
    let received = app.cases.receive_hook(&host, project.as_ref(), hook).await;
    mark_connection(&parts, received.is_ok());
    let status = match received {
        Ok(Received::Stored) => "stored",
        Ok(Received::Known) => "known",
        Err(HookRefusal::Test) => return Ok(Json(json!({ "status": "tested" })).into_response()),
        Err(refusal) => return Err(refused(refusal)),
    };
    Ok((StatusCode::ACCEPTED, Json(json!({ "status": status }))).into_response())
}

/// Refuses a webhook that declares more bytes than it may have.
fn check_length(parts: &Parts, most: usize) -> Result<(), ApiError> {
    match declared_length(&parts.headers) {
        Some(length) if length > most => Err(too_large(most)),
        _ => Ok(()),
    }
}

fn sender(app: &App, parts: &Parts) -> Holder {
    limits::sender(client_address(app, parts))
}

/// Returns the headers whose values are text. No code host sends others.
fn to_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}

fn refused(refusal: HookRefusal) -> ApiError {
    let text = refusal.to_string();
    match refusal {
        HookRefusal::NotFound => ApiError::new(StatusCode::NOT_FOUND, ErrorCode::CodeHostNotFound, text),
        HookRefusal::NoSecret | HookRefusal::Signature | HookRefusal::Test => {
            ApiError::unauthorized("Signature", ErrorCode::InvalidSignature, text)
        }
        HookRefusal::Header(_) | HookRefusal::Unreadable(_) => ApiError::bad_request(ErrorCode::BadRequest, text),
        HookRefusal::Unavailable(detail) => {
            tracing::warn!(error = %detail, "a webhook could not be stored");
            ApiError::away(ErrorCode::StoreUnavailable, "the webhook could not be stored; send it again")
        }
    }
}
