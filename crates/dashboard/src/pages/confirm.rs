//! The page on which viewers prove who they are again, and the way back to what they asked for.
//!
//! [`crate::fresh`] shows the page in place of a page or of the answer to a form, and calls [`answer`].

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::ports::{NotProven, ProvenPerson};
use journeyman_core::time::Timestamp;
use journeyman_core::user::is_fresh;
use serde::Deserialize;

use super::account;
use super::provider_visit::{Pending, pending_cookie, provider_name, redirect};
use crate::failure::{Failure, Page, refusal, rendered};
use crate::fields::Fields;
use crate::frame::{Frame, OpenFrame};
use crate::passkeys::{Answer, Ask, Purpose};
use crate::viewer::ClientAddress;
use crate::{Shared, codes, error_page, passkeys, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/confirm", post(confirmed))
        .route("/confirm/provider", get(begin))
        .route("/confirm/done", get(done))
}

/// The field with the password of the viewer. Forms have no field with this name.
const PASSWORD: &str = "confirm-password";

/// The field with a code of the viewer's second factor.
const CODE: &str = "confirm-code";

/// The field with the answer of a passkey.
const PASSKEY: &str = "confirm-passkey";

/// The field with the encrypted challenge for a passkey.
const CHALLENGE: &str = "confirm-challenge";

/// The field with the name of the viewer, for password managers.
const NAME: &str = "confirm-name";

/// The field that is set if the viewer has pressed the button of the page.
const PRESSED: &str = "confirm";

/// What the viewer asked for, which is repeated after the proof.
pub(crate) struct Asked {
    /// The path to which the form of the page is sent.
    action: String,
    /// The fields, without those of the page.
    kept: Vec<(String, String)>,
    password: String,
    code: String,
    /// The answer of a passkey; `None` if none was used.
    passkey: Option<Answer>,
    is_pressed: bool,
    /// True if the viewer has asked for a page, and not sent a form.
    is_page: bool,
    /// The path to open after a sign-in at the provider; empty if it is a form, which the page keeps.
    next: String,
}

impl Asked {
    /// Returns a form, which is sent to its path again.
    pub(crate) fn form(path: &str, fields: Fields) -> Self {
        let is_own = |name: &str| [NAME, PASSWORD, CODE, PASSKEY, CHALLENGE, PRESSED].contains(&name);
        let kept = fields.pairs().iter().filter(|(name, _)| !is_own(name)).cloned().collect();
        let next = if path == "/confirm" { fields.text("next") } else { String::new() };
        let (password, code, is_pressed) = (fields.text(PASSWORD), fields.text(CODE), fields.is_set(PRESSED));
        let passkey = fields.given(PASSKEY).map(|answer| Answer { answer, sealed: fields.text(CHALLENGE) });
        Self { action: path.to_owned(), kept, password, code, passkey, is_pressed, is_page: false, next }
    }

    /// Returns a page, which is opened after the proof.
    pub(crate) fn page(here: &str) -> Self {
        let (action, kept) = ("/confirm".to_owned(), vec![("next".to_owned(), here.to_owned())]);
        let (password, code) = (String::new(), String::new());
        let (passkey, next) = (None, here.to_owned());
        Self { action, kept, password, code, passkey, is_pressed: false, is_page: true, next }
    }
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage<'a> {
    frame: &'a Frame,
    asked: &'a Asked,
    /// True if the password is a proof, alone or with a code.
    has_password: bool,
    /// True if the password needs a code.
    has_app: bool,
    has_passkeys: bool,
    /// What the page asks the browser for, if the viewer can use a passkey.
    ask: Option<Ask>,
    /// The name of the provider, if the viewer can sign in there.
    provider: Option<&'a str>,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "confirmed.html")]
struct DonePage<'a> {
    frame: &'a Frame,
}

