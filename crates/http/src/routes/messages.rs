//! Messages: the heart of the product is [`send`].

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use journeyman_app::MessageRequest;
use journeyman_core::rate::RateKind;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{IdempotencyKey, InJob, InMessage, InProject, JsonBody};
use crate::openapi::{IdempotencyHeader, JobPath, MessagePath, errors};
use crate::routes::jobs::{accepted, record};
use crate::wire::job::JobRecord;
use crate::wire::message::{MessageList, SendMessage};

errors!(SendErrors: 400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504);
errors!(ListErrors: 401, 403, 404, 503);
errors!(WithdrawErrors: 401, 403, 404, 409, 503, 504);

/// Send a follow-up message
///
/// Stores the message and answers with the job's record at once; the agent works behind the answer. A job that is
/// completed or failed becomes active again: same branch, same session of the agent, same pull request.
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
    Ok(accepted(&app, StatusCode::OK, RateKind::Message, done))
}

/// List a job's messages
///
/// Each with its receipt: queued, delivered, finished; its run, commits and pull request.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/messages", tag = "Messages", operation_id = "listMessages",
    params(JobPath), responses((status = 200, description = "All messages", body = MessageList), ListErrors))]
pub(crate) async fn list(State(app): State<App>, at: InJob) -> Result<Json<MessageList>, ApiError> {
    let job = at.load(&app).await?;
    let messages = app.services.store.messages(job.id).await?;
    Ok(Json(MessageList { messages: messages.into_iter().map(Into::into).collect() }))
}

/// Withdraw a message
///
/// Only while it is queued. Withdrawing it again changes nothing.
#[utoipa::path(delete, path = "/v2/agent/{projectId}/job/{id}/message/{messageId}", tag = "Messages",
    operation_id = "withdrawMessage", params(MessagePath),
    responses((status = 200, description = "The job's record", body = JobRecord), WithdrawErrors))]
pub(crate) async fn withdraw(State(app): State<App>, at: InMessage) -> Result<Json<JobRecord>, ApiError> {
    let InJob { at: InProject { caller, project }, id: job } = at.job;
    Ok(record(app.cases.withdraw(&caller, &project, job, at.id).await?))
}
