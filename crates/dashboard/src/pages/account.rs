//! `/account`: the viewer's password and sessions.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::ports::{SessionsToEnd, StoreError};
use journeyman_core::user::Session;
use journeyman_core::user::decide::PasswordChange;

use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, session, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/account", get(show))
        .route("/account/password", post(password))
        .route("/account/sessions/{session}/end", post(end))
}

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    frame: &'a Frame,
    has_password: bool,
    sessions: Vec<Row>,
    error: Option<String>,
}

struct Row {
    id: String,
    browser: String,
    address: String,
    seen: Moment,
    began: Moment,
    is_this: bool,
}

async fn page<'a>(shared: &Shared, frame: &'a Frame) -> Result<AccountPage<'a>, Failure> {
    let user = &frame.viewer.user;
    let mut sessions = shared.services.store.sessions(user.id).await?;
    sessions.retain(|one| session::holds(one, user, frame.now));
    let row = |one: &Session| Row {
        id: one.hash.short(),
        browser: visible::line(one.browser.as_deref().unwrap_or("Unknown browser")).into_owned(),
        address: one.address.clone().unwrap_or_default(),
        seen: frame.moment(one.seen_at),
        began: frame.moment(one.created_at),
        is_this: one.hash == frame.viewer.session,
    };
    let sessions = sessions.iter().map(row).collect();
    Ok(AccountPage { frame, has_password: user.password.is_some(), sessions, error: None })
}

async fn show(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async { rendered(&page(&shared, &frame).await?) };
    frame.answer(page.await)
}

async fn password(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(changed(&shared, &frame, &fields).await)
}

async fn changed(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    let services = &shared.services;
    let viewer = &frame.viewer;
    let wrong = async |text: String| {
        let mut page = page(shared, frame).await?;
        page.error = Some(text);
        refused(&page)
    };
    if let Err(seconds) = shared.throttle.attempt(viewer.address, &viewer.user.name) {
        return wrong(format!("Too many attempts. Try again in {seconds} seconds.")).await;
    }
    let failed = |error: journeyman_core::ports::PasswordsFailed| StoreError::Unavailable(error.to_string());
    let given =
        services.passwords.verify(fields.text("current"), viewer.user.password.clone()).await.map_err(failed)?;
    if !given {
        return wrong("The current password is wrong.".to_owned()).await;
    }
    let new = fields.text("password");
    if let Err(text) = services.passwords.check_new(&new, &viewer.user.name) {
        return wrong(words::sentence(&text)).await;
    }
    let hash = services.passwords.hash(new).await.map_err(failed)?;
    let change = PasswordChange { from: viewer.user.password.clone(), to: hash, keep: viewer.session };
    if let Err(error) = frame.cases().set_password(&frame.caller(), viewer.user.id, change).await {
        return wrong(refusal(error)?).await;
    }
    Ok(Redirect::to("/account?done=password").into_response())
}

async fn end(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let page = async {
        let sessions = shared.services.store.sessions(frame.viewer.user.id).await?;
        let found = sessions.iter().find(|one| one.hash.short() == id).ok_or(Failure::NotFound("session"))?;
        let entry = frame.viewer.audit(frame.now, "session.ended", frame.viewer.user.id);
        shared.services.store.end_sessions(SessionsToEnd::One(found.hash), entry).await?;
        Ok(Redirect::to("/account?done=ended").into_response())
    };
    frame.answer(page.await)
}
