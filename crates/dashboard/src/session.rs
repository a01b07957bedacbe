//! Sessions. The browser has a cookie with a random token; the store has only the token's hash.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::header::{SET_COOKIE, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use journeyman_app::Error;
use journeyman_core::decision::passkey::Presented;
use journeyman_core::decision::second_factor::Attempt;
use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;
use journeyman_core::user::passkey::PasskeyRefusal;
use journeyman_core::user::second_factor::CodeRefusal;
use journeyman_core::user::{
    Identity, PasswordHash, SESSION_LIFETIME, SESSION_NOTED, Session, TokenHash, User, new_token,
};

use crate::viewer::{ClientAddress, Viewer, audit};
use crate::{Settings, Shared, cookies, words};

/// The maximum length of a stored User-Agent, in characters.
const BROWSER_CHARS: usize = 200;

/// Returns the name of the session cookie. Browsers accept a `__Host-` cookie only over https and only for this host.
const fn cookie_name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-journeyman" } else { "journeyman" }
}

/// Returns the path of the sign-in page, with the path to return to.
pub(crate) fn sign_in_path(back: &str) -> String {
    if back.is_empty() || back == "/" {
        return "/login".to_owned();
    }
    format!("/login?next={}", words::in_query(back))
}

/// Returns the viewer of the session whose token is in the request; `None` if there is no valid session.
pub(crate) async fn viewer(
    shared: &Shared,
    headers: &HeaderMap,
    ClientAddress(address): ClientAddress,
) -> Result<Option<Viewer>, StoreError> {
    let Some(hash) = token(&shared.settings, headers) else { return Ok(None) };
    let now = shared.services.clock.now();
    let found = shared.services.store.session(hash).await?;
    let Some((session, user)) = found.filter(|(session, user)| holds(session, user, now)) else { return Ok(None) };
    if now.since(session.seen_at) >= SESSION_NOTED {
        shared.services.store.session_seen(hash, now).await?;
    }
    let proven_at = session.proven_at;
    Ok(Some(Viewer { user: Arc::new(user), session: hash, proven_at, address, traceparent: None }))
}

/// Returns true if a session has not expired and its user is not disabled.
pub(crate) fn holds(session: &Session, user: &User, now: Timestamp) -> bool {
    session.expires_at() > now && user.disabled_at.is_none()
}

/// Checks whether a viewer's session is still valid. Streams call this because the viewer may have signed out, or been
/// disabled, in the meantime.
pub(crate) async fn still_holds(shared: &Shared, viewer: &Viewer) -> bool {
    let found = shared.services.store.session(viewer.session).await;
    found.is_ok_and(|found| found.is_some_and(|(session, user)| holds(&session, &user, shared.services.clock.now())))
}

/// Returns the hash of the token in the session cookie; `None` if there are several such cookies, because another site
/// of the same domain may have set one.
fn token(settings: &Settings, headers: &HeaderMap) -> Option<TokenHash> {
    let mut sessions = cookies::all(headers, cookie_name(settings.is_secure()));
    let token = sessions.next()?;
    sessions.next().is_none().then(|| TokenHash::of(token))
}

/// The way in which a user has proved who they are at the sign-in.
pub(crate) enum Proof {
    /// With the current password.
    Password,
    /// As this identity at the OpenID provider, which has asked them to prove it at this time, if it says so.
    Provider(Identity, Option<Timestamp>),
}

/// Begins a session and returns its cookie. The token is always new, so that a token planted in the browser is useless.
/// Fails if `user` has changed since they were read, because they may no longer be allowed to sign in.
pub(crate) async fn begin(
    shared: &Shared,
    user: &User,
    headers: &HeaderMap,
    ClientAddress(address): ClientAddress,
    proof: Proof,
) -> Result<HeaderValue, Error> {
    let now = shared.services.clock.now();
    let proven_at = match &proof {
        Proof::Password => Some(now),
        Proof::Provider(_, at) => *at,
    };
    let (session, token) = new_session(shared, user, headers, address, (now, proven_at));
    let entry = audit(now, user.id, "session.started", user.id, address);
    let cases = &shared.services.cases;
    match proof {
        Proof::Password => cases.start_session(session, user.password.clone(), entry).await?,
        Proof::Provider(identity, _) => cases.start_session_by_provider(session, identity, entry).await?,
    }
    Ok(cookie(&shared.settings, &token, SESSION_LIFETIME.as_secs()))
}

