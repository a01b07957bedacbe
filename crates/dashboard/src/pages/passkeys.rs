//! `/account/passkeys`: adds, renames and removes passkeys of the viewer.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::user::passkey::passkey_name;

use super::account;
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::passkeys::{self, Answer, Ask, Purpose};
use crate::second_factor::{PASSKEYS, is_missing};
use crate::{Shared, toast, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route(PASSKEYS, get(show).post(add))
        .route("/account/passkeys/{passkey}/rename", post(rename))
        .route("/account/passkeys/{passkey}/remove", post(remove))
}

/// The beginning of a refusal on the page of the account.
const NOT_CHANGED: &str = "The passkeys were not changed.";

#[derive(Template)]
#[template(path = "passkeys.html")]
struct AddPage<'a> {
    frame: &'a Frame,
    /// True if the server requires a second factor of the viewer, who has none.
    is_required: bool,
    has_second_factor: bool,
    ask: Ask,
    name: String,
    error: Option<String>,
}

/// Returns the page with a new challenge; the inner error says why passkeys are not possible.
fn page(frame: &Frame, name: String, error: Option<String>) -> Result<Result<AddPage<'_>, String>, Failure> {
    let (shared, user) = (&frame.shared, &frame.viewer.user);
    if user.password.is_none() {
        return Ok(Err("You sign in at the provider, which has its own passkeys.".to_owned()));
    }
    let site = match passkeys::site(&shared.settings.public_url) {
        Ok(site) => site,
        Err(reason) => return Ok(Err(reason.to_owned())),
    };
    let ask = passkeys::ask_new(shared, &site, Purpose::Add(&frame.viewer.session), user)?;
    let (is_required, has_second_factor) = (is_missing(shared, user), user.has_second_factor());
    Ok(Ok(AddPage { frame, is_required, has_second_factor, ask, name, error }))
}

async fn show(frame: Frame) -> Response {
    let page = async {
        match page(&frame, String::new(), None)? {
            Ok(page) => rendered(&page),
            Err(text) => account::show_refused(&frame.shared, &frame, NOT_CHANGED, text).await,
        }
    };
    frame.answer(page.await)
}

async fn add(frame: Frame, fields: Fields) -> Response {
    frame.answer(added(&frame, &fields).await)
}

async fn added(frame: &Frame, fields: &Fields) -> Page {
    let (shared, viewer) = (&frame.shared, &frame.viewer);
    let again = async |text: String| match page(frame, fields.text("name"), Some(text))? {
        Ok(page) => refused(&page),
        Err(text) => account::show_refused(shared, frame, NOT_CHANGED, text).await,
    };
    if let Err(seconds) = shared.throttle.attempt(viewer.address, &viewer.user.name) {
        return again(words::too_often(seconds)).await;
    }
    let answer = Answer { answer: fields.text("passkey"), sealed: fields.text("challenge") };
    let name = match passkey_name(&fields.text("name")) {
        Ok(name) => name,
        Err(error) => return again(words::sentence(&error.to_string())).await,
    };
    let (passkey, challenge) = match passkeys::registered(shared, Purpose::Add(&viewer.session), &answer, name) {
        Ok(new) => new,
        Err(refusal) => return again(words::sentence(&refusal.to_string())).await,
    };
    match frame.cases().add_passkey(&frame.caller(), viewer.user.id, passkey, challenge, viewer.session).await {
        Ok(()) => Ok(Redirect::to("/account?done=passkey_added").into_response()),
        Err(error) => again(refusal(error)?).await,
    }
}

async fn rename(State(shared): State<Shared>, frame: Frame, Path(passkey): Path<String>, fields: Fields) -> Response {
    let page = async {
        let id = frame.viewer.user.id;
        let name = match passkey_name(&fields.text("name")) {
            Ok(name) => name,
            Err(error) => {
                let text = words::sentence(&error.to_string());
                return account::show_refused(&shared, &frame, NOT_CHANGED, text).await;
            }
        };
        match frame.cases().rename_passkey(&frame.caller(), id, passkey, name).await {
            Ok(()) => Ok(toast::confirmed("/account", "passkey_renamed")),
            Err(error) => account::show_refused(&shared, &frame, NOT_CHANGED, refusal(error)?).await,
        }
    };
    frame.answer(page.await)
}

async fn remove(State(shared): State<Shared>, frame: Frame, Path(passkey): Path<String>) -> Response {
    let page = async {
        match frame.cases().remove_passkey(&frame.caller(), frame.viewer.user.id, passkey).await {
            Ok(()) => Ok(toast::confirmed("/account", "passkey_removed")),
            Err(error) => account::show_refused(&shared, &frame, NOT_CHANGED, refusal(error)?).await,
        }
    };
    frame.answer(page.await)
}
