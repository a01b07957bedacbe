//! What can be done to a job: send it a message, withdraw one, cancel, archive, unarchive.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

use super::{InJob, conversation};
use crate::Shared;
use crate::failure::{Failure, Page};
use crate::fields::Fields;
use crate::interface::Call;
use crate::words;

pub(super) async fn send(State(shared): State<Shared>, at: InJob, fields: Fields) -> Response {
    let frame = at.at.frame.clone();
    frame.answer(sent(&shared, at, &fields).await)
}

async fn sent(shared: &Shared, at: InJob, fields: &Fields) -> Page {
    at.needs_write()?;
    let delivery = if fields.text("delivery") == "interrupt" { "interrupt" } else { "queue" };
    let body = json!({ "prompt": fields.text("prompt"), "delivery": delivery });
    let call = Call::post(at.job_api("/message"), Some(body)).once(fields.given("once").as_deref());
    match at.call(call).await {
        Ok(_) => Ok(Redirect::to(&at.page("")).into_response()),
        Err(refusal) if refusal.status.is_client_error() => {
            conversation::refused(shared, at, fields, refusal.text).await
        }
        Err(refusal) => Err(Failure::from(refusal)),
    }
}

pub(super) async fn withdraw(at: InJob, Path((_, _, message)): Path<(String, String, String)>) -> Response {
    let path = at.job_api(&format!("/message/{}", words::in_query(&message)));
    done(at, Call::delete(path)).await
}

pub(super) async fn retry(at: InJob) -> Response {
    let call = Call::post(at.job_api("/retry"), None);
    done(at, call).await
}

pub(super) async fn cancel(at: InJob) -> Response {
    let call = Call::post(at.job_api("/cancel"), None);
    done(at, call).await
}

pub(super) async fn archive(at: InJob) -> Response {
    let call = Call::post(at.job_api("/archive"), None);
    done(at, call).await
}

pub(super) async fn unarchive(at: InJob) -> Response {
    let call = Call::post(at.job_api("/unarchive"), None);
    done(at, call).await
}

async fn done(at: InJob, call: Call) -> Response {
    let page = async {
        at.needs_write()?;
        at.call(call).await?;
        Ok(Redirect::to(&at.page("")).into_response())
    };
    at.answer(page.await)
}
