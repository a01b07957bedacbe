//! `GET` and `POST /setup`: a link is used up, by the first administrator or by somebody who needs a new password.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::REFERRER_POLICY;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{StoreError, UserWriteError};
use journeyman_core::user::{Role, SignInLink, TokenHash, User, user_name};
use serde::Deserialize;

use super::sign_in::Door;
use crate::fields::Fields;
use crate::viewer::{ClientAddress, audit};
use crate::{Shared, failure, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/setup", get(show).post(set)).layer(map_response(without_referrer))
}

/// The address of the page holds the link: what the page loads is not told of it, and so is in no proxy's log.
async fn without_referrer(mut response: Response) -> Response {
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
    response
}

#[derive(Template)]
#[template(path = "setup.html")]
struct SetupPage<'a> {
    door: &'a Door,
    link: &'a str,
    /// Whether an administrator is made.
    first: bool,
    name: &'a str,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "link_gone.html")]
struct GonePage<'a> {
    door: &'a Door,
}

#[derive(Deserialize)]
struct LinkQuery {
    link: Option<String>,
}

async fn show(State(shared): State<Shared>, Query(query): Query<LinkQuery>) -> Response {
    let (door, token) = (Door(shared.clone()), query.link.unwrap_or_default());
    match find(&shared, &token).await {
        Ok(Some((_, user))) => {
            let name = user.as_ref().map_or("", |user| user.name.as_str());
            let page = SetupPage { door: &door, link: &token, first: user.is_none(), name, error: None };
            door.page(StatusCode::OK, &page)
        }
        Ok(None) => gone(&door),
        Err(error) => failure::unavailable(&shared, &error),
    }
}

fn gone(door: &Door) -> Response {
    door.page(StatusCode::GONE, &GonePage { door })
}

/// The link with that token and its user, if it may still be used.
async fn find(shared: &Shared, token: &str) -> Result<Option<(SignInLink, Option<User>)>, StoreError> {
    let store = &shared.services.store;
    let link = store.link(TokenHash::of(token)).await?;
    let Some(link) = link.filter(|link| link.expires_at > shared.services.clock.now()) else { return Ok(None) };
    let Some(id) = link.user else { return Ok(Some((link, None))) };
    let user = store.user(id).await?.filter(|user| user.disabled_at.is_none());
    Ok(user.map(|user| (link, Some(user))))
}

async fn set(State(shared): State<Shared>, from: ClientAddress, headers: HeaderMap, fields: Fields) -> Response {
    let (door, token) = (Door(shared.clone()), fields.text("link"));
    let (link, user) = match find(&shared, &token).await {
        Ok(Some(found)) => found,
        Ok(None) => return gone(&door),
        Err(error) => return failure::unavailable(&shared, &error),
    };
    let first = user.is_none();
    let name = user.as_ref().map_or_else(|| fields.text("name"), |user| user.name.clone());
    match use_link(&shared, from, link, user, &fields).await {
        Ok(user) => match session::begin(&shared, &user, &headers, from).await {
            Ok(cookie) => session::with_cookie(Redirect::to("/projects").into_response(), cookie),
            Err(UserWriteError::Store(error)) => failure::unavailable(&shared, &error),
            Err(_) => gone(&door),
        },
        Err(NotSet::Refused(text)) => {
            let page = SetupPage { door: &door, link: &token, first, name: &name, error: Some(text) };
            door.page(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(NotSet::Gone) => gone(&door),
        Err(NotSet::Store(error)) => failure::unavailable(&shared, &error),
    }
}

enum NotSet {
    Refused(String),
    Gone,
    Store(StoreError),
}

async fn use_link(
    shared: &Shared,
    ClientAddress(address): ClientAddress,
    link: SignInLink,
    user: Option<User>,
    fields: &Fields,
) -> Result<User, NotSet> {
    let services = &shared.services;
    let now = services.clock.now();
    let (mut user, action) = match user {
        Some(user) => (user, "user.password"),
        None => {
            let name = user_name(&fields.text("name"))
                .map_err(|error| NotSet::Refused(words::sentence(&error.to_string())))?;
            let id = UserId::from_uuid(services.ids.uuid(now));
            let administrator = User {
                id,
                name,
                role: Role::Administrator,
                password: None,
                identity: None,
                created_at: now,
                signed_in_at: None,
                disabled_at: None,
            };
            (administrator, "user.created")
        }
    };
    let password = fields.text("password");
    let weak = |text: String| NotSet::Refused(words::sentence(&text));
    services.passwords.check_new(&password, &user.name).map_err(weak)?;
    let hash = services.passwords.hash(password).await;
    user.password = Some(hash.map_err(|error| NotSet::Store(StoreError::Unavailable(error.to_string())))?);
    let entry = audit(now, user.id, action, user.id, address);
    match services.store.use_link(link.hash, user.clone(), entry).await {
        Ok(()) => Ok(user),
        Err(UserWriteError::Store(error)) => Err(NotSet::Store(error)),
        Err(UserWriteError::Exists) => Err(NotSet::Refused("There is a user with this name already.".to_owned())),
        Err(_) => Err(NotSet::Gone),
    }
}
