//! `GET` and `POST /login/code`: the second step of a sign-in, for users with a second factor.
//!
//! After the password, the browser has no session but a cookie, encrypted with the master key, that says whose password
//! was right and until when a code completes the sign-in. It is worth nothing without a code, and ends with the
//! password.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use journeyman_app::Error;
use journeyman_core::ids::UserId;
use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;
use journeyman_core::user::passkey::PasskeyRefusal;
use journeyman_core::user::second_factor::{CodeRefusal, PENDING_LIFETIME};
use journeyman_core::user::{PasswordHash, TokenHash, User};
use serde::{Deserialize, Serialize};

use super::sign_in_form::form;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::OpenFrame;
use crate::passkeys::{Answer, Ask, Purpose};
use crate::viewer::ClientAddress;
use crate::{Settings, Shared, codes, cookies, error_page, passkeys, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/login/code", get(show).post(enter))
}

/// The purpose of the encrypted text.
const CONTEXT: &str = "dashboard/code";

/// A sign-in whose password was right.
#[derive(Serialize, Deserialize)]
struct Pending {
    user: UserId,
    /// The hash of the stored hash of the password that was right, without which a new password would not end the
    /// sign-in.
    password: TokenHash,
    until: Timestamp,
    /// The path to open after the sign-in.
    next: String,
}

impl Pending {
    /// Returns what the challenge of the page is for.
    const fn purpose(&self) -> Purpose<'static> {
        Purpose::Code(self.user, self.until)
    }
}

/// Returns the name of the cookie. Browsers accept a `__Host-` cookie only over https and only for this host.
const fn cookie_name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-journeyman-code" } else { "journeyman-code" }
}

/// Returns the header that sets the cookie; an empty value deletes it.
fn cookie(settings: &Settings, value: &str) -> HeaderValue {
    let seconds = if value.is_empty() { 0 } else { PENDING_LIFETIME.as_secs() };
    cookies::set(settings, cookie_name(settings.is_secure()), value, seconds)
}

fn of_password(password: &PasswordHash) -> TokenHash {
    TokenHash::of(&password.0)
}

/// The maximum length of the path that the cookie keeps. A longer one is dropped, because browsers drop a cookie of
/// more than 4 KiB.
const MAX_NEXT: usize = 1000;

/// Redirects a user, whose password was right, to the page that asks for a code.
pub(super) fn begin(shared: &Shared, user: &User, next: &str) -> Result<Response, Failure> {
    let password = user.password.as_ref().map_or(TokenHash([0; 32]), of_password);
    let next = if next.len() <= MAX_NEXT { next.to_owned() } else { String::new() };
    let pending = Pending { user: user.id, password, until: shared.services.clock.now() + PENDING_LIFETIME, next };
    let text = serde_json::to_string(&pending).map_err(|error| Failure::Render(error.to_string()))?;
    let sealed = shared.services.seal.seal(CONTEXT, &text).map_err(|error| Failure::Render(error.to_string()))?;
    Ok(session::with_cookie(Redirect::to("/login/code").into_response(), cookie(&shared.settings, &sealed)))
}

/// Returns the sign-in of a browser, its user and the password that was right; `None` if it has ended.
async fn find(shared: &Shared, headers: &HeaderMap) -> Result<Option<(Pending, User, PasswordHash)>, StoreError> {
    let mut all = cookies::all(headers, cookie_name(shared.settings.is_secure()));
    let text = all.find_map(|value| shared.services.seal.open(CONTEXT, value));
    let pending = text.and_then(|text| serde_json::from_str::<Pending>(&text).ok());
    let Some(pending) = pending.filter(|pending| pending.until > shared.services.clock.now()) else { return Ok(None) };
    let user = shared.services.store.user(pending.user).await?;
    let Some(user) = user.filter(|user| user.disabled_at.is_none() && user.has_second_factor()) else {
        return Ok(None);
    };
    let password = user.password.clone().filter(|password| of_password(password) == pending.password);
    Ok(password.map(|password| (pending, user, password)))
}

#[derive(Template)]
#[template(path = "code.html")]
struct CodePage<'a> {
    frame: &'a OpenFrame,
    /// True if a code completes the sign-in.
    has_app: bool,
    has_passkeys: bool,
    /// What the page asks the browser for, if a passkey completes the sign-in.
    ask: Option<Ask>,
    error: Option<String>,
}

