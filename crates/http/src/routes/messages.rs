//! The operations on messages: send, list, withdraw.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use journeyman_app::MessageRequest;
use journeyman_core::message::Message;
use journeyman_core::rate::RateKind;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{IdempotencyKey, InJob, InMessage, InProject, JsonBody, Parameters, message_not_found};
use crate::openapi::{IdempotencyHeader, JobPath, MessagePath, errors};
use crate::page::{self, PageQuery};
use crate::routes::jobs::{accepted, record};
use crate::wire;
use crate::wire::job::JobRecord;
use crate::wire::message::{MessageList, SendMessage};

errors!(SendErrors: 400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504);
errors!(GetErrors: 401, 403, 404, 503);
errors!(ListErrors: 400, 401, 403, 404, 503);
errors!(WithdrawErrors: 401, 403, 404, 409, 503, 504);

/// Send a follow-up message
///
/// Stores the message and returns the job's record immediately; the agent works in the background. A completed or
/// failed job becomes active again, with the same branch, agent session, and pull request. If the pull request was
/// merged or closed, a new one is opened. `Location` has the path of the message.
#[utoipa::path(post, path = "/v2/agent/{projectId}/job/{id}/message", tag = "Messages", operation_id = "sendMessage",
    params(JobPath, IdempotencyHeader), request_body = SendMessage,
    responses((status = 200, description = "The job's record", body = JobRecord), SendErrors))]
pub(crate) async fn send(
    State(app): State<App>,
    at: InJob,
    key: IdempotencyKey,
    body: JsonBody<SendMessage>,
) -> Result<Response, ApiError> {
    let SendMessage { prompt, delivery } = body.value;
    let request = MessageRequest { prompt, delivery: delivery.unwrap_or_default().into() };
    let idempotency = key.of(&format!("message {}", at.id), &body.bytes);
    let done = app.cases.send_message(&at.at.caller, &at.at.project, at.id, request, idempotency).await?;
    let location = done.message.map(|message| format!("/v2/agent/{}/job/{}/message/{message}", at.at.project, at.id));
    let location = location.map(|location| [(LOCATION, location)]);
    Ok((location, accepted(&app, StatusCode::OK, RateKind::Message, done)).into_response())
}

/// Get a message
///
/// Returns the message with its receipt: its status, times, run, commits, answer, pull request, and a line for each check
/// of its last commit.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/message/{messageId}", tag = "Messages",
    operation_id = "getMessage", params(MessagePath),
    responses((status = 200, description = "The message", body = wire::message::Message), GetErrors))]
pub(crate) async fn get(State(app): State<App>, at: InMessage) -> Result<Json<wire::message::Message>, ApiError> {
    let job = at.job.load(&app).await?;
    let message = app.services.store.message(at.id).await?.filter(|message| message.job == job.id);
    let message = message.ok_or_else(message_not_found)?;
    let watch = if message.commits.is_empty() { None } else { app.services.store.watch_of(job.id).await? };
    Ok(Json(wire::message::Message::with_checks(message, watch.as_ref())))
}

/// List a job's messages
///
/// Returns each message with its receipt: its status, times, run, commits, and pull request. The messages come in pages,
/// in the order in which they were accepted; a page with much text ends early.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/messages", tag = "Messages", operation_id = "listMessages",
    params(JobPath, PageQuery),
    responses((status = 200, description = "A page of messages", body = MessageList), ListErrors))]
pub(crate) async fn list(
    State(app): State<App>,
    at: InJob,
    Parameters(query): Parameters<PageQuery>,
) -> Result<Json<MessageList>, ApiError> {
    let (limit, after) = query.read()?;
    let job = at.load(&app).await?;
    let mut messages = app.services.store.messages_after(job.id, after, limit + 1).await?;
    let size = |message: &Message| message.prompt.len() + message.answer.as_ref().map_or(0, String::len);
    let next_cursor = page::cut_by_size(&mut messages, limit, size, |message| message.id.to_string());
    let has_commits = messages.iter().any(|message| !message.commits.is_empty());
    let watch = if has_commits { app.services.store.watch_of(job.id).await? } else { None };
    let shown = messages.into_iter().map(|message| wire::message::Message::with_checks(message, watch.as_ref()));
    Ok(Json(MessageList { messages: shown.collect(), next_cursor }))
}

/// Withdraw a message
///
/// Withdraws a queued message; a message that a run has taken is refused with 409. Withdrawing a message again changes
/// nothing.
#[utoipa::path(delete, path = "/v2/agent/{projectId}/job/{id}/message/{messageId}", tag = "Messages",
    operation_id = "withdrawMessage", params(MessagePath),
    responses((status = 200, description = "The job's record", body = JobRecord), WithdrawErrors))]
pub(crate) async fn withdraw(State(app): State<App>, at: InMessage) -> Result<Json<JobRecord>, ApiError> {
    let InJob { at: InProject { caller, project }, id: job } = at.job;
    Ok(record(app.cases.withdraw(&caller, &project, job, at.id).await?))
}
