//! The tasks of the extension `io.modelcontextprotocol/tasks`: a task is a message, and both have the same ID. Nothing
//! is stored for it, so it exists on every machine and as long as its message.

use journeyman_core::engine::Control;
use journeyman_core::ids::MessageId;
use journeyman_core::job::Job;
use journeyman_core::message::{Message, MessageStatus};
use rmcp::model::{CallToolResponse, CreateTaskResult, DetailedTask, GetTaskResult, Task, TaskPayload, TaskStatus};
use serde_json::Value;

use super::report::{JobReport, structured};
use super::{CallContext, Failure};

/// The time between two requests of a client for the state of a task, in milliseconds.
const POLL_MILLIS: u64 = 5000;

/// Returns whether the client supports tasks, in this request.
pub(super) fn are_supported(call: &CallContext<'_>) -> bool {
    call.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// Returns the answer to a call that has added a message.
pub(super) fn created(message: &Message, job: &Job) -> CallToolResponse {
    CreateTaskResult::new(task(message, job)).into()
}

/// Finds the message of a task and its job, if the caller may see them.
pub(super) async fn find(call: &CallContext<'_>, task: &str) -> Result<(Message, Job), Failure> {
    let missing = || Failure::invalid("there is no such task");
    let id: MessageId = task.parse().map_err(|_| missing())?;
    let store = &call.app.services.store;
    let message = store.message(id).await?.ok_or_else(missing)?;
    let job = store.job(message.job).await?.filter(|job| call.caller.sees(&job.project)).ok_or_else(missing)?;
    Ok((message, job))
}

/// Returns the state of a task, with its result if it has ended.
pub(super) async fn get(call: &CallContext<'_>, id: &str) -> Result<GetTaskResult, Failure> {
    let (message, job) = find(call, id).await?;
    let task = task(&message, &job);
    let payload = match message.status {
        MessageStatus::Queued | MessageStatus::Delivered => TaskPayload::Working,
        MessageStatus::Cancelled | MessageStatus::Withdrawn => TaskPayload::Cancelled,
        MessageStatus::Finished | MessageStatus::Failed => {
            // A failure of the protocol would be another thing: the agent failed, and the result says why.
            let is_error = message.status == MessageStatus::Failed;
            let report = JobReport::read(call, job, Some(message)).await?;
            let mut result = structured(&report)?;
            result.is_error = Some(is_error);
            match serde_json::to_value(&result) {
                Ok(Value::Object(result)) => TaskPayload::Completed { result },
                _ => return Err(Failure::Failed("the result could not be converted to JSON".to_owned())),
            }
        }
    };
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Withdraws a queued message, or stops its run if no other message waits behind it. A task that has ended does not change.
pub(super) async fn cancel(call: &CallContext<'_>, id: &str) -> Result<(), Failure> {
    let (message, job) = find(call, id).await?;
    let control = Control::CancelMessage(message.id);
    call.app.cases.control_job(&call.caller, &job.project, job.id, control, None).await?;
    Ok(())
}

fn task(message: &Message, job: &Job) -> Task {
    let (status, text) = match message.status {
        MessageStatus::Queued => (TaskStatus::Working, Some(queued(message, job))),
        MessageStatus::Delivered => {
            let waits = job.waiting().map(|(waiting, _)| format!("waits: {}", waiting.reason.text));
            (TaskStatus::Working, Some(waits.unwrap_or_else(|| "the agent works on it".to_owned())))
        }
        MessageStatus::Finished | MessageStatus::Failed => (TaskStatus::Completed, None),
        MessageStatus::Cancelled | MessageStatus::Withdrawn => (TaskStatus::Cancelled, None),
    };
    let updated = message.finished_at.or(message.delivered_at).unwrap_or(message.created_at);
    let mut task = Task::new(message.id.to_string(), status, message.created_at.to_string(), updated.to_string())
        .with_poll_interval_ms(POLL_MILLIS);
    task.status_message = text;
    task
}

fn queued(message: &Message, job: &Job) -> String {
    let index = job.queue.iter().position(|id| *id == message.id).unwrap_or(0);
    let before = index + usize::from(job.in_flight().is_some());
    match before {
        0 => "queued".to_owned(),
        1 => "queued, 1 message before it".to_owned(),
        _ => format!("queued, {before} messages before it"),
    }
}