/// Shows the page for a sign-in, with a new challenge.
fn page(frame: &OpenFrame, status: StatusCode, (pending, user): (&Pending, &User), error: Option<String>) -> Response {
    let ask = match passkeys::ask_user(&frame.shared, user, pending.purpose()) {
        Ok(ask) => ask,
        Err(failure) => {
            tracing::error!(error = %failure, "a challenge for a passkey could not be made");
            None
        }
    };
    let (has_app, has_passkeys) = (user.second_factor.is_some(), !user.passkeys.list.is_empty());
    frame.page(status, &CodePage { frame, has_app, has_passkeys, ask, error })
}

async fn show(State(shared): State<Shared>, frame: OpenFrame, headers: HeaderMap) -> Response {
    match find(&shared, &headers).await {
        Ok(Some((pending, user, _))) => page(&frame, StatusCode::OK, (&pending, &user), None),
        Ok(None) => Redirect::to("/login").into_response(),
        Err(error) => error_page::unavailable(&shared, &error),
    }
}

async fn enter(
    State(shared): State<Shared>,
    frame: OpenFrame,
    from: ClientAddress,
    headers: HeaderMap,
    fields: Fields,
) -> Response {
    let (pending, user, password) = match find(&shared, &headers).await {
        Ok(Some(found)) => found,
        Ok(None) => return over(&frame).await,
        Err(error) => return error_page::unavailable(&shared, &error),
    };
    if let Err(seconds) = shared.throttle.attempt(from.0, &user.name) {
        return page(&frame, StatusCode::TOO_MANY_REQUESTS, (&pending, &user), Some(words::too_often(seconds)));
    }
    if let Some(answer) = fields.given("passkey") {
        let answer = Answer { answer, sealed: fields.text("challenge") };
        let presented = passkeys::presented(&shared, &user, pending.purpose(), &answer);
        let begun = session::begin_with_passkey(&shared, &user, &headers, from, (Some(password), presented)).await;
        return answered(&frame, (&pending, &user), begun.map(|outcome| outcome.map_err(Refused::from))).await;
    }
    let attempt = match codes::attempt(&shared, &user, fields.text("code")) {
        Ok(Some(attempt)) => attempt,
        Ok(None) => return over(&frame).await,
        Err(failure) => return failed(&frame, &failure),
    };
    let begun = session::begin_with_code(&shared, &user, &headers, from, (password, attempt)).await;
    answered(&frame, (&pending, &user), begun.map(|outcome| outcome.map_err(Refused::from))).await
}

/// The status and the text of a refused code or passkey.
struct Refused(StatusCode, String);

impl From<CodeRefusal> for Refused {
    fn from(refusal: CodeRefusal) -> Self {
        let status = match refusal {
            CodeRefusal::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            CodeRefusal::Wrong | CodeRefusal::Used => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self(status, words::sentence(&refusal.to_string()))
    }
}

impl From<PasskeyRefusal> for Refused {
    fn from(refusal: PasskeyRefusal) -> Self {
        Self(StatusCode::UNPROCESSABLE_ENTITY, words::sentence(&refusal.to_string()))
    }
}

/// Opens the page that the user asked for, with the cookie of the session, or says why there is none.
async fn answered(
    frame: &OpenFrame,
    about: (&Pending, &User),
    begun: Result<Result<HeaderValue, Refused>, Error>,
) -> Response {
    let settings = &frame.shared.settings;
    match begun {
        Ok(Ok(cookie_of_session)) => {
            let back = Redirect::to(words::return_path(&about.0.next)).into_response();
            session::with_cookie(session::with_cookie(back, cookie_of_session), cookie(settings, ""))
        }
        Ok(Err(Refused(status, text))) => page(frame, status, about, Some(text)),
        Err(Error::Admin(_)) => over(frame).await,
        Err(Error::Store(error)) => error_page::unavailable(&frame.shared, &error),
        Err(error) => failed(frame, &Failure::from(error)),
    }
}

/// Shows the sign-in page, because the sign-in took too long, or its password or second factor was changed.
async fn over(frame: &OpenFrame) -> Response {
    let text = "This sign-in is over: it took longer than five minutes, or the password or the second factor was changed \
                meanwhile. Sign in again.";
    let page = form(frame, StatusCode::UNPROCESSABLE_ENTITY, ("", ""), Some(text.to_owned())).await;
    session::with_cookie(page, cookie(&frame.shared.settings, ""))
}

fn failed(frame: &OpenFrame, failure: &Failure) -> Response {
    tracing::error!(error = %failure, "the second step of a sign-in failed");
    let (has_app, has_passkeys, ask) = (true, false, None);
    frame.page(failure.status(), &CodePage { frame, has_app, has_passkeys, ask, error: Some(failure.text()) })
}
