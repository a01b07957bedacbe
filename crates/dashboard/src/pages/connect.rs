//! `/account/provider`: connects the viewer's user with an account of the OpenID provider, and disconnects it.
//!
//! The form is a `POST`, so that another site cannot begin a connection in the browser of a user. It is answered with a
//! page that leads to the provider: the policy of our pages forbids that a form is redirected to another site. The
//! provider sends the browser back to the URL of a sign-in ([`super::provider`]), where the cookie says for which session
//! the connection was begun.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use journeyman_core::ports::{NotProven, ProvenPerson};

use super::account;
use super::provider_visit::{Pending, pending_cookie, provider_name, redirect};
use crate::failure::{Failure, Page, refusal, rendered};
use crate::fields::Fields;
use crate::frame::{Frame, OpenFrame};
use crate::viewer::ClientAddress;
use crate::{Shared, error_page, session, words};

const NOT_CONNECTED: &str = "The account was not connected.";

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/account/provider", post(begin)).route("/account/provider/disconnect", post(disconnect))
}

#[derive(Template)]
#[template(path = "connect.html")]
struct ContinuePage<'a> {
    frame: &'a Frame,
    name: &'a str,
    url: String,
}

async fn begin(State(shared): State<Shared>, frame: Frame, fields: Fields) -> Response {
    frame.answer(begun(&shared, &frame, &fields).await)
}

async fn begun(shared: &Shared, frame: &Frame, fields: &Fields) -> Page {
    let none = || Failure::NotFound("provider");
    let (provider, name) =
        (shared.services.provider.as_ref().ok_or_else(none)?, provider_name(shared).ok_or_else(none)?);
    let not_connected = async |text| account::show_refused(shared, frame, NOT_CONNECTED, text).await;
    if let Err(seconds) = shared.throttle.ask(frame.viewer.address) {
        return not_connected(words::too_often(seconds)).await;
    }
    // The account at the provider will sign in as this user, even after a change of the password.
    if frame.viewer.user.password.is_some()
        && let Err(text) = account::confirm_password(shared, frame, fields).await?
    {
        return not_connected(text).await;
    }
    let begun = match provider.begin(&redirect(shared), frame.now).await {
        Ok(begun) => begun,
        Err(error) => return not_connected(words::sentence(&error.to_string())).await,
    };
    let connects = Some(frame.viewer.session.short());
    let kept = Pending { state: begun.pending, next: "/account".to_owned(), connects, confirms: None };
    let page = rendered(&ContinuePage { frame, name, url: begun.url })?;
    Ok(session::with_cookie(page, pending_cookie(shared, &kept.encoded())))
}

/// Connects the user of a session with the person whom the provider has proven, after the browser has come back.
pub(super) async fn finish(
    open: OpenFrame,
    from: ClientAddress,
    headers: &HeaderMap,
    session: &str,
    person: Result<ProvenPerson, NotProven>,
) -> Response {
    let viewer = match session::viewer(&open.shared, headers, from).await {
        Ok(viewer) => viewer.filter(|viewer| viewer.session.short() == session),
        Err(error) => return error_page::unavailable(&open.shared, &error),
    };
    // The session has ended, or another user has signed in, so no user is connected.
    let Some(viewer) = viewer else { return Redirect::to(&session::sign_in_path("/account")).into_response() };
    let frame = Frame::new(open, viewer, String::new());
    let page = async {
        let (caller, user) = (frame.caller(), frame.viewer.user.id);
        let refused = match person {
            Ok(person) => match frame.cases().connect_identity(&caller, user, person.identity).await {
                Ok(_) => None,
                Err(error) => Some(refusal(error)?),
            },
            Err(error) => Some(words::sentence(&error.to_string())),
        };
        if let Some(reason) = refused {
            return account::show_refused(&frame.shared, &frame, NOT_CONNECTED, reason).await;
        }
        Ok(Redirect::to("/account?done=connected").into_response()) as Page
    };
    frame.answer(page.await)
}

async fn disconnect(frame: Frame) -> Response {
    let page = async {
        let viewer = &frame.viewer;
        frame.cases().disconnect_identity(&frame.caller(), viewer.user.id, viewer.session).await?;
        Ok(Redirect::to("/account?done=disconnected").into_response()) as Page
    };
    frame.answer(page.await)
}
