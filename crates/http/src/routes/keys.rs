//! API keys. Only a key that sees all projects manages keys: it could make itself such a one otherwise.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use journeyman_core::ids::KeyId;
use journeyman_core::ports::AuditEntry;

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Administrator, JsonBody};
use crate::openapi::errors;
use crate::wire::key::{CreateKey, CreatedKey, KeyList};

errors!(ListErrors: 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 413, 415, 503, 504);
errors!(RevokeErrors: 401, 403, 404, 503, 504);

/// List keys
#[utoipa::path(get, path = "/v2/keys", tag = "Keys", operation_id = "listKeys",
    responses((status = 200, description = "All keys, revoked ones too, without secrets", body = KeyList), ListErrors))]
pub(crate) async fn list(State(app): State<App>, _: Administrator) -> Result<Json<KeyList>, ApiError> {
    let keys = app.services.store.keys().await?;
    Ok(Json(KeyList { keys: keys.into_iter().map(Into::into).collect() }))
}

/// Create a key
///
/// The secret is in this answer and nowhere else: only a hash of it is stored.
#[utoipa::path(post, path = "/v2/keys", tag = "Keys", operation_id = "createKey", request_body = CreateKey,
    responses((status = 201, description = "The key with its secret", body = CreatedKey), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    body: JsonBody<CreateKey>,
) -> Result<Response, ApiError> {
    let now = app.services.engine.now();
    let invalid = |text| ApiError::bad_request("invalid_body", text);
    let new = body.value.read(now).map_err(invalid)?;
    let (key, secret) = new.make(now, &*app.services.ids).map_err(|error| invalid(error.to_string()))?;
    let audit = audit(&app, &caller, "key.created", key.id);
    app.services.store.create_key(key.clone(), audit).await?;
    let created = CreatedKey { key: key.into(), secret };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(created)).into_response())
}

/// Revoke a key
///
/// At once; again is the same as once.
#[utoipa::path(delete, path = "/v2/keys/{id}", tag = "Keys", operation_id = "revokeKey", 
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 204, description = "It is revoked"), RevokeErrors))]
pub(crate) async fn revoke(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let unknown = || ApiError::new(StatusCode::NOT_FOUND, "key_not_found", "there is no such key");
    let id: KeyId = id.parse().map_err(|_| unknown())?;
    let audit = audit(&app, &caller, "key.revoked", id);
    let known = app.services.store.revoke_key(id, audit).await?;
    app.known.forget();
    if known { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

fn audit(app: &App, caller: &Caller, action: &str, subject: KeyId) -> AuditEntry {
    AuditEntry {
        at: app.services.engine.now(),
        actor: caller.key.id.to_string(),
        action: action.to_owned(),
        subject: subject.to_string(),
    }
}
