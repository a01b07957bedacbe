//! The form that connects a Slack workspace, with the steps at Slack.

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Answered, SlackEdit};
use journeyman_core::slack::SlackMode;
use journeyman_core::slack::manifest::manifest;

use super::{in_form, mode, secrets};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;

#[derive(Template)]
#[template(path = "slack_form.html")]
struct FormPage<'a> {
    frame: &'a Frame,
    is_socket: bool,
    manifest: String,
    name: String,
    error: Option<String>,
}

/// Returns the form. Secrets are not shown again.
fn form<'a>(frame: &'a Frame, fields: &Fields, error: Option<String>) -> Result<FormPage<'a>, Failure> {
    let mode = mode(fields)?;
    let is_socket = mode == SlackMode::Socket;
    Ok(FormPage { frame, is_socket, manifest: manifest(mode, None), name: fields.text("name"), error })
}

pub(super) async fn new(frame: Frame, fields: Fields) -> Response {
    let page = async {
        frame.needs_administrator()?;
        rendered(&form(&frame, &fields, None)?)
    };
    frame.answer(page.await)
}

pub(super) async fn create(frame: Frame, fields: Fields) -> Response {
    frame.answer(created(&frame, &fields).await)
}

async fn created(frame: &Frame, fields: &Fields) -> Page {
    frame.needs_administrator()?;
    let mode = Some(mode(fields)?);
    let edit = SlackEdit { name: fields.given("name"), mode, secrets: secrets(fields), ..SlackEdit::default() };
    match frame.cases().create_slack_workspace(&frame.caller(), edit, None, |_| String::new()).await {
        Ok(Answered::New(made)) => {
            Ok(Redirect::to(&format!("/system/slack/{}?done=created", made.workspace.id)).into_response())
        }
        Ok(Answered::Replayed(_)) => Ok(Redirect::to("/system/slack").into_response()),
        Err(error) => refused(&form(frame, fields, Some(in_form(&refusal(error)?)))?),
    }
}