/// Returns a session that is not stored yet, and its token. `now` is the time of its start, and `proven_at` that of the
/// proof.
fn new_session(
    shared: &Shared,
    user: &User,
    headers: &HeaderMap,
    address: Option<IpAddr>,
    (now, proven_at): (Timestamp, Option<Timestamp>),
) -> (Session, String) {
    let (token, hash) = new_token(&*shared.services.ids);
    let browser = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let session = Session {
        hash,
        user: user.id,
        created_at: now,
        seen_at: now,
        proven_at,
        address: address.map(|address| address.to_string()),
        browser: browser.map(|text| text.chars().take(BROWSER_CHARS).collect()),
    };
    (session, token)
}

/// Begins a session like [`begin`], of a user who has entered the password and a code. The inner error says why the
/// code was refused.
pub(crate) async fn begin_with_code(
    shared: &Shared,
    user: &User,
    headers: &HeaderMap,
    ClientAddress(address): ClientAddress,
    (password, attempt): (PasswordHash, Attempt),
) -> Result<Result<HeaderValue, CodeRefusal>, Error> {
    let now = shared.services.clock.now();
    let (session, token) = new_session(shared, user, headers, address, (now, Some(now)));
    let entry = audit(now, user.id, "", user.id, address);
    let begun = shared.services.cases.start_session_with_code(session, password, attempt, entry).await?;
    Ok(begun.map(|_| cookie(&shared.settings, &token, SESSION_LIFETIME.as_secs())))
}

/// Begins a session like [`begin`], of a user who has presented a passkey, after the password if there is one. The inner
/// error says why the passkey was refused.
pub(crate) async fn begin_with_passkey(
    shared: &Shared,
    user: &User,
    headers: &HeaderMap,
    ClientAddress(address): ClientAddress,
    (password, presented): (Option<PasswordHash>, Presented),
) -> Result<Result<HeaderValue, PasskeyRefusal>, Error> {
    let now = shared.services.clock.now();
    let (session, token) = new_session(shared, user, headers, address, (now, Some(now)));
    let entry = audit(now, user.id, "", user.id, address);
    let begun = shared.services.cases.start_session_with_passkey(session, password, presented, entry).await?;
    Ok(begun.map(|()| cookie(&shared.settings, &token, SESSION_LIFETIME.as_secs())))
}

/// Returns a cookie that deletes the session cookie.
pub(crate) fn no_cookie(settings: &Settings) -> HeaderValue {
    cookie(settings, "", 0)
}

fn cookie(settings: &Settings, token: &str, seconds: u64) -> HeaderValue {
    cookies::set(settings, cookie_name(settings.is_secure()), token, seconds)
}

/// Adds a cookie to a response.
pub(crate) fn with_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().append(SET_COOKIE, cookie);
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::header::COOKIE;
    use journeyman_core::user::second_factor::RequiredOf;

    use super::*;

    fn settings(public_url: &str) -> Settings {
        Settings {
            public_url: public_url.to_owned(),
            agents: Arc::default(),
            providers: Vec::new(),
            version: String::new(),
            second_factor: RequiredOf::Nobody,
            facts: Vec::new(),
        }
    }

    #[test]
    fn the_cookie_has_restrictive_attributes() {
        let plain = cookie(&settings("http://127.0.0.1:8080"), "t", 7);
        assert_eq!(plain, "journeyman=t; Path=/; Max-Age=7; HttpOnly; SameSite=Lax");
        let secure = cookie(&settings("https://j.example.com"), "t", 7);
        assert_eq!(secure, "__Host-journeyman=t; Path=/; Max-Age=7; HttpOnly; SameSite=Lax; Secure");
    }

    #[test]
    fn several_session_cookies_are_ignored() {
        let cases = [
            (vec![], false),
            (vec!["a=b; journeyman=t"], true),
            (vec!["a=b", "journeyman=t"], true),
            (vec!["journeyman=t; journeyman=u"], false),
            (vec!["journeyman=t", "journeyman=t"], false),
            (vec!["__Host-journeyman=t"], false),
            (vec!["journeyman"], false),
        ];
        for (values, is_token) in cases {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append(COOKIE, value.parse().expect("a header"));
            }
            let found = token(&settings("http://127.0.0.1:8080"), &headers);
            assert_eq!(found, is_token.then(|| TokenHash::of("t")), "{values:?}");
        }
    }

    #[test]
    fn the_return_path_is_encoded_as_one_parameter() {
        assert_eq!(sign_in_path("/"), "/login");
        assert_eq!(sign_in_path("/projects/shop?q=a&b=c"), "/login?next=%2Fprojects%2Fshop%3Fq%3Da%26b%3Dc");
    }
}
