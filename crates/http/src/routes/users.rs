//! The operations on users, which only an administrator manages. Links to set a password are secrets: they are in the
//! response to their creation and, encrypted, in the stored response of an idempotency key.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, ETAG};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Answered, CreatedLink, CreatedUser as Created};
use journeyman_core::ids::UserId;
use journeyman_core::refusal::{Refusal, ResourceKind};
use journeyman_core::user;

use crate::answer::{created_unused, renewed};
use crate::app::App;
use crate::conditional::{IfMatch, conditional, tag_of_use};
use crate::error::ApiError;
use crate::extract::{Administrator, IdempotencyKey, JsonBody, Parameters};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, errors};
use crate::page::{self, PageQuery};
use crate::wire::user::{ChangeUser, CreateUser, CreatedUser, Role, User, UserLink, UserList};

errors!(ListErrors: 400, 401, 403, 503);
errors!(CreateErrors: 400, 401, 403, 409, 413, 415, 422, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ChangeErrors: 400, 401, 403, 404, 409, 412, 413, 415, 503, 504);
errors!(LinkErrors: 400, 401, 403, 404, 409, 422, 503, 504);

/// List users
///
/// Returns the users of the dashboard in pages, sorted by name, including disabled ones.
#[utoipa::path(get, path = "/v2/users", tag = "Users", operation_id = "listUsers", params(PageQuery),
    responses((status = 200, description = "A page of users, including disabled ones", body = UserList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<UserList>, ApiError> {
    let (limit, after) = query.read::<UserId>()?;
    let mut users = app.cases.users(&caller).await?;
    // Users are neither deleted nor renamed, so the user of a cursor keeps its position.
    let next_cursor = page::cut_after(&mut users, after, limit, |user| user.id);
    Ok(Json(UserList { users: users.into_iter().map(User::from).collect(), next_cursor }))
}

/// Create a user
///
/// Creates a user without a password, and a link with which the user sets one within seven days. Only this response
/// contains the link: the server stores a hash of it. A repetition with the same idempotency key returns the same link
/// for 24 hours.
#[utoipa::path(post, path = "/v2/users", tag = "Users", operation_id = "createUser",
    params(IdempotencyHeader), request_body = CreateUser,
    responses((status = 201, description = "The user with the link", body = CreatedUser), CreateErrors))]
pub(crate) async fn create(
    State(app): State<App>,
    Administrator(caller): Administrator,
    key: IdempotencyKey,
    body: JsonBody<CreateUser>,
) -> Result<Response, ApiError> {
    let idempotency = key.of("create user", &body.bytes);
    let CreateUser { name, role } = body.value;
    let role = role.unwrap_or(Role::Member).into();
    let answer = |created: &Created| serde_json::to_string(&CreatedUser::from(created.clone())).unwrap_or_default();
    let (body, is_replay) = match app.cases.create_user(&caller, &name, role, idempotency, answer).await? {
        Answered::New(created) => (answer(&created), false),
        Answered::Replayed(body) => (body, true),
    };
    Ok(([(CACHE_CONTROL, "no-store")], created_unused("/v2/users", body, is_replay)).into_response())
}

/// Get a user
///
/// Returns the user.
#[utoipa::path(get, path = "/v2/users/{id}", tag = "Users", operation_id = "getUser",
    params(("id" = String, Path, description = "The ID of the user")),
    responses((status = 200, description = "The user", body = User), GetErrors))]
pub(crate) async fn get(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.cases.user(&caller, parsed(&id)?).await?;
    Ok(conditional(&tag(&found), User::from(found), &headers))
}

/// Change a user
///
/// Gives the user another role, disables or enables the user, and disconnects the user from the OpenID provider. Keys
/// that exceed the new role are revoked: all keys of a viewer, and those keys of a member that are for all projects.
/// Disabling ends the sessions of the user, deletes the links, and revokes the keys. The last administrator who may sign
/// in can be neither disabled nor given another role (`last_administrator`). Disconnecting ends the sessions of the user,
/// who needs a password to sign in (`password_missing`); only the user can connect an account (`identity_missing`).
#[utoipa::path(patch, path = "/v2/users/{id}", tag = "Users", operation_id = "changeUser",
    params(("id" = String, Path, description = "The ID of the user"), IfMatchHeader), request_body = ChangeUser,
    responses((status = 200, description = "The user", body = User), ChangeErrors))]
pub(crate) async fn change(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    IfMatch(precondition): IfMatch,
    body: JsonBody<ChangeUser>,
) -> Result<Response, ApiError> {
    let changed = app.cases.change_user(&caller, parsed(&id)?, precondition, body.value.into()).await?;
    Ok(([(ETAG, tag(&changed))], Json(User::from(changed))).into_response())
}

/// Create a link for a user
///
/// Creates a link with which the user sets a password once, within seven days, for example a forgotten one. Earlier links
/// of the user are no longer valid. Only this response contains the link. A repetition with the same idempotency key
/// returns the same link for 24 hours.
#[utoipa::path(post, path = "/v2/users/{id}/link", tag = "Users", operation_id = "createUserLink",
    params(("id" = String, Path, description = "The ID of the user"), IdempotencyHeader),
    responses((status = 200, description = "The link", body = UserLink), LinkErrors))]
pub(crate) async fn link(
    State(app): State<App>,
    Administrator(caller): Administrator,
    Path(id): Path<String>,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let id = parsed(&id)?;
    let idempotency = key.of(&format!("create link of user {id}"), &[]);
    let answer = |created: &CreatedLink| serde_json::to_string(&UserLink::from(created.clone())).unwrap_or_default();
    Ok(match app.cases.create_link(&caller, id, idempotency, answer).await? {
        Answered::New(created) => renewed(answer(&created), false),
        Answered::Replayed(body) => renewed(body, true),
    })
}

/// Returns the entity tag of a user. A sign-in does not change the version, but it changes the body.
fn tag(user: &user::User) -> String {
    tag_of_use(user.version, user.signed_in_at)
}

/// Parses the ID in a path. An ID that is not valid gets the same answer as one that does not exist.
fn parsed(id: &str) -> Result<UserId, ApiError> {
    id.parse().map_err(|_| Refusal::not_found(ResourceKind::User).into())
}
