//! `POST` of the button with which a person asks the agent to merge the base of the pull request.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::MessageRequest;
use journeyman_core::message::DeliveryMode;
use journeyman_core::pull::base_comparison::request;

use super::{InJob, conversation};
use crate::failure::{Page, refusal};
use crate::fields::Fields;
use crate::{Shared, visible};

/// The time that a person waits who has asked for the update.
const ASKED_TIME: Duration = Duration::from_secs(10);

/// Asks the agent to merge the base into the branch of the pull request.
pub(super) async fn update(State(shared): State<Shared>, at: InJob, fields: Fields) -> Response {
    let frame = at.at.frame.clone();
    frame.answer(send(&shared, at, &fields).await)
}

async fn send(shared: &Shared, at: InJob, fields: &Fields) -> Page {
    at.needs_write()?;
    let refused = match at.cases().compare_job_now(&at.project, &at.job, ASKED_TIME).await {
        Some(comparison) if comparison.behind > 0 => {
            let prompt = request(&comparison.base, &comparison.conflicts);
            let once = fields.once(&format!("update {}", at.job.id));
            let request = MessageRequest { prompt, delivery: DeliveryMode::Queue };
            match at.cases().send_message(&at.caller(), &at.project.id, at.job.id, request, once).await {
                Ok(_) => return Ok(Redirect::to(&at.page("")).into_response()),
                Err(error) => refusal(error)?,
            }
        }
        Some(comparison) => {
            let base = visible::line(&comparison.base);
            format!("The pull request has all commits of {base} already.")
        }
        None => "The pull request cannot be compared with its base now. Try again, or write a message.".to_owned(),
    };
    conversation::refused(shared, at, fields, refused).await
}
