//! The operations on the webhooks of a project. Only an administrator manages them, because the URL of an endpoint may
//! contain a credential.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Answered, CreatedWebhook as Created};
use journeyman_core::ids::WebhookId;
use journeyman_core::ports::DeliveryFilter;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::answer::{created, renewed, with_tag};
use crate::app::App;
use crate::conditional::{IfMatch, conditional, tag_of};
use crate::error::{ApiError, ErrorCode};
use crate::extract::{IdempotencyKey, InProject, JsonBody, OptionalBody, Parameters, segment};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, ProjectPath, errors};
use crate::page::{self, PageQuery};
use crate::wire::key::RotateKey;
use crate::wire::webhook::{
    Attempt, ChangeWebhook, CreateWebhook, CreatedWebhook, DeliveryPage, DeliveryStatus, ReplayWebhook, Replayed,
    Webhook, WebhookDelivery, WebhookList,
};

errors!(ListErrors: 400, 401, 403, 404, 503);
errors!(CreateErrors: 400, 401, 403, 404, 409, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ChangeErrors: 400, 401, 403, 404, 412, 413, 415, 503, 504);
errors!(RotateErrors: 400, 401, 403, 404, 412, 413, 415, 422, 503, 504);
errors!(RemoveErrors: 401, 403, 404, 412, 503, 504);
errors!(TestErrors: 401, 403, 404, 503);
errors!(RedeliverErrors: 401, 403, 404, 409, 503, 504);
errors!(ReplayErrors: 400, 401, 403, 404, 409, 413, 415, 503, 504);

/// Returns the entity tag of a webhook. Attempts change what clients see, but not the version of the settings.
fn tag(webhook: &webhook::Webhook) -> String {
    let version = tag_of(webhook.version);
    match (webhook.failing_since, webhook.disabled) {
        (None, None) => version,
        (failing, disabled) => {
            let failing = failing.map_or(0, |at| at.as_micros());
            format!("{}.{failing}.{}\"", version.trim_end_matches('"'), u8::from(disabled.is_some()))
        }
    }
}

/// Returns the header with the entity tag of a webhook.
fn tagged(webhook: &webhook::Webhook) -> [(HeaderName, String); 1] {
    [(ETAG, tag(webhook))]
}

/// Converts an answer to JSON, which does not fail for these types.
fn json_text(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// A project whose webhooks the caller may manage. Other callers are refused before the rest of the request is read.
pub(crate) struct WebhooksOf(InProject);

impl FromRequestParts<App> for WebhooksOf {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let at = InProject::from_request_parts(parts, state).await?;
        at.caller.needs_administrator()?;
        Ok(Self(at))
    }
}

/// The ID of the webhook in a path, and its project.
pub(crate) struct InWebhook {
    at: InProject,
    id: WebhookId,
}

impl FromRequestParts<App> for InWebhook {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let WebhooksOf(at) = WebhooksOf::from_request_parts(parts, state).await?;
        let id = segment(parts, state, "id").await.and_then(|id| id.parse().ok());
        Ok(Self { at, id: id.ok_or_else(not_found)? })
    }
}

fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, ErrorCode::WebhookNotFound, "there is no such webhook")
}

/// List webhooks
///
/// Returns the webhooks of the project in pages, oldest first, without secrets.
#[utoipa::path(get, path = "/v2/projects/{projectId}/webhooks", tag = "Webhooks", operation_id = "listWebhooks",
    params(ProjectPath, PageQuery),
    responses((status = 200, description = "A page of webhooks", body = WebhookList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    WebhooksOf(at): WebhooksOf,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<WebhookList>, ApiError> {
    let (limit, after) = query.read()?;
    let mut webhooks = app.cases.webhooks_after(&at.caller, &at.project, after, limit + 1).await?;
    let next_cursor = page::cut(&mut webhooks, limit, |webhook| webhook.id.to_string());
    let now = app.services.engine.now();
    Ok(Json(WebhookList { webhooks: webhooks.into_iter().map(|one| Webhook::at(now, one)).collect(), next_cursor }))
}

/// Create a webhook
///
/// The endpoint receives the events from now on as `POST` requests that are signed as Standard Webhooks says. Only this
/// response contains the secret. Answer with a status of 200 to 299 within 10 seconds; other answers are attempted again
/// for about three days. The events of one job come in their order, each at least once and with the same `webhook-id`.
#[utoipa::path(post, path = "/v2/projects/{projectId}/webhooks", tag = "Webhooks", operation_id = "createWebhook",
    params(ProjectPath, IdempotencyHeader), request_body = CreateWebhook,
    responses((status = 201, description = "The webhook with its secret", body = CreatedWebhook), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    WebhooksOf(at): WebhooksOf,
    key: IdempotencyKey,
    body: JsonBody<CreateWebhook>,
) -> Result<Response, ApiError> {
    let idempotency = key.of(&format!("create webhook {}", at.project), &body.bytes);
    let now = app.services.engine.now();
    let answer = |made: &Created| json_text(&CreatedWebhook::at(now, made.clone()));
    let made = app.cases.create_webhook(&at.caller, &at.project, body.value.into(), idempotency, answer).await?;
    let (body, is_replay) = match made {
        Answered::New(made) => (answer(&made), false),
        Answered::Replayed(body) => (body, true),
    };
    let location = format!("/v2/projects/{}/webhooks", at.project);
    Ok(([(CACHE_CONTROL, "no-store")], created(&location, body, is_replay)).into_response())
}

/// Get a webhook
///
/// Returns the webhook without its secret.
#[utoipa::path(get, path = "/v2/projects/{projectId}/webhooks/{id}", tag = "Webhooks", operation_id = "getWebhook",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook")),
    responses((status = 200, description = "The webhook", body = Webhook), GetErrors))]
