//! `POST /account/theme` and `POST /account/letters`: the preferences of the browser.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;

use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::preferences::{Preferences, Theme};
use crate::{Shared, session, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/account/theme", post(theme)).route("/account/letters", post(letters))
}

/// Keeps a theme, and goes back to the page with the switch.
async fn theme(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    let (name, next) = (fields.text("theme"), fields.text("next"));
    let page = Theme::parse(&name).ok_or_else(|| Failure::Form(format!("there is no theme {name:?}"))).map(|theme| {
        let back = Redirect::to(words::return_path(&next)).into_response();
        session::with_cookie(back, theme.cookie(&shared.settings))
    });
    frame.answer(page)
}

/// Switches letters as shortcuts on or off.
async fn letters(State(shared): State<Shared>, fields: Fields) -> Response {
    let cookie = Preferences::letters_cookie(&shared.settings, fields.is_set("letters"));
    session::with_cookie(Redirect::to("/account?done=saved").into_response(), cookie)
}
