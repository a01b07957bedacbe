//! The operations on API keys. A key that is limited to projects cannot manage keys, because it could create a key for
//! all projects. In the dashboard, a member manages only the member's own keys, which are limited to projects.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Actor, Answered, CreatedKey as Created};
use journeyman_core::ids::KeyId;
use journeyman_core::key::ApiKey;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::answer::{created_unused, renewed, with_tag};
use crate::app::App;
use crate::conditional::{IfMatch, conditional, tag_of_use};
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Administrator, IdempotencyKey, JsonBody, OptionalBody, Parameters};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, errors};
use crate::page::{self, PageQuery};
use crate::wire::key::{CreateKey, CreatedKey, Key, KeyList, KeyOrigin, RotateKey};

errors!(ListErrors: 400, 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 404, 413, 415, 422, 503, 504);
errors!(RotateErrors: 400, 401, 403, 404, 409, 412, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(RevokeErrors: 401, 403, 404, 412, 503, 504);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct KeysQuery {
    /// The maximum number of entries on the page; by default, 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// The `nextCursor` of the previous page.
    #[param(min_length = 1)]
    cursor: Option<String>,
    /// How the keys were made; by default, `created`.
    #[param(inline)]
    origin: Option<KeyOrigin>,
}

/// List keys
///
/// Returns the keys in pages, newest first, including revoked ones, without secrets. Keys that were exchanged for tokens
/// have a list of their own, with `origin=exchanged`.
#[utoipa::path(get, path = "/v2/keys", tag = "Keys", operation_id = "listKeys", params(KeysQuery),
    responses((status = 200, description = "A page of keys, including revoked ones", body = KeyList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Parameters(query): Parameters<KeysQuery>,
) -> Result<Json<KeyList>, ApiError> {
    let KeysQuery { limit, cursor, origin } = query;
    let (limit, after) = PageQuery { limit, cursor }.read()?;
    let mut keys = app.cases.keys_after(&caller, origin.unwrap_or_default().into(), after, limit + 1).await?;
    let next_cursor = page::cut(&mut keys, limit, |key| key.id.to_string());
    Ok(Json(KeyList { keys: keys.into_iter().map(Into::into).collect(), next_cursor }))
}

/// Create a key
///
/// Only this response contains the secret: the server stores a hash of it. A repetition with the same idempotency key
/// returns the same secret for 24 hours. A key cannot create one that allows more than itself, and the new key ends when
/// the key that has created it ends.
#[utoipa::path(post, path = "/v2/keys", tag = "Keys", operation_id = "createKey",
    params(IdempotencyHeader), request_body = CreateKey,
    responses((status = 201, description = "The key with its secret", body = CreatedKey), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    key: IdempotencyKey,
    body: JsonBody<CreateKey>,
) -> Result<Response, ApiError> {
    let invalid = |text| ApiError::bad_request(ErrorCode::InvalidBody, text);
    let parent = match &caller.actor {
        Actor::Key(key) => Some(&**key),
        _ => None,
    };
    let new = body.value.read(app.services.engine.now(), parent).map_err(invalid)?;
    let answer = |created: &Created| serde_json::to_string(&shown(created.clone())).unwrap_or_default();
    let (body, is_replay) = match app.cases.create_key(&caller, new, key.of("create key", &body.bytes), answer).await? {
        Answered::New(key) => (answer(&key), false),
        Answered::Replayed(body) => (body, true),
    };
    Ok(([(CACHE_CONTROL, "no-store")], created_unused("/v2/keys", body, is_replay)).into_response())
}

/// Rotate a key
///
/// Gives the key a new secret, which only this response contains. The key keeps its ID, its scopes and its expiration.
/// The old secret is refused at once, or after `keepOldSeconds`. A repetition with the same idempotency key returns the
/// same secret for 24 hours.
#[utoipa::path(post, path = "/v2/keys/{id}/rotate", tag = "Keys", operation_id = "rotateKey",
    params(("id" = String, Path, description = "The ID of the key"), IdempotencyHeader, IfMatchHeader),
    request_body(content = Option<RotateKey>),
    responses((status = 200, description = "The key with its new secret", body = CreatedKey), RotateErrors))]
pub(crate) async fn rotate(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    key: IdempotencyKey,
    IfMatch(precondition): IfMatch,
    body: OptionalBody<RotateKey>,
) -> Result<Response, ApiError> {
    let id: KeyId = id.parse().map_err(|_| ApiError::key_not_found())?;
    let overlap = Duration::from_secs(body.value.keep_old_seconds);
    let answer = |created: &Created| {
        let body = serde_json::to_string(&shown(created.clone())).unwrap_or_default();
        with_tag(&body, &tag_of_key(&created.key))
    };
    let idempotency = key.of(&format!("rotate key {id}"), &body.bytes);
    let rotated = app.cases.rotate_key(&caller, id, overlap, precondition, idempotency, answer).await?;
    Ok(match rotated {
        Answered::New(made) => renewed(answer(&made), false),
        Answered::Replayed(body) => renewed(body, true),
    })
}

/// Get a key
///
/// Returns the key without its secret.
#[utoipa::path(get, path = "/v2/keys/{id}", tag = "Keys", operation_id = "getKey",
    params(("id" = String, Path, description = "The ID of the key")),
    responses((status = 200, description = "The key", body = Key), GetErrors))]
pub(crate) async fn get(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = app.cases.key(&caller, id.parse().map_err(|_| ApiError::key_not_found())?).await?;
    Ok(conditional(&tag_of_key(&key), Key::from(key), &headers))
}

/// Returns the entity tag of a key.
pub(crate) fn tag_of_key(key: &ApiKey) -> String {
    tag_of_use(key.version, key.last_used_at)
}

/// Revoke a key
///
/// Takes effect at once. Revoking a key again changes nothing.
#[utoipa::path(delete, path = "/v2/keys/{id}", tag = "Keys", operation_id = "revokeKey",
    params(("id" = String, Path, description = "The ID of the key"), IfMatchHeader),
    responses((status = 204, description = "The key is revoked"), RevokeErrors))]
pub(crate) async fn revoke(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
) -> Result<StatusCode, ApiError> {
    let id: KeyId = id.parse().map_err(|_| ApiError::key_not_found())?;
    app.cases.revoke_key(&caller, id, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn shown(created: Created) -> CreatedKey {
    CreatedKey { key: created.key.into(), secret: created.secret }
}
