//! `GET /login/provider` and `GET /login/returned`: sign-in with an OpenID provider. [`super::connect`] uses the same
//! return URL to connect the account of a signed-in user.
//!
//! A cookie keeps the state, nonce and verifier for ten minutes in the browser that began the sign-in. So a return URL
//! from an attacker's sign-in is refused in another browser.

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_app::Error;
use journeyman_core::ports::{ProvenPerson, ReturnedSignIn};
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::user::{User, user_name};
use serde::Deserialize;

use super::provider_visit::{Pending, pending_cookie, redirect};
use super::sign_in_form::form;
use super::{confirm, connect};
use crate::frame::OpenFrame;
use crate::session::Proof;
use crate::viewer::ClientAddress;
use crate::{Shared, error_page, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/login/provider", get(begin)).route("/login/returned", get(returned))
}

#[derive(Deserialize)]
struct NextQuery {
    next: Option<String>,
}

async fn begin(
    State(shared): State<Shared>,
    frame: OpenFrame,
    Query(query): Query<NextQuery>,
    ClientAddress(address): ClientAddress,
) -> Response {
    let next = query.next.unwrap_or_default();
    let Some(provider) = &shared.services.provider else { return StatusCode::NOT_FOUND.into_response() };
    if let Err(seconds) = shared.throttle.ask(address) {
        return too_often(&frame, &next, seconds).await;
    }
    match provider.begin(&redirect(&shared), shared.services.clock.now()).await {
        Ok(begun) => {
            let kept = Pending { state: begun.pending, next, connects: None, confirms: None };
            let cookie = pending_cookie(&shared, &kept.encoded());
            session::with_cookie(Redirect::to(&begun.url).into_response(), cookie)
        }
        Err(error) => {
            form(&frame, StatusCode::BAD_GATEWAY, (&next, ""), Some(words::sentence(&error.to_string()))).await
        }
    }
}

async fn too_often(frame: &OpenFrame, next: &str, seconds: u64) -> Response {
    let text = words::too_often(seconds);
    form(frame, StatusCode::TOO_MANY_REQUESTS, (next, ""), Some(text)).await
}

#[derive(Deserialize)]
struct ReturnedQuery {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

async fn returned(
    State(shared): State<Shared>,
    frame: OpenFrame,
    Query(query): Query<ReturnedQuery>,
    from: ClientAddress,
    headers: HeaderMap,
) -> Response {
    let Pending { state: pending, next, connects, confirms } = Pending::of(&shared, &headers);
    let refused = async |status, text: String| {
        session::with_cookie(form(&frame, status, (&next, ""), Some(text)).await, pending_cookie(&shared, ""))
    };
    let Some(provider) = &shared.services.provider else { return StatusCode::NOT_FOUND.into_response() };
    // The request causes requests to the provider, so it is limited.
    if let Err(seconds) = shared.throttle.ask(from.0) {
        return too_often(&frame, &next, seconds).await;
    }
    let ReturnedQuery { code, state, iss, error, error_description } = query;
    let returned = ReturnedSignIn { code, state, issuer: iss, error, error_description };
    let now = shared.services.clock.now();
    let person = provider.finish(&pending, returned, &redirect(&shared), now).await;
    if let Some(session) = connects {
        let answer = connect::finish(frame.clone(), from, &headers, &session, person).await;
        return session::with_cookie(answer, pending_cookie(&shared, ""));
    }
    if let Some(session) = confirms {
        let answer = confirm::finish(frame.clone(), from, &headers, (&session, &next), person).await;
        return session::with_cookie(answer, pending_cookie(&shared, ""));
    }
    let person = match person {
        Ok(person) => person,
        Err(error) => return refused(StatusCode::FORBIDDEN, words::sentence(&error.to_string())).await,
    };
    let proof = Proof::Provider(person.identity.clone(), person.authenticated_at);
    match user(&shared, person, from, provider.default_role()).await {
        Ok(Ok(user)) => match session::begin(&shared, &user, &headers, from, proof).await {
            Ok(cookie) => {
                let back = Redirect::to(words::return_path(&next)).into_response();
                session::with_cookie(session::with_cookie(back, cookie), pending_cookie(&shared, ""))
            }
            Err(Error::Store(error)) => error_page::unavailable(&shared, &error),
            Err(error) => refused(StatusCode::FORBIDDEN, words::sentence(&error.to_string())).await,
        },
        Ok(Err(text)) => refused(StatusCode::FORBIDDEN, text).await,
        Err(Error::Store(error)) => error_page::unavailable(&shared, &error),
        Err(error) => refused(StatusCode::CONFLICT, words::sentence(&error.to_string())).await,
    }
}

/// Returns the user with the person's identity, or adds a new user. The inner error is a text for the sign-in page. A
/// name or an email address alone does not identify a user, because the provider may assign it to another person.
async fn user(
    shared: &Shared,
    person: ProvenPerson,
    ClientAddress(address): ClientAddress,
    role: journeyman_core::user::Role,
) -> Result<Result<User, String>, Error> {
    let services = &shared.services;
    if let Some(user) = services.store.user_by_identity(person.identity.clone()).await? {
        let text = "This account is disabled. Ask an administrator.".to_owned();
        return Ok(if user.disabled_at.is_none() { Ok(user) } else { Err(text) });
    }
    let Ok(name) = user_name(&person.email) else {
        return Ok(Err("The email address from the provider is not a valid user name here.".to_owned()));
    };
    let user = services.cases.new_user(&name, role, Some(person.identity.clone()))?;
    match services.cases.add_authenticated_user(user, address).await {
        Ok(user) => Ok(Ok(user)),
        Err(Error::Admin(refusal)) if refusal.is(RefusalKind::Exists, ResourceKind::User) => {
            // Another window of the same person may have added the user a moment ago.
            let added = services.store.user_by_identity(person.identity).await?;
            let text = "A user with this name already exists. Sign in with the password, and connect the provider on \
                        the page Account.";
            Ok(added.filter(|user| user.disabled_at.is_none()).ok_or_else(|| text.to_owned()))
        }
        Err(error) => Err(error),
    }
}