/// Checks the proof in a request, and returns its time. The inner error is the page that asks for a proof.
pub(crate) async fn answer(frame: &Frame, asked: &Asked) -> Result<Result<Timestamp, Response>, Failure> {
    let error = if !asked.is_pressed {
        None
    } else if let Some(answer) = &asked.passkey {
        match proven_with_passkey(frame, answer).await? {
            Ok(at) => return Ok(Ok(at)),
            Err(text) => Some(text),
        }
    } else if frame.viewer.user.password.is_none() || asked.password.is_empty() {
        Some("You have not confirmed yet that it is you.".to_owned())
    } else {
        match proven(frame, asked).await? {
            Ok(at) => return Ok(Ok(at)),
            Err(text) => Some(text),
        }
    };
    let user = &frame.viewer.user;
    let provider = provider_name(&frame.shared).filter(|_| user.identity.is_some());
    let ask = passkeys::ask_user(&frame.shared, user, Purpose::Confirm(&frame.viewer.session))?;
    let (has_app, has_passkeys) = (user.second_factor.is_some(), !user.passkeys.list.is_empty());
    let has_password = user.password.is_some() && (has_app || !has_passkeys);
    let page = ConfirmPage { frame, asked, has_password, has_app, has_passkeys, ask, provider, error };
    // Turbo shows the page that answers a form only if the status is that of an error, and the page of a link with such
    // a status without its scripts.
    let status = if asked.is_page { StatusCode::OK } else { StatusCode::FORBIDDEN };
    Ok(Err((status, Html(page.render()?)).into_response()))
}

/// Checks the answer of a passkey, and records the proof. The inner error is a text for the viewer.
async fn proven_with_passkey(frame: &Frame, answer: &Answer) -> Result<Result<Timestamp, String>, Failure> {
    let (viewer, services) = (&frame.viewer, &frame.shared.services);
    if let Err(seconds) = frame.shared.throttle.attempt(viewer.address, &viewer.user.name) {
        return Ok(Err(words::too_often(seconds)));
    }
    let presented = passkeys::presented(&frame.shared, &viewer.user, Purpose::Confirm(&viewer.session), answer);
    let (caller, id, session) = (frame.caller(), viewer.user.id, viewer.session);
    match services.cases.prove_session_with_passkey(&caller, id, session, presented).await {
        Ok(proven) => Ok(proven.map_err(|refusal| words::sentence(&refusal.to_string()))),
        Err(error) => refusal(error).map(Err),
    }
}

/// Compares the password and the code, and records the proof. The inner error is a text for the viewer.
async fn proven(frame: &Frame, asked: &Asked) -> Result<Result<Timestamp, String>, Failure> {
    let (viewer, services) = (&frame.viewer, &frame.shared.services);
    if let Err(text) = account::check_password(&frame.shared, frame, asked.password.clone()).await? {
        services.store.note(viewer.audit(frame.now, "session.unconfirmed", viewer.user.id)).await?;
        return Ok(Err(text));
    }
    let Some(password) = viewer.user.password.clone() else { return Ok(Err(String::new())) };
    let (caller, id, session) = (frame.caller(), viewer.user.id, viewer.session);
    let proven = match codes::attempt(&frame.shared, &viewer.user, asked.code.clone())? {
        None => services.cases.prove_session(&caller, id, session, password).await.map(Ok),
        Some(attempt) => services.cases.prove_session_with_code(&caller, id, session, password, attempt).await,
    };
    match proven {
        Ok(proven) => Ok(proven.map_err(|refusal| words::sentence(&refusal.to_string()))),
        Err(error) => refusal(error).map(Err),
    }
}

/// Opens the page for which the viewer has proved who they are.
async fn confirmed(fields: Fields) -> Redirect {
    Redirect::to(words::return_path(&fields.text("next")))
}

async fn done(frame: Frame) -> Response {
    frame.answer(rendered(&DonePage { frame: &frame }))
}

#[derive(Deserialize)]
struct NextQuery {
    next: Option<String>,
}

