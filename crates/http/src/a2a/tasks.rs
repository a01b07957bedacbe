//! Tasks: their state, and the methods that read, list and cancel them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use journeyman_core::engine::Control;
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::job::Job;
use journeyman_core::message::{self, MessageStatus, Origin};
use journeyman_core::ports::MessageFilter;
use journeyman_core::time::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::RpcCall;
use super::artifacts::{self, Wanted};
use super::error::{Failure, Kind};
use super::wire::{
    GetTaskRequest, ListTasksRequest, ListTasksResponse, Message, Part, Role, Task, TaskRequest, TaskState, TaskStatus,
    given,
};
use crate::error::{ApiError, ErrorCode};
use crate::page;

/// The number of tasks in a list if the request does not say.
const PAGE: usize = 50;

/// The number up to which the tasks of a list are counted.
const COUNTED: usize = 10_000;

/// Returns a task.
pub(super) async fn get(call: &RpcCall, request: GetTaskRequest) -> Result<Task, Failure> {
    let (message, job) = find(call, &request.id, request.tenant).await?;
    task(call, &message, &job, request.history_length, Wanted::Everything).await
}

/// Cancels a task: withdraws a queued message, or stops its run if no other message waits behind it, because the end of
/// the run would withdraw those.
pub(super) async fn cancel(call: &RpcCall, request: TaskRequest) -> Result<Task, Failure> {
    let (message, job) = find(call, &request.id, request.tenant).await?;
    let refused = |text: &str| Failure::of(Kind::TaskNotCancelable, text);
    if message.status.is_final() {
        return Err(refused("the task has ended"));
    }
    let control = Control::CancelMessage(message.id);
    call.app.cases.control_job(&call.caller, &job.project, job.id, control, None).await?;
    let (message, job) = find(call, &request.id, None).await?;
    match message.status {
        MessageStatus::Cancelled | MessageStatus::Withdrawn => {
            task(call, &message, &job, None, Wanted::Everything).await
        }
        MessageStatus::Finished | MessageStatus::Failed => Err(refused("the task has ended")),
        MessageStatus::Queued | MessageStatus::Delivered if job.queue.is_empty() => {
            Err(refused("the agent has finished, and its commits are being published"))
        }
        MessageStatus::Queued | MessageStatus::Delivered => {
            Err(refused("the agent works on the task, and other tasks of the context wait; cancel those first"))
        }
    }
}

/// Finds the message of a task and its job, if the caller may see them.
pub(super) async fn find(call: &RpcCall, id: &str, tenant: Option<String>) -> Result<(message::Message, Job), Failure> {
    let id: MessageId = id.parse().map_err(|_| Failure::task_not_found())?;
    let store = &call.app.services.store;
    let found = store.message(id).await?.ok_or_else(Failure::task_not_found)?;
    let job = store.job(found.job).await?.filter(|job| call.caller.sees(&job.project));
    let job = job.filter(|job| given(tenant).is_none_or(|tenant| tenant == job.project.as_str()));
    Ok((found, job.ok_or_else(Failure::task_not_found)?))
}

/// Waits until a task has ended, the time has passed, or the server stops. Returns the current message and job.
pub(super) async fn ended(
    call: &RpcCall,
    mut message: message::Message,
    mut job: Job,
    wait: Duration,
) -> Result<(message::Message, Job), Failure> {
    let end = Instant::now() + wait;
    let store = &call.app.services.store;
    let mut watch = store.watch(job.id);
    while !message.status.is_final() && Instant::now() < end {
        tokio::select! {
            () = watch.changed(job.last_seq) => {
                job = store.job(job.id).await?.ok_or_else(Failure::task_not_found)?;
                message = store.message(message.id).await?.ok_or_else(Failure::task_not_found)?;
            }
            () = tokio::time::sleep_until(end) => break,
            () = call.app.shutdown.cancelled() => break,
        }
    }
    Ok((message, job))
}

/// Returns the task of a message.
pub(super) async fn task(
    call: &RpcCall,
    message: &message::Message,
    job: &Job,
    history_length: Option<u32>,
    wanted: Wanted,
) -> Result<Task, Failure> {
    let artifacts = match wanted {
        Wanted::Nothing => None,
        Wanted::Stored | Wanted::Everything => Some(artifacts::of(call, message, job, wanted).await),
    };
    Ok(Task {
        id: message.id.to_string(),
        context_id: job.id.to_string(),
        status: status(call, message, job).await?,
        artifacts,
        history: history(message, history_length),
        metadata: json!({ "project": job.project, "title": job.title, "createdAt": message.created_at }),
    })
}

