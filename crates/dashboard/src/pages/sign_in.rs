//! `GET` and `POST /login`, and `POST /logout`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_app::Error;
use journeyman_core::ports::{SessionsToEnd, StoreError};
use journeyman_core::user::{Role, User, user_name};
use serde::Deserialize;

use crate::fields::Fields;
use crate::icons::Icon;
use crate::viewer::{ClientAddress, audit};
use crate::{Shared, failure, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/login", get(show).post(sign_in)).route("/logout", post(sign_out))
}

/// What surrounds a page for those who have not signed in.
#[derive(Clone)]
pub(super) struct SignedOutFrame(pub(super) Shared);

impl SignedOutFrame {
    pub(super) fn asset(&self, name: &str) -> String {
        self.0.assets.href(name)
    }

    #[expect(clippy::unused_self, reason = "templates call it as they call that of a frame")]
    pub(super) fn icon(&self, name: &str) -> Icon {
        crate::icons::icon(name)
    }

    /// The page, or that it could not be made.
    pub(super) fn page(&self, status: StatusCode, page: &impl Template) -> Response {
        match page.render() {
            Ok(html) => (status, Html(html)).into_response(),
            Err(error) => {
                tracing::error!(%error, "a page could not be rendered");
                (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
            }
        }
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: &'a SignedOutFrame,
    next: &'a str,
    name: &'a str,
    error: Option<String>,
    provider: Option<&'a str>,
    /// Whether there is no administrator yet.
    unclaimed: bool,
}

/// The longest password, in bytes: 128 characters of four.
const MOST_PASSWORD_BYTES: usize = 512;

/// How long somebody waits for those who sign in before.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct NextQuery {
    next: Option<String>,
}

async fn show(
    State(shared): State<Shared>,
    Query(query): Query<NextQuery>,
    from: ClientAddress,
    headers: HeaderMap,
) -> Response {
    let next = query.next.unwrap_or_default();
    match session::viewer(&shared, &headers, from).await {
        Ok(Some(_)) => Redirect::to(words::way_back(&next)).into_response(),
        Ok(None) => form(&shared, StatusCode::OK, (&next, ""), None).await,
        Err(error) => failure::unavailable(&shared, &error),
    }
}

/// The page with the form, and what was wrong with what was sent.
pub(super) async fn form(
    shared: &Shared,
    status: StatusCode,
    (next, name): (&str, &str),
    error: Option<String>,
) -> Response {
    let unclaimed = match is_unclaimed(shared).await {
        Ok(unclaimed) => unclaimed,
        Err(error) => return failure::unavailable(shared, &error),
    };
    let frame = SignedOutFrame(shared.clone());
    let provider = shared.services.provider.as_ref().map(|provider| provider.label());
    frame.page(status, &SignInPage { frame: &frame, next, name, error, provider, unclaimed })
}

/// Whether there is no administrator yet. Once there is one there always is, so it is asked no more.
async fn is_unclaimed(shared: &Shared) -> Result<bool, StoreError> {
    if shared.claimed.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let users = shared.services.store.users().await?;
    let claimed = users.iter().any(|user| user.role == Role::Administrator && user.disabled_at.is_none());
    shared.claimed.store(claimed, Ordering::Relaxed);
    Ok(!claimed)
}

/// Why somebody is not let in. Whether there is such a user, and whether they may sign in, is not told.
enum NotLetIn {
    Wrong,
    TooOften(u64),
    Failed(String),
    Store(StoreError),
}

async fn sign_in(State(shared): State<Shared>, from: ClientAddress, headers: HeaderMap, fields: Fields) -> Response {
    let (next, name) = (fields.text("next"), fields.text("name"));
    let refusal = match check(&shared, from, &name, fields.text("password")).await {
        Ok(user) => match session::begin(&shared, &user, &headers, from).await {
            Ok(cookie) => {
                return session::with_cookie(Redirect::to(words::way_back(&next)).into_response(), cookie);
            }
            Err(Error::Store(error)) => NotLetIn::Store(error),
            Err(_) => NotLetIn::Wrong,
        },
        Err(refusal) => refusal,
    };
    let (status, text) = match refusal {
        NotLetIn::Wrong => (StatusCode::UNPROCESSABLE_ENTITY, "The name or the password is wrong.".to_owned()),
        NotLetIn::TooOften(seconds) => {
            let text = format!("Too many attempts. Try again in {seconds} seconds.");
            (StatusCode::TOO_MANY_REQUESTS, text)
        }
        NotLetIn::Failed(error) => {
            tracing::error!(error, "a password could not be checked");
            let text = "The password could not be checked; the server's log says why. Try again in a moment.";
            (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        }
        NotLetIn::Store(error) => return failure::unavailable(&shared, &error),
    };
    form(&shared, status, (&next, &name), Some(text)).await
}

async fn check(
    shared: &Shared,
    ClientAddress(address): ClientAddress,
    name: &str,
    password: String,
) -> Result<User, NotLetIn> {
    let services = &shared.services;
    // What is no name is no user's, and costs as much.
    let name = user_name(name).unwrap_or_default();
    shared.throttle.attempt(address, &name).map_err(NotLetIn::TooOften)?;
    let user = services.store.user_by_name(name.clone()).await.map_err(NotLetIn::Store)?;
    let hash = user.as_ref().and_then(|user| user.password.clone());
    // What is longer is nobody's password, and is not worth the time to hash it.
    let password = if password.len() > MOST_PASSWORD_BYTES { String::new() } else { password };
    let is_right = tokio::time::timeout(PATIENCE, services.passwords.verify(password, hash)).await;
    let is_right = is_right.map_err(|_| NotLetIn::Failed("too many are waiting".to_owned()))?;
    let is_right = is_right.map_err(|error| NotLetIn::Failed(error.to_string()))?;
    let id = user.as_ref().map(|user| user.id);
    if let Some(user) = user.filter(|user| is_right && user.disabled_at.is_none()) {
        return Ok(user);
    }
    // A name that is nobody's is not noted: it may be a password in the wrong field.
    if let Some(id) = id {
        let entry = audit(services.clock.now(), "nobody", "session.refused", id, address);
        services.store.note(entry).await.map_err(NotLetIn::Store)?;
    }
    Err(NotLetIn::Wrong)
}

async fn sign_out(State(shared): State<Shared>, from: ClientAddress, headers: HeaderMap) -> Response {
    let viewer = match session::viewer(&shared, &headers, from).await {
        Ok(viewer) => viewer,
        Err(error) => return failure::unavailable(&shared, &error),
    };
    if let Some(viewer) = viewer {
        let entry = viewer.audit(shared.services.clock.now(), "session.ended", viewer.user.id);
        if let Err(error) = shared.services.store.end_sessions(SessionsToEnd::One(viewer.session), entry).await {
            return failure::unavailable(&shared, &error);
        }
    }
    session::with_cookie(Redirect::to("/login").into_response(), session::no_cookie(&shared.settings))
}
