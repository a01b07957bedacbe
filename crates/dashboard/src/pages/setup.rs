//! `GET` and `POST /setup`: use of a sign-in link, by the first administrator or by a user who needs a new password.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::REFERRER_POLICY;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_app::{Error, NewPassword};
use journeyman_core::ports::StoreError;
use journeyman_core::refusal::RefusalKind;
use journeyman_core::user::{Role, SignInLink, TokenHash, User};
use serde::Deserialize;

use super::code;
use crate::fields::Fields;
use crate::frame::OpenFrame;
use crate::session::Proof;
use crate::viewer::ClientAddress;
use crate::{Shared, error_page, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/setup", get(show).post(set)).layer(map_response(without_referrer))
}

/// Sets a `Referrer-Policy` under which requests for assets do not contain the page's URL. It contains the link, which
/// could otherwise end up in the log of a proxy.
async fn without_referrer(mut response: Response) -> Response {
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
    response
}

#[derive(Template)]
#[template(path = "setup.html")]
struct SetupPage<'a> {
    frame: &'a OpenFrame,
    link: &'a str,
    /// True if the link creates the first administrator.
    first: bool,
    name: &'a str,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "link_gone.html")]
struct GonePage<'a> {
    frame: &'a OpenFrame,
}

#[derive(Deserialize)]
struct LinkQuery {
    link: Option<String>,
}

async fn show(State(shared): State<Shared>, frame: OpenFrame, Query(query): Query<LinkQuery>) -> Response {
    let token = query.link.unwrap_or_default();
    match find(&shared, &token).await {
        Ok(Some((_, user))) => {
            let name = user.as_ref().map_or("", |user| user.name.as_str());
            let page = SetupPage { frame: &frame, link: &token, first: user.is_none(), name, error: None };
            frame.page(StatusCode::OK, &page)
        }
        Ok(None) => gone(&frame),
        Err(error) => error_page::unavailable(&shared, &error),
    }
}

fn gone(frame: &OpenFrame) -> Response {
    frame.page(StatusCode::GONE, &GonePage { frame })
}

/// Returns the link with this token, and its user; `None` if the link cannot be used.
async fn find(shared: &Shared, token: &str) -> Result<Option<(SignInLink, Option<User>)>, StoreError> {
    let store = &shared.services.store;
    let link = store.link(TokenHash::of(token)).await?;
    let Some(link) = link.filter(|link| link.expires_at > shared.services.clock.now()) else { return Ok(None) };
    let Some(id) = link.user else { return Ok(Some((link, None))) };
    let user = store.user(id).await?.filter(|user| user.disabled_at.is_none());
    Ok(user.map(|user| (link, Some(user))))
}

async fn set(
    State(shared): State<Shared>,
    frame: OpenFrame,
    from: ClientAddress,
    headers: HeaderMap,
    fields: Fields,
) -> Response {
    let token = fields.text("link");
    let (link, user) = match find(&shared, &token).await {
        Ok(Some(found)) => found,
        Ok(None) => return gone(&frame),
        Err(error) => return error_page::unavailable(&shared, &error),
    };
    let first = user.is_none();
    let name = user.as_ref().map_or_else(|| fields.text("name"), |user| user.name.clone());
    match use_link(&shared, from, link, user, &fields).await {
        // The link replaces the password, and not the second factor.
        Ok(user) if user.has_second_factor() => match code::begin(&shared, &user, "") {
            Ok(page) => page,
            Err(failure) => {
                tracing::error!(error = %failure, "the second step of a sign-in failed");
                Redirect::to("/login").into_response()
            }
        },
        Ok(user) => match session::begin(&shared, &user, &headers, from, Proof::Password).await {
            Ok(cookie) => session::with_cookie(Redirect::to("/").into_response(), cookie),
            Err(Error::Store(error)) => error_page::unavailable(&shared, &error),
            Err(_) => gone(&frame),
        },
        Err(NotSet::Refused(text)) => {
            let page = SetupPage { frame: &frame, link: &token, first, name: &name, error: Some(text) };
            frame.page(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(NotSet::Gone) => gone(&frame),
        Err(NotSet::Store(error)) => error_page::unavailable(&shared, &error),
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
    let refused = |error: Error| match error {
        Error::Store(error) => NotSet::Store(error),
        Error::Admin(refusal) if matches!(refusal.kind, RefusalKind::Ended | RefusalKind::Changed) => NotSet::Gone,
        error => NotSet::Refused(words::sentence(&error.to_string())),
    };
    let is_first = user.is_none();
    let user = match user {
        Some(user) => user,
        None => services.cases.new_user(&fields.text("name"), Role::Administrator, None).map_err(refused)?,
    };
    let password = fields.text("password");
    let weak = |text: String| NotSet::Refused(words::sentence(&text));
    services.passwords.check_new(&password, &user.name).map_err(weak)?;
    let hash = services.passwords.hash(password).await;
    let password = hash.map_err(|error| NotSet::Store(StoreError::Unavailable(error.to_string())))?;
    let new = NewPassword { link: link.hash, user, is_first, password };
    services.cases.use_link(new, address).await.map_err(refused)
}