/// Returns the state of a task, with the final text of the agent or the reason of the state.
pub(super) async fn status(call: &RpcCall, message: &message::Message, job: &Job) -> Result<TaskStatus, Failure> {
    let (state, part) = match message.status {
        MessageStatus::Queued => (TaskState::Submitted, Some(own_text(&queued(message, job)))),
        MessageStatus::Delivered => {
            let waits = job.waiting().map(|(waiting, _)| format!("waits: {}", waiting.reason.text));
            (TaskState::Working, waits.map(|text| own_text(&text)))
        }
        MessageStatus::Finished => (TaskState::Completed, message.answer.as_deref().map(agent_text)),
        MessageStatus::Failed => (TaskState::Failed, reason(call, message).await?),
        MessageStatus::Cancelled | MessageStatus::Withdrawn => (TaskState::Canceled, reason(call, message).await?),
    };
    let message_of = |part| agent_message(message.id, job.id, "status", part);
    Ok(TaskStatus { state, message: part.map(message_of), timestamp: message.updated_at().to_string() })
}

/// Returns a message of the agent.
pub(super) fn agent_message(task: MessageId, context: JobId, name: &str, part: Part) -> Message {
    Message {
        message_id: format!("{task}-{name}"),
        context_id: context.to_string(),
        task_id: task.to_string(),
        role: Role::Agent,
        parts: vec![part],
    }
}

/// Returns a part with a text that an agent wrote.
pub(super) fn agent_text(text: &str) -> Part {
    artifacts::text(text, "text/plain", true)
}

/// Returns a part with a text of the service.
pub(super) fn own_text(text: &str) -> Part {
    artifacts::text(text, "text/plain", false)
}

/// Returns the reason why the last run of a message failed or was stopped.
async fn reason(call: &RpcCall, message: &message::Message) -> Result<Option<Part>, Failure> {
    let reason = call.app.cases.reason_of(message).await?;
    Ok(reason.map(|reason| agent_text(&reason.text)))
}

fn queued(message: &message::Message, job: &Job) -> String {
    let index = job.queue.iter().position(|id| *id == message.id).unwrap_or(0);
    match index + usize::from(job.in_flight().is_some()) {
        0 => "queued".to_owned(),
        1 => "queued, 1 task before it".to_owned(),
        before => format!("queued, {before} tasks before it"),
    }
}

/// Returns the last messages of a task: the prompt, and the final text of the agent.
fn history(message: &message::Message, length: Option<u32>) -> Vec<Message> {
    let is_foreign = !matches!(message.origin, Origin::Api | Origin::Dashboard);
    let mut history = vec![Message {
        message_id: format!("{}-prompt", message.id),
        context_id: message.job.to_string(),
        task_id: message.id.to_string(),
        role: Role::User,
        parts: vec![artifacts::text(&message.prompt, "text/plain", is_foreign)],
    }];
    if let Some(answer) = &message.answer {
        history.push(agent_message(message.id, message.job, "answer", agent_text(answer)));
    }
    let most = length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
    history.split_off(history.len().saturating_sub(most))
}

/// Returns a page of the tasks that the caller may see, in the order of the last change of their state.
pub(super) async fn list(call: &RpcCall, request: ListTasksRequest) -> Result<ListTasksResponse, Failure> {
    let limit = request.page_size.unwrap_or(PAGE);
    if !(1..=page::MOST).contains(&limit) {
        return Err(Failure::invalid("pageSize", format!("must be from 1 to {}", page::MOST)));
    }
    let projects = match given(request.tenant) {
        Some(tenant) => Some(vec![project(call, &tenant).await?]),
        None => None,
    };
    let since = given(request.status_timestamp_after).map(|text| text.parse::<Timestamp>()).transpose();
    let filter = MessageFilter {
        projects: call.caller.visible(projects),
        statuses: Vec::new(),
        updated_since: since.map_err(|error| Failure::invalid("statusTimestampAfter", error.to_string()))?,
        after: given(request.page_token).map(|token| cursor(&token)).transpose()?,
        limit: limit + 1,
    };
    let (mut found, total_size) = match statuses(given(request.status).as_deref())? {
        None => (Vec::new(), 0),
        Some(statuses) => select(call, given(request.context_id), MessageFilter { statuses, ..filter }).await?,
    };
    let next = page::cut(&mut found, limit, |message| format!("{}:{}", message.updated_at().as_micros(), message.id));
    let wanted = if request.include_artifacts.unwrap_or(false) { Wanted::Stored } else { Wanted::Nothing };
    let (mut tasks, mut jobs) = (Vec::new(), BTreeMap::<JobId, Option<Job>>::new());
    for message in found {
        if let Entry::Vacant(missing) = jobs.entry(message.job) {
            missing.insert(call.app.services.store.job(message.job).await?);
        }
        // A job that was deleted in the meantime has no tasks.
        if let Some(Some(job)) = jobs.get(&message.job) {
            tasks.push(task(call, &message, job, Some(request.history_length.unwrap_or(0)), wanted).await?);
        }
    }
    Ok(ListTasksResponse { tasks, next_page_token: next.unwrap_or_default(), page_size: limit, total_size })
}

