//! `GET /login/provider` and `GET /login/returned`: signing in at an OpenID provider.
//!
//! What ties the way there to the way back (state, nonce, verifier) is in a cookie of the browser that began, for ten
//! minutes: a link back that somebody else sends is worth nothing.

use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_app::Error;
use journeyman_core::admin::AdminRefusal;
use journeyman_core::ports::{ProvenPerson, ReturnedSignIn};
use journeyman_core::user::{User, user_name};
use serde::Deserialize;

use super::sign_in::form;
use crate::viewer::ClientAddress;
use crate::{Shared, failure, session, words};

/// How long the cookie lives, in seconds.
const PENDING_SECONDS: u32 = 600;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/login/provider", get(begin)).route("/login/returned", get(returned))
}

#[derive(Deserialize)]
struct NextQuery {
    next: Option<String>,
}

async fn begin(
    State(shared): State<Shared>,
    Query(query): Query<NextQuery>,
    ClientAddress(address): ClientAddress,
) -> Response {
    let next = query.next.unwrap_or_default();
    let Some(provider) = &shared.services.provider else { return StatusCode::NOT_FOUND.into_response() };
    if let Err(seconds) = shared.throttle.ask(address) {
        return too_often(&shared, &next, seconds).await;
    }
    match provider.begin(&redirect(&shared), shared.services.clock.now()).await {
        Ok(begun) => {
            let cookie = pending_cookie(&shared, &format!("{}|{}", begun.pending, words::in_query(&next)));
            session::with_cookie(Redirect::to(&begun.url).into_response(), cookie)
        }
        Err(error) => {
            form(&shared, StatusCode::BAD_GATEWAY, (&next, ""), Some(words::sentence(&error.to_string()))).await
        }
    }
}

async fn too_often(shared: &Shared, next: &str, seconds: u64) -> Response {
    let text = format!("Too many attempts. Try again in {seconds} seconds.");
    form(shared, StatusCode::TOO_MANY_REQUESTS, (next, ""), Some(text)).await
}

fn redirect(shared: &Shared) -> String {
    format!("{}/login/returned", shared.settings.public_url)
}

fn cookie_name(shared: &Shared) -> &'static str {
    if shared.settings.is_secure() { "__Host-journeyman-sign-in" } else { "journeyman-sign-in" }
}

/// `Lax`, for the way back comes from another site.
fn pending_cookie(shared: &Shared, value: &str) -> HeaderValue {
    let secure = if shared.settings.is_secure() { "; Secure" } else { "" };
    let seconds = if value.is_empty() { 0 } else { PENDING_SECONDS };
    let name = cookie_name(shared);
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn pending(shared: &Shared, headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    let mut own = all.filter_map(|pair| pair.trim().split_once('=')).filter(|(name, _)| *name == cookie_name(shared));
    own.next().map(|(_, value)| value.to_owned())
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
    Query(query): Query<ReturnedQuery>,
    from: ClientAddress,
    headers: HeaderMap,
) -> Response {
    let kept = pending(&shared, &headers).unwrap_or_default();
    let (pending, next) = kept.split_once('|').unwrap_or((&kept, ""));
    let next = decoded(next);
    let refused = async |status, text: String| {
        session::with_cookie(form(&shared, status, (&next, ""), Some(text)).await, pending_cookie(&shared, ""))
    };
    let Some(provider) = &shared.services.provider else { return StatusCode::NOT_FOUND.into_response() };
    // It makes us ask the provider.
    if let Err(seconds) = shared.throttle.ask(from.0) {
        return too_often(&shared, &next, seconds).await;
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
                let back = Redirect::to(words::way_back(&next)).into_response();
                session::with_cookie(session::with_cookie(back, cookie), pending_cookie(&shared, ""))
            }
            Err(Error::Store(error)) => failure::unavailable(&shared, &error),
            Err(error) => refused(StatusCode::FORBIDDEN, words::sentence(&error.to_string())).await,
        },
        Ok(Err(text)) => refused(StatusCode::FORBIDDEN, text).await,
        Err(Error::Store(error)) => failure::unavailable(&shared, &error),
        Err(error) => refused(StatusCode::CONFLICT, words::sentence(&error.to_string())).await,
    }
}

/// The user who that is; a new one where nobody is yet. Never one who was found by name or address alone: those may be
/// given to somebody else at the provider.
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
        return Ok(Err("The provider's address for you cannot be the name of a user here.".to_owned()));
    };
    let user = services.cases.new_user(&name, role, Some(person.identity))?;
    match services.cases.add_proven_user(user, address).await {
        Ok(user) => Ok(Ok(user)),
        Err(Error::Admin(AdminRefusal::UserExists)) => Ok(Err(
            "There is a user of this name already, who signs in in another way; ask an administrator.".to_owned(),
        )),
        Err(error) => Err(error),
    }
}

/// Undoes [`words::in_query`].
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
    fn the_way_back_is_kept_in_the_cookie() {
        for text in ["/projects/shop?q=a b&c=ü", "", "/"] {
            assert_eq!(decoded(&words::in_query(text)), text);
        }
        assert_eq!(decoded("%zz%4"), "");
    }
}
