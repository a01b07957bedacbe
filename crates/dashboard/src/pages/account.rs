//! `/account`: the viewer's password, accounts elsewhere and sessions, and the preferences of the browser.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::decision::user::PasswordChange;
use journeyman_core::ports::{PasswordsFailed, StoreError};
use journeyman_core::slack::SlackWorkspace;
use journeyman_core::user::passkey::Passkey;
use journeyman_core::user::{Session, SessionsToEnd};

use super::provider_visit::provider_name;
use super::secret::NewSecret;
use super::sign_in::MAX_PASSWORD_BYTES;
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, passkeys, session, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/account", get(show))
        .route("/account/password", post(password))
        .route("/account/slack", post(slack_code))
        .route("/account/sessions/{session}/end", post(end))
}

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage<'a> {
    frame: &'a Frame,
    has_password: bool,
    /// The time of the set-up of the second factor, and the number of recovery codes that are left, if there is one.
    second_factor: Option<(Moment, usize)>,
    passkeys: Vec<PasskeyRow>,
    /// The reason why browsers use no passkeys for this server.
    no_passkeys: Option<&'static str>,
    /// True if the server requires a second factor of the viewer.
    needs_second_factor: bool,
    /// The name of the OpenID provider, if there is one.
    provider: Option<&'a str>,
    /// True if the viewer can sign in with the provider.
    is_connected: bool,
    /// The workspaces, and whether an account of the viewer is connected in each. Empty if the role cannot use them.
    workspaces: Vec<(String, bool)>,
    sessions: Vec<Row>,
    /// If a form of the page was refused: what was not done, and the reason.
    refused: Option<(&'static str, String)>,
}

struct PasskeyRow {
    id: String,
    name: String,
    made: Moment,
    used: Option<Moment>,
}

struct Row {
    id: String,
    browser: String,
    address: String,
    seen: Moment,
    began: Moment,
    is_this: bool,
}

async fn page<'a>(shared: &'a Shared, frame: &'a Frame) -> Result<AccountPage<'a>, Failure> {
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
    let workspaces: Vec<SlackWorkspace> =
        if frame.viewer.can_write() { shared.services.store.resources(None).await? } else { Vec::new() };
    let workspaces = workspaces.into_iter().map(|workspace| {
        let is_connected = workspace.settings.users.values().any(|id| *id == user.id);
        (visible::line(&workspace.settings.name).into_owned(), is_connected)
    });
    let (has_password, workspaces) = (user.password.is_some(), workspaces.collect());
    let (provider, is_connected) = (provider_name(shared), user.identity.is_some());
    let second_factor = user.second_factor.as_ref().map(|one| (frame.moment(one.since), one.recovery.len()));
    let passkey = |one: &Passkey| PasskeyRow {
        id: one.id(),
        name: visible::line(&one.name).into_owned(),
        made: frame.moment(one.created_at),
        used: one.used_at.map(|at| frame.moment(at)),
    };
    let passkeys = user.passkeys.list.iter().map(passkey).collect();
    let no_passkeys = passkeys::site(&shared.settings.public_url).err();
    let needs_second_factor = shared.settings.second_factor.concerns(user.role);
    Ok(AccountPage {
        frame,
        has_password,
        second_factor,
        passkeys,
        no_passkeys,
        needs_second_factor,
        provider,
        is_connected,
        workspaces,
        sessions,
        refused: None,
    })
}

async fn show(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async { rendered(&page(&shared, &frame).await?) };
    frame.answer(page.await)
}

/// Shows the page again after one of its forms was refused: what was not done, and the reason.
pub(super) async fn show_refused(shared: &Shared, frame: &Frame, what: &'static str, reason: String) -> Page {
    let mut page = page(shared, frame).await?;
    page.refused = Some((what, reason));
    refused(&page)
}

async fn password(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(changed(&shared, &frame, &fields).await)
}

fn passwords_failed(error: PasswordsFailed) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Compares the field `current` with the password of the viewer. The inner error is a text for the viewer.
pub(super) async fn confirm_password(
    shared: &Shared,
    frame: &Frame,
    fields: &Fields,
) -> Result<Result<(), String>, StoreError> {
    check_password(shared, frame, fields.text("current")).await
}

/// Compares a text with the password of the viewer. The inner error is a text for the viewer.
pub(crate) async fn check_password(
    shared: &Shared,
    frame: &Frame,
    password: String,
) -> Result<Result<(), String>, StoreError> {
    let viewer = &frame.viewer;
    if let Err(seconds) = shared.throttle.attempt(viewer.address, &viewer.user.name) {
        return Ok(Err(words::too_often(seconds)));
    }
    // A longer text is not a user's password. Verifying the empty text instead saves the time to hash it.
    let password = if password.len() > MAX_PASSWORD_BYTES { String::new() } else { password };
    let given = shared.services.passwords.verify(password, viewer.user.password.clone()).await;
    let text = || "The current password is wrong.".to_owned();
    Ok(given.map_err(passwords_failed)?.then_some(()).ok_or_else(text))
}

async fn changed(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    let services = &shared.services;
    let viewer = &frame.viewer;
    let wrong = async |text| show_refused(shared, frame, "The password was not changed.", text).await;
    if let Err(text) = confirm_password(shared, frame, fields).await? {
        return wrong(text).await;
    }
    let new = fields.text("password");
    if let Err(text) = services.passwords.check_new(&new, &viewer.user.name) {
        return wrong(words::sentence(&text)).await;
    }
    let hash = services.passwords.hash(new).await.map_err(passwords_failed)?;
    let change = PasswordChange { from: viewer.user.password.clone(), to: hash, keep: viewer.session };
    if let Err(error) = frame.cases().set_password(&frame.caller(), viewer.user.id, change).await {
        return wrong(refusal(error)?).await;
    }
    Ok(Redirect::to("/account?done=password").into_response())
}

async fn slack_code(frame: Frame) -> Response {
    let page = async {
        frame.needs_write()?;
        let (code, expires) = frame.cases().create_slack_code(&frame.caller()).await?;
        let text = "Send this in a direct message to the app journeyman in Slack. It works once. Do not share it: the \
                    Slack account that sends it gets your rights.";
        let new = NewSecret {
            heading: "Link your Slack account".to_owned(),
            back: ("/account".to_owned(), "Account".to_owned()),
            request: "Send this to the app now".to_owned(),
            text: text.to_owned(),
            times: vec![("It is accepted until".to_owned(), expires)],
            values: vec![("slack-code".to_owned(), format!("link {code}"))],
            example: None,
        };
        new.show(&frame)
    };
    frame.answer(page.await)
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