async fn begin(State(shared): State<Shared>, frame: Frame, Query(query): Query<NextQuery>) -> Response {
    let page = async {
        let provider = shared.services.provider.as_ref().filter(|_| frame.viewer.user.identity.is_some());
        let provider = provider.ok_or(Failure::NotFound("provider"))?;
        if let Err(seconds) = shared.throttle.ask(frame.viewer.address) {
            return refused(&frame, StatusCode::TOO_MANY_REQUESTS, words::too_often(seconds));
        }
        let begun = match provider.begin_again(&redirect(&shared), frame.now).await {
            Ok(begun) => begun,
            Err(error) => return refused(&frame, StatusCode::BAD_GATEWAY, words::sentence(&error.to_string())),
        };
        let next = query.next.filter(|next| !next.is_empty()).unwrap_or_else(|| "/confirm/done".to_owned());
        let confirms = Some(frame.viewer.session.short());
        let kept = Pending { state: begun.pending, next, connects: None, confirms };
        let page = Redirect::to(&begun.url).into_response();
        Ok(session::with_cookie(page, pending_cookie(&shared, &kept.encoded())))
    };
    frame.answer(page.await)
}

#[derive(Template)]
#[template(path = "unconfirmed.html")]
struct RefusedPage<'a> {
    frame: &'a Frame,
    text: String,
}

fn refused(frame: &Frame, status: StatusCode, text: String) -> Page {
    Ok((status, Html(RefusedPage { frame, text }.render()?)).into_response())
}

/// Records the proof of a session's user after the provider has sent the browser back, and opens the page `next`.
pub(super) async fn finish(
    open: OpenFrame,
    from: ClientAddress,
    headers: &HeaderMap,
    (session, next): (&str, &str),
    person: Result<ProvenPerson, NotProven>,
) -> Response {
    let viewer = match session::viewer(&open.shared, headers, from).await {
        Ok(viewer) => viewer.filter(|viewer| viewer.session.short() == session),
        Err(error) => return error_page::unavailable(&open.shared, &error),
    };
    // The session has ended, or another user has signed in, so there is nothing to confirm.
    let Some(viewer) = viewer else { return Redirect::to(&session::sign_in_path(next)).into_response() };
    let frame = Frame::new(open, viewer, String::new());
    frame.answer(finished(&frame, next, person).await)
}

async fn finished(frame: &Frame, next: &str, person: Result<ProvenPerson, NotProven>) -> Page {
    let (viewer, services) = (&frame.viewer, &frame.shared.services);
    let text = match person.map(|person| accepted(frame, person)) {
        Ok(Ok((identity, at))) => {
            let (caller, id) = (frame.caller(), viewer.user.id);
            match services.cases.prove_session_by_provider(&caller, id, viewer.session, identity, at).await {
                Ok(()) => return Ok(Redirect::to(words::return_path(next)).into_response()),
                Err(error) => refusal(error)?,
            }
        }
        Ok(Err(text)) => text.to_owned(),
        Err(error) => words::sentence(&error.to_string()),
    };
    services.store.note(viewer.audit(frame.now, "session.unconfirmed", viewer.user.id)).await?;
    refused(frame, StatusCode::FORBIDDEN, text)
}

/// Returns the identity and the time of a proof, or a text for the viewer that says why it is not accepted.
fn accepted(frame: &Frame, person: ProvenPerson) -> Result<(journeyman_core::user::Identity, Timestamp), &'static str> {
    if frame.viewer.user.identity.as_ref() != Some(&person.identity) {
        return Err("You have signed in there with another account than the one that is connected with your user.");
    }
    let at = person.authenticated_at.ok_or(
        "The provider does not say when it has asked you to sign in (auth_time), so this is no proof that it is you. An \
         administrator can give you a link to set a password, with which you can confirm.",
    )?;
    if !is_fresh(Some(at), frame.now) {
        return Err("The provider has not asked you to sign in again. Sign out there, and try again.");
    }
    Ok((person.identity, at))
}
