//! `GET /login/provider` and `GET /login/returned`: sign-in with an OpenID provider.
//!
//! A cookie keeps the state, nonce and verifier for ten minutes in the browser that began the sign-in. So a return URL
//! from an attacker's sign-in is refused in another browser.

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_app::Error;
use journeyman_core::admin::AdminRefusal;
use journeyman_core::ports::{ProvenPerson, ReturnedSignIn};
use journeyman_core::user::{User, user_name};
use serde::Deserialize;

use super::sign_in::form;
use crate::frame::OpenFrame;
use crate::viewer::ClientAddress;
use crate::{Shared, cookies, error_page, session, words};

/// The lifetime of the cookie, in seconds.
const PENDING_SECONDS: u64 = 600;

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
            let cookie = pending_cookie(&shared, &format!("{}|{}", begun.pending, words::in_query(&next)));
            session::with_cookie(Redirect::to(&begun.url).into_response(), cookie)
        }
        Err(error) => {
            form(&frame, StatusCode::BAD_GATEWAY, (&next, ""), Some(words::sentence(&error.to_string()))).await
        }
    }
}

async fn too_often(frame: &OpenFrame, next: &str, seconds: u64) -> Response {
    let text = format!("Too many attempts. Try again in {seconds} seconds.");
    form(frame, StatusCode::TOO_MANY_REQUESTS, (next, ""), Some(text)).await
}

fn redirect(shared: &Shared) -> String {
    format!("{}/login/returned", shared.settings.public_url)
}

fn cookie_name(shared: &Shared) -> &'static str {
    if shared.settings.is_secure() { "__Host-journeyman-sign-in" } else { "journeyman-sign-in" }
}

/// Returns the cookie with the state of a sign-in. An empty value deletes it. It is `SameSite=Lax`, because the
/// provider redirects the browser from another site.
fn pending_cookie(shared: &Shared, value: &str) -> HeaderValue {
    let seconds = if value.is_empty() { 0 } else { PENDING_SECONDS };
    cookies::set(&shared.settings, cookie_name(shared), value, seconds)
}

fn pending(shared: &Shared, headers: &HeaderMap) -> Option<String> {
    cookies::all(headers, cookie_name(shared)).next().map(str::to_owned)
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
    let stored = pending(&shared, &headers).unwrap_or_default();
    let (pending, next) = stored.split_once('|').unwrap_or((&stored, ""));
    let next = decoded(next);
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
    let person = match provider.finish(pending, returned, &redirect(&shared), now).await {
        Ok(person) => person,
        Err(error) => return refused(StatusCode::FORBIDDEN, words::sentence(&error.to_string())).await,
    };
    match user(&shared, person, from, provider.default_role()).await {
        Ok(Ok(user)) => match session::begin(&shared, &user, &headers, from).await {
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
        Err(Error::Admin(AdminRefusal::UserExists)) => {
            // Another window of the same person may have added the user a moment ago.
            let added = services.store.user_by_identity(person.identity).await?;
            let text = "A user with this name already exists, with another sign-in method. Ask an administrator.";
            Ok(added.filter(|user| user.disabled_at.is_none()).ok_or_else(|| text.to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Decodes the output of [`words::in_query`].
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        if byte != b'%' {
            bytes.push(byte);
        } else if let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) {
            bytes.extend(u8::try_from(high * 16 + low));
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_return_path_is_decoded_unchanged() {
        for text in ["/projects/shop?q=a b&c=ü", "", "/"] {
            assert_eq!(decoded(&words::in_query(text)), text);
        }
        assert_eq!(decoded("%zz%4"), "");
    }
}
