//! `GET` and `POST /login/passkey`: a sign-in with a passkey alone, which the device uses only after it has verified the
//! person. The name is not asked for: the passkey has the ID of its user.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_app::Error;
use journeyman_core::ports::StoreError;
use journeyman_core::user::User;
use journeyman_core::user::passkey::PasskeyRefusal;
use serde::Deserialize;

use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::OpenFrame;
use crate::passkeys::{self, Answer, Ask, Purpose};
use crate::viewer::{ClientAddress, audit};
use crate::{Shared, error_page, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/login/passkey", get(show).post(sign_in))
}

#[derive(Template)]
#[template(path = "passkey_sign_in.html")]
struct PasskeyPage<'a> {
    frame: &'a OpenFrame,
    next: &'a str,
    ask: Option<Ask>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct NextQuery {
    next: Option<String>,
}

/// Shows the page with a new challenge.
fn page(frame: &OpenFrame, status: StatusCode, next: &str, error: Option<String>) -> Response {
    let site = match passkeys::site(&frame.shared.settings.public_url) {
        Ok(site) => site,
        Err(reason) => {
            let (ask, error) = (None, Some(reason.to_owned()));
            return frame.page(StatusCode::UNPROCESSABLE_ENTITY, &PasskeyPage { frame, next, ask, error });
        }
    };
    match passkeys::ask(&frame.shared, &site, Purpose::SignIn, &[]) {
        Ok(ask) => frame.page(status, &PasskeyPage { frame, next, ask: Some(ask), error }),
        Err(failure) => failed(frame, next, &failure),
    }
}

fn failed(frame: &OpenFrame, next: &str, failure: &Failure) -> Response {
    tracing::error!(error = %failure, "a sign-in with a passkey failed");
    let (ask, error) = (None, Some(failure.text()));
    frame.page(failure.status(), &PasskeyPage { frame, next, ask, error })
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
        Ok(None) => page(&frame, StatusCode::OK, &next, None),
        Err(error) => error_page::unavailable(&shared, &error),
    }
}

/// Returns the user of an answer, as the authenticator says; `None` if there is none, which has an audit entry.
async fn user_of(
    shared: &Shared,
    ClientAddress(address): ClientAddress,
    answer: &str,
) -> Result<Option<User>, StoreError> {
    let store = &shared.services.store;
    let user = match passkeys::user_of(answer) {
        Some(id) => store.user(id).await?.filter(|user| user.disabled_at.is_none()),
        None => None,
    };
    if user.is_none() {
        store.note(audit(shared.services.clock.now(), "nobody", "session.refused", "unknown", address)).await?;
    }
    Ok(user)
}

async fn sign_in(
    State(shared): State<Shared>,
    frame: OpenFrame,
    from: ClientAddress,
    headers: HeaderMap,
    fields: Fields,
) -> Response {
    let next = fields.text("next");
    let too_often = |seconds| page(&frame, StatusCode::TOO_MANY_REQUESTS, &next, Some(words::too_often(seconds)));
    let refused = |refusal: PasskeyRefusal| {
        page(&frame, StatusCode::UNPROCESSABLE_ENTITY, &next, Some(words::sentence(&refusal.to_string())))
    };
    if let Err(seconds) = shared.throttle.ask(from.0) {
        return too_often(seconds);
    }
    let answer = Answer { answer: fields.text("passkey"), sealed: fields.text("challenge") };
    let user = match user_of(&shared, from, &answer.answer).await {
        Ok(Some(user)) => user,
        Ok(None) => return refused(PasskeyRefusal::Unknown),
        Err(error) => return error_page::unavailable(&shared, &error),
    };
    if let Err(seconds) = shared.throttle.attempt_asked(from.0, &user.name) {
        return too_often(seconds);
    }
    let presented = passkeys::presented(&shared, &user, Purpose::SignIn, &answer);
    match session::begin_with_passkey(&shared, &user, &headers, from, (None, presented)).await {
        Ok(Ok(cookie)) => session::with_cookie(Redirect::to(words::return_path(&next)).into_response(), cookie),
        Ok(Err(refusal)) => refused(refusal),
        Err(Error::Admin(_)) => refused(PasskeyRefusal::Unknown),
        Err(Error::Store(error)) => error_page::unavailable(&shared, &error),
        Err(error) => failed(&frame, &next, &Failure::from(error)),
    }
}