pub(crate) async fn get(State(app): State<App>, hook: InWebhook, headers: HeaderMap) -> Result<Response, ApiError> {
    let webhook = app.cases.webhook(&hook.at.caller, &hook.at.project, hook.id).await?;
    let tag = tag(&webhook);
    Ok(conditional(&tag, Webhook::at(app.services.engine.now(), webhook), &headers))
}

/// Change a webhook
///
/// Changes the given fields, and enables or disables the webhook.
#[utoipa::path(patch, path = "/v2/projects/{projectId}/webhooks/{id}", tag = "Webhooks",
    operation_id = "changeWebhook",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook"), IfMatchHeader),
    request_body = ChangeWebhook,
    responses((status = 200, description = "The webhook", body = Webhook), ChangeErrors))]
pub(crate) async fn change(
    State(app): State<App>,
    hook: InWebhook,
    IfMatch(precondition): IfMatch,
    body: JsonBody<ChangeWebhook>,
) -> Result<Response, ApiError> {
    let (changes, enable) = (body.value.clone(), body.value.enabled);
    let edit = move |known: &_| changes.apply(known);
    let changed =
        app.cases.change_webhook(&hook.at.caller, &hook.at.project, hook.id, precondition, edit, enable).await?;
    Ok((tagged(&changed), Json(Webhook::at(app.services.engine.now(), changed))).into_response())
}

/// Delete a webhook
///
/// Deletes the webhook with its deliveries. Deleting it again changes nothing.
#[utoipa::path(delete, path = "/v2/projects/{projectId}/webhooks/{id}", tag = "Webhooks",
    operation_id = "deleteWebhook",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook"), IfMatchHeader),
    responses((status = 204, description = "The webhook is deleted"), RemoveErrors))]
pub(crate) async fn delete(
    State(app): State<App>,
    hook: InWebhook,
    IfMatch(precondition): IfMatch,
) -> Result<StatusCode, ApiError> {
    app.cases.remove_webhook(&hook.at.caller, &hook.at.project, hook.id, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Rotate the secret of a webhook
///
/// Gives the webhook a new secret, which only this response contains. For `keepOldSeconds`, requests are signed with both
/// secrets, so that the receiver can change to the new one without losing events.
#[utoipa::path(post, path = "/v2/projects/{projectId}/webhooks/{id}/rotate", tag = "Webhooks",
    operation_id = "rotateWebhook",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook"), IdempotencyHeader, IfMatchHeader),
    request_body(content = Option<RotateKey>),
    responses((status = 200, description = "The webhook with its new secret", body = CreatedWebhook), RotateErrors))]
pub(crate) async fn rotate(
    State(app): State<App>,
    hook: InWebhook,
    key: IdempotencyKey,
    IfMatch(precondition): IfMatch,
    body: OptionalBody<RotateKey>,
) -> Result<Response, ApiError> {
    let overlap = Duration::from_secs(body.value.keep_old_seconds);
    let now = app.services.engine.now();
    let answer = |made: &Created| with_tag(&json_text(&CreatedWebhook::at(now, made.clone())), &tag(&made.webhook));
    let idempotency = key.of(&format!("rotate webhook {}", hook.id), &body.bytes);
    let InProject { caller, project } = &hook.at;
    let rotated =
        app.cases.rotate_webhook(caller, project, hook.id, overlap, precondition, idempotency, answer).await?;
    Ok(match rotated {
        Answered::New(made) => renewed(answer(&made), false),
        Answered::Replayed(body) => renewed(body, true),
    })
}

