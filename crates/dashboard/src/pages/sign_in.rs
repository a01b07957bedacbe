//! `GET` and `POST /login`, and `POST /logout`.

use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_app::Error;
use journeyman_core::ports::StoreError;
use journeyman_core::user::{SessionsToEnd, User, user_name};
use serde::Deserialize;

use super::code;
use super::sign_in_form::form;
use crate::fields::Fields;
use crate::frame::OpenFrame;
use crate::session::Proof;
use crate::viewer::{ClientAddress, audit};
use crate::{Shared, error_page, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/login", get(show).post(sign_in)).route("/logout", post(sign_out))
}

/// The maximum size of a password: 128 characters of four bytes.
pub(super) const MAX_PASSWORD_BYTES: usize = 512;

/// The time limit for the verification of a password, which may have to wait for others that came first.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct NextQuery {
    next: Option<String>,
}

async fn show(
    State(shared): State<Shared>,
    frame: OpenFrame,
    Query(query): Query<NextQuery>,
    from: ClientAddress,
    headers: HeaderMap,
) -> Response {
    let next = query.next.unwrap_or_default();
    match session::viewer(&shared, &headers, from).await {
        Ok(Some(_)) => Redirect::to(words::return_path(&next)).into_response(),
        Ok(None) => form(&frame, StatusCode::OK, (&next, ""), None).await,
        Err(error) => error_page::unavailable(&shared, &error),
    }
}

/// The reason why a sign-in failed. `Wrong` does not reveal whether the user exists or is disabled.
enum SignInError {
    Wrong,
    TooOften(u64),
    Failed(String),
    Store(StoreError),
}

async fn sign_in(
    State(shared): State<Shared>,
    frame: OpenFrame,
    from: ClientAddress,
    headers: HeaderMap,
    fields: Fields,
) -> Response {
    let (next, name) = (fields.text("next"), fields.text("name"));
    let refusal = match check(&shared, from, &name, fields.text("password")).await {
        Ok(user) if user.has_second_factor() => match code::begin(&shared, &user, &next) {
            Ok(page) => return page,
            Err(failure) => SignInError::Failed(failure.to_string()),
        },
        Ok(user) => match session::begin(&shared, &user, &headers, from, Proof::Password).await {
            Ok(cookie) => {
                return session::with_cookie(Redirect::to(words::return_path(&next)).into_response(), cookie);
            }
            Err(Error::Store(error)) => SignInError::Store(error),
            Err(_) => SignInError::Wrong,
        },
        Err(refusal) => refusal,
    };
    let (status, text) = match refusal {
        SignInError::Wrong => (StatusCode::UNPROCESSABLE_ENTITY, "The name or the password is wrong.".to_owned()),
        SignInError::TooOften(seconds) => {
            let text = words::too_often(seconds);
            (StatusCode::TOO_MANY_REQUESTS, text)
        }
        SignInError::Failed(error) => {
            tracing::error!(error, "a password could not be checked");
            let text = "The password could not be checked; the server's log says why. Try again in a moment.";
            (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        }
        SignInError::Store(error) => return error_page::unavailable(&shared, &error),
    };
    form(&frame, status, (&next, &name), Some(text)).await
}

async fn check(
    shared: &Shared,
    ClientAddress(address): ClientAddress,
    name: &str,
    password: String,
) -> Result<User, SignInError> {
    let services = &shared.services;
    // An invalid name becomes the empty name, which no user has, so that the response takes as long as for a valid one.
    let name = user_name(name).unwrap_or_default();
    shared.throttle.attempt(address, &name).map_err(SignInError::TooOften)?;
    let user = services.store.user_by_name(name.clone()).await.map_err(SignInError::Store)?;
    let hash = user.as_ref().and_then(|user| user.password.clone());
    // A longer text is not a user's password. Verifying the empty text instead saves the time to hash it.
    let password = if password.len() > MAX_PASSWORD_BYTES { String::new() } else { password };
    let is_right = tokio::time::timeout(VERIFY_TIMEOUT, services.passwords.verify(password, hash)).await;
    let is_right = is_right.map_err(|_| SignInError::Failed("too many sign-ins are waiting".to_owned()))?;
    let is_right = is_right.map_err(|error| SignInError::Failed(error.to_string()))?;
    let id = user.as_ref().map(|user| user.id);
    if let Some(user) = user.filter(|user| is_right && user.disabled_at.is_none()) {
        return Ok(user);
    }
    // An unknown name is not written, because it may be a password in the wrong field. The entry is, so that the answer
    // takes as long as for a known name.
    let subject = id.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    let entry = audit(services.clock.now(), "nobody", "session.refused", subject, address);
    services.store.note(entry).await.map_err(SignInError::Store)?;
    Err(SignInError::Wrong)
}

async fn sign_out(State(shared): State<Shared>, from: ClientAddress, headers: HeaderMap) -> Response {
    let viewer = match session::viewer(&shared, &headers, from).await {
        Ok(viewer) => viewer,
        Err(error) => return error_page::unavailable(&shared, &error),
    };
    if let Some(viewer) = viewer {
        let entry = viewer.audit(shared.services.clock.now(), "session.ended", viewer.user.id);
        if let Err(error) = shared.services.store.end_sessions(SessionsToEnd::One(viewer.session), entry).await {
            return error_page::unavailable(&shared, &error);
        }
    }
    session::with_cookie(Redirect::to("/login").into_response(), session::no_cookie(&shared.settings))
}