/// Finds a project that a request names, if the caller may see it.
pub(super) async fn project(call: &RpcCall, id: &str) -> Result<ProjectId, Failure> {
    let missing = || Failure::invalid("tenant", "there is no such project");
    let id: ProjectId = id.parse().map_err(|_| missing())?;
    if !call.caller.sees(&id) {
        return Err(missing());
    }
    match call.app.cases.known_project(&call.caller, &id).await.map_err(ApiError::from) {
        Ok(_) => Ok(id),
        Err(error) if error.problem().code == ErrorCode::ProjectNotFound => Err(missing()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the messages that a filter selects, and the number of all such messages.
async fn select(
    call: &RpcCall,
    context: Option<String>,
    filter: MessageFilter,
) -> Result<(Vec<message::Message>, u64), Failure> {
    let store = &call.app.services.store;
    let Some(context) = context else {
        let count = store.count_messages(MessageFilter { limit: COUNTED, ..filter.clone() }).await?;
        return Ok((store.find_messages(filter).await?, count));
    };
    let job = match context.parse::<JobId>() {
        Ok(id) => store.job(id).await?,
        Err(_) => None,
    };
    let is_selected = |job: &Job| filter.projects.as_ref().is_none_or(|projects| projects.contains(&job.project));
    let Some(job) = job.filter(is_selected) else { return Ok((Vec::new(), 0)) };
    let mut found = store.messages(job.id).await?;
    found.retain(|message| {
        (filter.statuses.is_empty() || filter.statuses.contains(&message.status))
            && filter.updated_since.is_none_or(|since| message.updated_at() >= since)
    });
    let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    found.sort_by_key(|message| Reverse((message.updated_at(), message.id)));
    found.retain(|message| filter.after.is_none_or(|after| (message.updated_at(), message.id) < after));
    found.truncate(filter.limit);
    Ok((found, count))
}

/// Returns the statuses of messages whose tasks have a state; `None` if tasks never have it.
fn statuses(state: Option<&str>) -> Result<Option<Vec<MessageStatus>>, Failure> {
    Ok(Some(match state {
        None | Some("TASK_STATE_UNSPECIFIED") => Vec::new(),
        Some("TASK_STATE_SUBMITTED") => vec![MessageStatus::Queued],
        Some("TASK_STATE_WORKING") => vec![MessageStatus::Delivered],
        Some("TASK_STATE_COMPLETED") => vec![MessageStatus::Finished],
        Some("TASK_STATE_FAILED") => vec![MessageStatus::Failed],
        Some("TASK_STATE_CANCELED") => vec![MessageStatus::Cancelled, MessageStatus::Withdrawn],
        Some("TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_REJECTED" | "TASK_STATE_AUTH_REQUIRED") => return Ok(None),
        Some(_) => return Err(Failure::invalid("status", "must be the name of a state, such as TASK_STATE_WORKING")),
    }))
}

fn cursor(token: &str) -> Result<(Timestamp, MessageId), Failure> {
    let parts = token.split_once(':').and_then(|(micros, id)| Some((micros.parse().ok()?, id.parse().ok()?)));
    let parts = parts.map(|(micros, id)| (Timestamp::from_micros(micros), id));
    parts.ok_or_else(|| Failure::invalid("pageToken", "must be the nextPageToken of an earlier answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_selects_the_messages_that_have_it() {
        assert_eq!(statuses(None).ok(), Some(Some(Vec::new())));
        let canceled = vec![MessageStatus::Cancelled, MessageStatus::Withdrawn];
        assert_eq!(statuses(Some("TASK_STATE_CANCELED")).ok(), Some(Some(canceled)));
        assert_eq!(statuses(Some("TASK_STATE_REJECTED")).ok(), Some(None));
        assert!(statuses(Some("working")).is_err());
    }

    #[test]
    fn a_page_token_is_one_of_an_earlier_answer() {
        let id = MessageId::from_uuid(uuid::Uuid::nil());
        assert_eq!(cursor(&format!("5:{id}")).ok(), Some((Timestamp::from_micros(5), id)));
        for wrong in ["", "5", "x:y", "5:x", &format!("x:{id}")] {
            assert!(cursor(wrong).is_err(), "{wrong}");
        }
    }
}
