//! Streams of a task: the task, then its changes and the texts of the agent, until it has ended.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::Stream;
use futures::stream::unfold;
use journeyman_app::Permit;
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::job::Job;
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::Message;
use journeyman_core::time::Timestamp;
use journeyman_dashboard::{LogTail as _, Tail};
use serde_json::Value;

use super::artifacts::{self, Wanted};
use super::error::{Failure, Kind};
use super::wire::{ArtifactUpdate, Part, StatusUpdate, StreamResponse, TaskRequest, TaskState, TaskStatus};
use super::{RpcCall, send, tasks};
use crate::auth::still_valid;
use crate::limits;
use crate::tail::Reader;

/// Sends a message, and streams its task.
pub(super) async fn send(call: &RpcCall, params: Value) -> Result<Response, Failure> {
    // Before the message is stored, so that a refused request stores nothing.
    let permit = limits::stream(&call.app, &call.caller).map_err(Failure::Http)?;
    let send::Stored { message, job, configuration } = send::store(call, params).await?;
    begin(call, message, job, configuration.history_length, permit).await
}

/// Streams a task that has not ended.
pub(super) async fn subscribe(call: &RpcCall, request: TaskRequest) -> Result<Response, Failure> {
    let (message, job) = tasks::find(call, &request.id, request.tenant).await?;
    if message.status.is_final() {
        return Err(Failure::of(Kind::UnsupportedOperation, "the task has ended; get it with GetTask"));
    }
    let permit = limits::stream(&call.app, &call.caller).map_err(Failure::Http)?;
    begin(call, message, job, None, permit).await
}

async fn begin(
    call: &RpcCall,
    message: Message,
    job: Job,
    history_length: Option<u32>,
    permit: Permit,
) -> Result<Response, Failure> {
    // The message is read after the job, so the log has every later change after the job's last entry.
    let found = call.app.services.store.message(message.id).await?;
    let message = found.ok_or_else(Failure::task_not_found)?;
    let task = tasks::task(call, &message, &job, history_length, Wanted::Everything).await?;
    let call = RpcCall { app: call.app.clone(), caller: call.caller.clone(), id: call.id.clone() };
    let first = event(&call, &StreamResponse::Task(task))?;
    let follower = Follower {
        reader: Reader::new(call.app.clone(), job.id, job.last_seq),
        call,
        task: message.id,
        context: job.id,
        is_running: job.in_flight().is_some_and(|in_flight| in_flight.message == message.id),
        project: job.project,
        ready: VecDeque::from([first]),
        is_over: message.status.is_final(),
    };
    let stream = Sse::new(limits::held_stream(Box::pin(events(follower)), permit));
    // Without this header, nginx buffers the stream.
    Ok(([("x-accel-buffering", "no"), (CACHE_CONTROL.as_str(), "no-store")], stream).into_response())
}

/// Follows the log of a job for the events of one task.
struct Follower {
    call: RpcCall,
    reader: Reader,
    task: MessageId,
    context: JobId,
    project: ProjectId,
    /// `true` while the entries of the log that the agent writes belong to the task.
    is_running: bool,
    /// The events that were not sent yet.
    ready: VecDeque<sse::Event>,
    /// `true` if no events follow those in `ready`.
    is_over: bool,
}

/// Returns the events of a task, until it has ended, the client disconnects, the key is no longer valid, the job is
/// deleted, or the server stops.
fn events(follower: Follower) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    unfold(follower, |mut follower| async move {
        loop {
            if let Some(event) = follower.ready.pop_front() {
                return Some((Ok(event), follower));
            }
            if follower.is_over {
                return None;
            }
            match follower.reader.next().await {
                Tail::News(entries) => {
                    if let Err(failure) = follower.add(entries).await {
                        // The client gets the task, or subscribes to it again.
                        tracing::warn!(?failure, task = %follower.task, "a task could not be read; its stream ends");
                        return None;
                    }
                }
                // A comment keeps the connection open in proxies, and reveals a dead one. The key is checked again.
                Tail::Quiet => {
                    let (call, project) = (&follower.call, &follower.project);
                    if !still_valid(&call.app, &call.caller, Some(project)).await {
                        return None;
                    }
                    follower.ready.push_back(sse::Event::default().comment("still here"));
                }
                Tail::Over => return None,
            }
        }
    })
}

impl Follower {
    /// Adds the events of entries of the log.
    async fn add(&mut self, entries: Vec<LogEntry>) -> Result<(), Failure> {
        for entry in entries {
            let field = |name: &str| entry.data.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_own = field("messageId").parse::<MessageId>().is_ok_and(|id| id == self.task);
            match entry.kind.as_str() {
                "run.started" => {
                    self.is_running = is_own;
                    if is_own {
                        self.working(entry.at, None, entry.seq)?;
                    }
                }
                "agent.message" if self.is_running => {
                    let text = tasks::agent_text(field("text"));
                    self.working(entry.at, Some(text), entry.seq)?;
                }
                "message.waiting" if is_own => {
                    let reason = entry.data["reason"]["text"].as_str().unwrap_or_default();
                    let text = tasks::own_text(&format!("waits: {reason}"));
                    self.working(entry.at, Some(text), entry.seq)?;
                }
                "message.finished" | "message.withdrawn" if is_own => return self.end().await,
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the event that the agent works on the task, with what it or the service says.
    fn working(&mut self, at: Timestamp, part: Option<Part>, seq: u64) -> Result<(), Failure> {
        let message = part.map(|part| tasks::agent_message(self.task, self.context, &seq.to_string(), part));
        self.push_status(TaskStatus { state: TaskState::Working, message, timestamp: at.to_string() })
    }

    /// Adds the artifacts and the final state.
    async fn end(&mut self) -> Result<(), Failure> {
        self.is_over = true;
        let (message, job) = tasks::find(&self.call, &self.task.to_string(), None).await?;
        for artifact in artifacts::of(&self.call, &message, &job, Wanted::Everything).await {
            let (task_id, context_id) = (self.task.to_string(), self.context.to_string());
            let update = ArtifactUpdate { task_id, context_id, artifact, append: false, last_chunk: true };
            self.ready.push_back(event(&self.call, &StreamResponse::ArtifactUpdate(update))?);
        }
        let status = tasks::status(&self.call, &message, &job).await?;
        self.push_status(status)
    }

    fn push_status(&mut self, status: TaskStatus) -> Result<(), Failure> {
        let update = StatusUpdate { task_id: self.task.to_string(), context_id: self.context.to_string(), status };
        self.ready.push_back(event(&self.call, &StreamResponse::StatusUpdate(update))?);
        Ok(())
    }
}

/// Returns the event with an answer to the request.
fn event(call: &RpcCall, response: &StreamResponse) -> Result<sse::Event, Failure> {
    Ok(sse::Event::default().data(call.envelope(response)?.to_string()))
}
