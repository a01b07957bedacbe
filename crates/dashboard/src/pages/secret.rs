//! `/secrets/{ticket}`: a new secret, such as an API key, until the reader has stored it or ten minutes have passed.
//!
//! The form that creates a secret redirects to this page, so that a reload shows the secret again and creates no other
//! one. The secret is in a cookie of the browser, encrypted with the master key and bound to the session: every machine
//! can show it, and it is readable neither in the browser's files nor with another session
//! ([decision 48](../../../../docs/decisions/0048-new-secrets.md)).

use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::projects;
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::moment::Day;
use crate::{Settings, Shared, cookies, session};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/secrets/{ticket}", get(page)).route("/secrets/{ticket}/stored", post(stored))
}

/// The time for which a secret can be shown again.
const LIFETIME: Duration = Duration::from_mins(10);

/// A secret that was just created, and the texts of its page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NewSecret {
    /// The heading of the page.
    pub(super) heading: String,
    /// The path and the name of the page to which the reader returns.
    pub(super) back: (String, String),
    /// The request to the reader, such as `Copy it now`.
    pub(super) request: String,
    /// The explanation.
    pub(super) text: String,
    /// The beginnings of sentences that end with a time.
    pub(super) times: Vec<(String, Timestamp)>,
    /// The texts to copy, with their IDs on the page.
    pub(super) values: Vec<(String, String)>,
    /// The project for an example that uses the first text as an API key.
    pub(super) example: Option<String>,
}

/// The content of the cookie.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The part of the URL that distinguishes this secret from an older one in another tab.
    ticket: String,
    until: Timestamp,
    secret: NewSecret,
}

impl NewSecret {
    /// Redirects to the page with the secret.
    pub(super) fn show(self, frame: &Frame) -> Page {
        let settings = &frame.shared.settings;
        let kept = Kept { ticket: frame.once(), until: frame.now + LIFETIME, secret: self };
        let text = serde_json::to_string(&kept).map_err(|error| Failure::Render(error.to_string()))?;
        let sealed = frame.shared.services.seal.seal(&context(frame), &text);
        let sealed = sealed.map_err(|error| Failure::Render(error.to_string()))?;
        let response = Redirect::to(&format!("/secrets/{}", kept.ticket)).into_response();
        let cookie = cookies::set(settings, cookie_name(settings), &sealed, LIFETIME.as_secs());
        Ok(session::with_cookie(response, cookie))
    }
}

/// Returns the name of the cookie. Browsers accept a `__Host-` cookie only over https and only for this host.
fn cookie_name(settings: &Settings) -> &'static str {
    if settings.is_secure() { "__Host-journeyman-secret" } else { "journeyman-secret" }
}

/// Returns the purpose and the owner of the encrypted text: the session.
fn context(frame: &Frame) -> String {
    let owner: String = frame.viewer.session.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("dashboard/secret/{owner}")
}

/// Returns the secret with a ticket; `None` if it is no longer kept, or belongs to another session.
fn find(frame: &Frame, headers: &HeaderMap, ticket: &str) -> Option<NewSecret> {
    let shared = &frame.shared;
    let context = context(frame);
    let mut sealed = cookies::all(headers, cookie_name(&shared.settings));
    let text = sealed.find_map(|value| shared.services.seal.open(&context, value))?;
    let kept: Kept = serde_json::from_str(&text).ok()?;
    (kept.ticket == ticket && kept.until > frame.now).then_some(kept.secret)
}

#[derive(Template)]
#[template(path = "secret.html")]
struct SecretPage<'a> {
    frame: &'a Frame,
    ticket: &'a str,
    secret: &'a NewSecret,
    times: Vec<(&'a str, Day)>,
    curl: Option<String>,
}

#[derive(Template)]
#[template(path = "secret_gone.html")]
struct GonePage<'a> {
    frame: &'a Frame,
}

async fn page(frame: Frame, Path(ticket): Path<String>, headers: HeaderMap) -> Response {
    frame.answer(match find(&frame, &headers, &ticket) {
        Some(secret) => shown(&frame, &ticket, &secret),
        None => gone(&frame),
    })
}

fn shown(frame: &Frame, ticket: &str, secret: &NewSecret) -> Page {
    let times = secret.times.iter().map(|(text, at)| (text.as_str(), frame.day(*at))).collect();
    let key = secret.values.first().map(|(_, value)| value.as_str()).unwrap_or_default();
    let curl = secret.example.as_ref().map(|project| projects::curl(frame, project, key));
    rendered(&SecretPage { frame, ticket, secret, times, curl })
}

fn gone(frame: &Frame) -> Page {
    Ok((StatusCode::GONE, Html(GonePage { frame }.render()?)).into_response())
}

/// Deletes the cookie, and returns to the page from which the secret came.
async fn stored(
    State(shared): State<Shared>,
    frame: Frame,
    Path(ticket): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(secret) = find(&frame, &headers, &ticket) else { return Redirect::to("/").into_response() };
    let cookie = cookies::set(&shared.settings, cookie_name(&shared.settings), "", 0);
    session::with_cookie(Redirect::to(&secret.back.0).into_response(), cookie)
}
