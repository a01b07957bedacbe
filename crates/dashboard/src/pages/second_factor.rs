//! `/account/second-factor`: the set-up of a second factor, its recovery codes, and its removal.

use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use journeyman_core::time::Timestamp;
use journeyman_core::user::second_factor::{SecondFactor, TotpSecret, new_recovery_codes};
use serde::{Deserialize, Serialize};

use super::account;
use super::secret::NewSecret;
use crate::codes::{self, Drawing};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::second_factor::{SETUP, is_missing};
use crate::{Shared, toast, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route(SETUP, get(show).post(add))
        .route("/account/second-factor/codes", post(replace))
        .route("/account/second-factor/remove", post(remove))
}

/// The time within which the first code of a new secret must be entered.
const SETUP_LIFETIME: Duration = Duration::from_mins(30);

/// The beginning of a refusal on the page of the account.
const NOT_CHANGED: &str = "The second factor was not changed.";

/// A secret that was shown and not confirmed. The page keeps it, encrypted and bound to the session.
#[derive(Serialize, Deserialize)]
struct Shown {
    secret: String,
    until: Timestamp,
}

fn context(frame: &Frame) -> String {
    let owner: String = frame.viewer.session.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("dashboard/second_factor/{owner}")
}

#[derive(Template)]
#[template(path = "second_factor.html")]
struct SetupPage<'a> {
    frame: &'a Frame,
    /// True if the server requires a second factor of the viewer.
    is_required: bool,
    /// True if browsers use passkeys for this server.
    has_passkeys: bool,
    drawing: Option<Drawing>,
    /// The secret in groups of four letters.
    groups: Vec<String>,
    uri: String,
    /// The encrypted secret.
    sealed: String,
    error: Option<String>,
}

fn page<'a>(frame: &'a Frame, secret: &TotpSecret, error: Option<String>) -> Result<SetupPage<'a>, Failure> {
    let (shared, user) = (&frame.shared, &frame.viewer.user);
    let (text, uri) = (secret.text(), codes::uri(&shared.settings.public_url, &user.name, secret));
    let groups = (0..text.len()).step_by(4).filter_map(|at| text.get(at..at + 4)).map(str::to_owned).collect();
    let shown = Shown { secret: text, until: frame.now + SETUP_LIFETIME };
    let shown = serde_json::to_string(&shown).map_err(|error| Failure::Render(error.to_string()))?;
    let sealed = shared.services.seal.seal(&context(frame), &shown);
    let sealed = sealed.map_err(|error| Failure::Render(error.to_string()))?;
    let (is_required, drawing) = (is_missing(shared, user), codes::drawing(&uri));
    let has_passkeys = crate::passkeys::site(&shared.settings.public_url).is_ok();
    Ok(SetupPage { frame, is_required, has_passkeys, drawing, groups, uri, sealed, error })
}

async fn show(frame: Frame) -> Response {
    let page = async {
        let user = &frame.viewer.user;
        if user.password.is_none() {
            let text = "You sign in at the provider, which has its own second factors.".to_owned();
            return account::show_refused(&frame.shared, &frame, NOT_CHANGED, text).await;
        }
        if user.second_factor.is_some() {
            return Ok(Redirect::to("/account").into_response()) as Page;
        }
        rendered(&page(&frame, &TotpSecret::generate(&*frame.shared.services.ids), None)?)
    };
    frame.answer(page.await)
}

async fn add(frame: Frame, fields: Fields) -> Response {
    frame.answer(added(&frame, &fields).await)
}

async fn added(frame: &Frame, fields: &Fields) -> Page {
    let (shared, viewer) = (&frame.shared, &frame.viewer);
    let shown = shared.services.seal.open(&context(frame), &fields.text("secret"));
    let shown = shown.and_then(|text| serde_json::from_str::<Shown>(&text).ok()).filter(|one| one.until > frame.now);
    let Some(secret) = shown.and_then(|shown| TotpSecret::parse(&shown.secret)) else {
        let text = "The page was open for too long, so this is a new secret. Scan it instead of the old one.";
        let new = TotpSecret::generate(&*shared.services.ids);
        return refused(&page(frame, &new, Some(text.to_owned()))?);
    };
    if let Err(seconds) = shared.throttle.attempt(viewer.address, &viewer.user.name) {
        return refused(&page(frame, &secret, Some(words::too_often(seconds)))?);
    }
    let Some(last_step) = secret.step_of(&fields.text("code"), frame.now) else {
        let text = "The code is wrong. Check that the clock of your phone is right, and enter the code that the app \
                    shows now.";
        return refused(&page(frame, &secret, Some(text.to_owned()))?);
    };
    let (codes, recovery) = new_recovery_codes(&*shared.services.ids);
    let sealed = codes::sealed(shared, viewer.user.id, &secret)?;
    let factor = SecondFactor { secret: sealed, since: frame.now, last_step, recovery, failures: 0, failed_at: None };
    let added = frame.cases().add_second_factor(&frame.caller(), viewer.user.id, factor, viewer.session).await;
    match added {
        Ok(()) => show_codes(frame, "Your second factor is set up", codes),
        Err(error) => account::show_refused(shared, frame, NOT_CHANGED, refusal(error)?).await,
    }
}

/// Redirects to the page with new recovery codes.
fn show_codes(frame: &Frame, heading: &str, codes: Vec<String>) -> Page {
    let text = "With one of these codes you sign in if you do not have your app. Each works once. Store them where you do \
                not need this phone or computer to read them. Earlier recovery codes no longer work.";
    let new = NewSecret {
        heading: heading.to_owned(),
        back: ("/account".to_owned(), "Account".to_owned()),
        request: "Store these recovery codes now".to_owned(),
        text: text.to_owned(),
        times: Vec::new(),
        values: codes.into_iter().enumerate().map(|(at, code)| (format!("code-{}", at + 1), code)).collect(),
        example: None,
    };
    new.show(frame)
}

async fn replace(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async {
        let (codes, recovery) = new_recovery_codes(&*shared.services.ids);
        let id = frame.viewer.user.id;
        match frame.cases().replace_recovery_codes(&frame.caller(), id, recovery).await {
            Ok(()) => show_codes(&frame, "Your new recovery codes", codes),
            Err(error) => account::show_refused(&shared, &frame, NOT_CHANGED, refusal(error)?).await,
        }
    };
    frame.answer(page.await)
}

async fn remove(State(shared): State<Shared>, frame: Frame) -> Response {
    let page = async {
        match frame.cases().remove_own_second_factor(&frame.caller(), frame.viewer.user.id).await {
            Ok(()) => Ok(toast::confirmed("/account", "second_factor_removed")),
            Err(error) => account::show_refused(&shared, &frame, NOT_CHANGED, refusal(error)?).await,
        }
    };
    frame.answer(page.await)
}
