//! Actions on a job: send a message, send one again, withdraw one, retry, cancel, archive, unarchive.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::MessageRequest;
use journeyman_core::engine::Control;
use journeyman_core::job::JobStatus;
use journeyman_core::message::DeliveryMode;

use super::messages_and_runs::MessagesAndRuns;
use super::outcome::retried;
use super::{InJob, conversation};
use crate::Shared;
use crate::failure::{Failure, Page, refusal};
use crate::fields::Fields;
use crate::toast::{self, SmallForm};

pub(super) async fn send(State(shared): State<Shared>, at: InJob, fields: Fields) -> Response {
    let frame = at.at.frame.clone();
    frame.answer(send_page(&shared, at, &fields).await)
}

async fn send_page(shared: &Shared, at: InJob, fields: &Fields) -> Page {
    at.needs_write()?;
    let is_interrupt = fields.text("delivery") == "interrupt";
    let delivery = if is_interrupt { DeliveryMode::Interrupt } else { DeliveryMode::Queue };
    let request = MessageRequest { prompt: fields.text("prompt"), delivery };
    let once = fields.once(&format!("message {} {request:?}", at.job.id));
    match at.cases().send_message(&at.caller(), &at.project.id, at.job.id, request, once).await {
        Ok(_) => Ok(Redirect::to(&at.page("")).into_response()),
        Err(error) => {
            let text = refusal(error)?;
            conversation::refused(shared, at, fields, text).await
        }
    }
}

/// Sends the last message of a failed job once more. If another message was sent meanwhile, only the job is shown.
pub(super) async fn again(State(shared): State<Shared>, at: InJob, fields: Fields) -> Response {
    let page = async {
        at.needs_write()?;
        let history = MessagesAndRuns::read(&shared, at.job.id).await?;
        let message = retried(&at, &history).filter(|message| message.id.to_string() == fields.text("message"));
        if let Some(message) = message {
            let request = MessageRequest { prompt: message.prompt.clone(), delivery: DeliveryMode::Queue };
            let once = fields.once(&format!("again {} {}", at.job.id, message.id));
            at.cases().send_message(&at.caller(), &at.project.id, at.job.id, request, once).await?;
        }
        Ok(Redirect::to(&at.page("")).into_response())
    };
    at.answer(page.await)
}

pub(super) async fn withdraw(at: InJob, Path((_, _, message)): Path<(String, String, String)>) -> Response {
    let page = async {
        let message = message.parse().map_err(|_| Failure::NotFound("message"))?;
        at.cases().withdraw(&at.caller(), &at.project.id, at.job.id, message).await?;
        Ok(Redirect::to(&at.page("")).into_response())
    };
    at.answer(page.await)
}

pub(super) async fn retry(at: InJob) -> Response {
    control(at, Control::Retry, None).await
}

pub(super) async fn cancel(at: InJob) -> Response {
    control(at, Control::Cancel, None).await
}

pub(super) async fn archive(at: InJob) -> Response {
    if at.job.status() == JobStatus::Active {
        // The work that is canceled cannot be restored.
        return control(at, Control::Archive, Some(("job_archived_active", None))).await;
    }
    control(at, Control::Archive, Some(("job_archived", Some("/unarchive")))).await
}

pub(super) async fn unarchive(at: InJob) -> Response {
    control(at, Control::Unarchive, Some(("job_unarchived", Some("/archive")))).await
}

/// Carries out an action, and shows the job. `confirmation` has the name of the confirmation, and the path of the action
/// that undoes this one.
async fn control(at: InJob, control: Control, confirmation: Option<(&str, Option<&str>)>) -> Response {
    let page = async {
        at.cases().control_job(&at.caller(), &at.project.id, at.job.id, control, None).await?;
        Ok(match confirmation {
            Some((done, None)) => toast::confirmed(&at.page(""), done),
            Some((done, Some(path))) => toast::undoable(&at, &at.page(""), done, &SmallForm::new(at.page(path))),
            None => Redirect::to(&at.page("")).into_response(),
        })
    };
    at.answer(page.await)
}
