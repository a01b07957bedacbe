//! API keys. Only a key that sees all projects manages keys: it could make itself such a one otherwise. A member of the
//! dashboard manages keys of their own, which name the projects that they are for.

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use journeyman_core::ids::KeyId;
use journeyman_core::key::ApiKey;
use journeyman_core::user::Role;

use crate::app::App;
use crate::caller::{Caller, Who};
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Administrator, JsonBody, caller_of};
use crate::openapi::errors;
use crate::wire::key::{CreateKey, CreatedKey, KeyList};

errors!(ListErrors: 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 404, 413, 415, 503, 504);
errors!(RevokeErrors: 401, 403, 404, 503, 504);

/// List keys
///
/// Returns all keys, newest first, including revoked ones, without secrets.
#[utoipa::path(get, path = "/v2/keys", tag = "Keys", operation_id = "listKeys",
    responses((status = 200, description = "All keys, revoked ones too, without secrets", body = KeyList), ListErrors))]
pub(crate) async fn list(State(app): State<App>, keeper: Keeper) -> Result<Json<KeyList>, ApiError> {
    let mut keys = app.services.store.keys().await?;
    keys.retain(|key| keeper.keeps(key));
    Ok(Json(KeyList { keys: keys.into_iter().map(Into::into).collect() }))
}

/// Create a key
///
/// The secret is in this answer and nowhere else: only a hash of it is stored.
#[utoipa::path(post, path = "/v2/keys", tag = "Keys", operation_id = "createKey", request_body = CreateKey,
    responses((status = 201, description = "The key with its secret", body = CreatedKey), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Keeper(caller): Keeper,
    body: JsonBody<CreateKey>,
) -> Result<Response, ApiError> {
    let now = app.services.engine.now();
    let invalid = |text| ApiError::bad_request(ErrorCode::InvalidBody, text);
    let new = body.value.read(now).map_err(invalid)?;
    if !caller.is_administrator() && new.projects.is_none() {
        let text = "projects: name those that the key is for; only an administrator makes keys for all of them";
        return Err(ApiError::forbidden(ErrorCode::KeyLimited, text));
    }
    for project in new.projects.iter().flatten() {
        if app.services.store.project(project.clone()).await?.is_none() {
            let text = format!("projects: there is no project {project}; GET /v2/projects lists the projects");
            return Err(ApiError::new(StatusCode::NOT_FOUND, ErrorCode::ProjectNotFound, text));
        }
    }
    let made = new.make((&caller.id(), caller.owner()), now, &*app.services.ids);
    let (key, secret) = made.map_err(|error| invalid(error.to_string()))?;
    let audit = caller.audit(&app, "key.created", key.id);
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
    keeper: Keeper,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let unknown = || ApiError::new(StatusCode::NOT_FOUND, ErrorCode::KeyNotFound, "there is no such key");
    let id: KeyId = id.parse().map_err(|_| unknown())?;
    if !keeper.0.is_administrator() {
        let keys = app.services.store.keys().await?;
        keys.iter().find(|key| key.id == id).filter(|key| keeper.keeps(key)).ok_or_else(unknown)?;
    }
    let known = app.services.store.revoke_key(id, keeper.0.audit(&app, "key.revoked", id)).await?;
    app.known.forget();
    if known { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

/// A caller who may manage keys: all of them, or, a member of the dashboard, their own.
pub(crate) struct Keeper(Caller);

impl Keeper {
    fn keeps(&self, key: &ApiKey) -> bool {
        self.0.is_administrator() || key.creator == Some(self.0.id())
    }
}

impl FromRequestParts<App> for Keeper {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = caller_of(parts)?;
        match &caller.who {
            Who::User(user) if user.role == Role::Member => Ok(Self(caller)),
            _ => Administrator::from_request_parts(parts, app).await.map(|Administrator(caller)| Self(caller)),
        }
    }
}