/// Test a webhook
///
/// Sends an example event to the endpoint once, now, and returns the result. The example is not in the list of deliveries.
#[utoipa::path(post, path = "/v2/projects/{projectId}/webhooks/{id}/test", tag = "Webhooks",
    operation_id = "testWebhook", params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook")),
    responses((status = 200, description = "The result", body = Attempt), TestErrors))]
pub(crate) async fn test(State(app): State<App>, hook: InWebhook) -> Result<Json<Attempt>, ApiError> {
    Ok(Json(app.cases.test_webhook(&hook.at.caller, &hook.at.project, hook.id).await?.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryQuery {
    /// Returns only deliveries in this state.
    #[param(inline)]
    state: Option<DeliveryStatus>,
    /// The maximum number of deliveries on the page; by default, 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// The `nextCursor` of the previous page.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

/// List deliveries
///
/// Returns the deliveries of a webhook with the results of their last attempts, in pages, newest first. They are stored
/// for 30 days.
#[utoipa::path(get, path = "/v2/projects/{projectId}/webhooks/{id}/deliveries", tag = "Webhooks",
    operation_id = "listDeliveries",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook"), DeliveryQuery),
    responses((status = 200, description = "A page of deliveries", body = DeliveryPage), ListErrors))]
pub(crate) async fn deliveries(
    State(app): State<App>,
    hook: InWebhook,
    Parameters(query): Parameters<DeliveryQuery>,
) -> Result<Json<DeliveryPage>, ApiError> {
    let limit = page::limit(query.limit, page::MOST)?;
    let before = query.cursor.as_deref().map(page::cursor).transpose()?;
    let filter = DeliveryFilter { webhook: hook.id, state: query.state.map(Into::into), before, limit: limit + 1 };
    let mut found = app.cases.deliveries(&hook.at.caller, &hook.at.project, filter).await?;
    let next_cursor = page::cut(&mut found, limit, |delivery| delivery.number.to_string());
    Ok(Json(DeliveryPage { deliveries: found.into_iter().map(WebhookDelivery::from).collect(), next_cursor }))
}

/// The ID of the delivery in a path, and its webhook.
pub(crate) struct InDelivery {
    hook: InWebhook,
    number: u64,
}

impl FromRequestParts<App> for InDelivery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let hook = InWebhook::from_request_parts(parts, state).await?;
        let number = segment(parts, state, "deliveryId").await.and_then(|number| number.parse().ok());
        let text = "the webhook has no such delivery, or its event is no longer stored";
        let missing = || ApiError::new(StatusCode::NOT_FOUND, ErrorCode::DeliveryNotFound, text);
        Ok(Self { hook, number: number.ok_or_else(missing)? })
    }
}

/// Deliver an event again
///
/// Makes the delivery pending and due now, also if it was delivered. The request has the same `webhook-id` as before.
#[utoipa::path(post, path = "/v2/projects/{projectId}/webhooks/{id}/deliveries/{deliveryId}/redeliver",
    tag = "Webhooks", operation_id = "redeliver",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook"),
        ("deliveryId" = String, Path, description = "The ID of the delivery")),
    responses((status = 202, description = "The delivery is pending"), RedeliverErrors))]
pub(crate) async fn redeliver(State(app): State<App>, at: InDelivery) -> Result<StatusCode, ApiError> {
    let InDelivery { hook, number } = at;
    app.cases.redeliver(&hook.at.caller, &hook.at.project, hook.id, number).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Replay events
///
/// Delivers all events since a time again that the webhook selects, also those that it has received, and those before it
/// was created. Events are stored for 30 days.
#[utoipa::path(post, path = "/v2/projects/{projectId}/webhooks/{id}/replay", tag = "Webhooks",
    operation_id = "replayWebhook",
    params(ProjectPath, ("id" = String, Path, description = "The ID of the webhook")), request_body = ReplayWebhook,
    responses((status = 202, description = "The number of deliveries", body = Replayed), ReplayErrors))]
pub(crate) async fn replay(
    State(app): State<App>,
    hook: InWebhook,
    body: JsonBody<ReplayWebhook>,
) -> Result<(StatusCode, Json<Replayed>), ApiError> {
    let invalid = |error| ApiError::bad_request(ErrorCode::InvalidBody, format!("since: {error}"));
    let since: Timestamp = body.value.since.parse().map_err(invalid)?;
    let deliveries = app.cases.replay_webhook(&hook.at.caller, &hook.at.project, hook.id, since).await?;
    Ok((StatusCode::ACCEPTED, Json(Replayed { deliveries })))
}
