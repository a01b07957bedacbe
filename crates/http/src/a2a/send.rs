//! Messages of clients: a message with no context creates a job, and one with a context is a follow-up.

use std::time::Duration;

use journeyman_app::{Idempotency, MessageRequest};
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::Job;
use journeyman_core::message::Message;
use journeyman_core::rate::RateKind;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::artifacts::Wanted;
use super::error::{Failure, Kind};
use super::wire::{Configuration, IncomingMessage, IncomingPart, SendMessageRequest, StreamResponse, given};
use super::{RpcCall, read, tasks};
use crate::error::ApiError;
use crate::routes::jobs;
use crate::wire::job::CreateJob;
use crate::wire::message::Delivery;

/// The maximum time for which an answer waits for the end of a task. Many clients and proxies give up after 60 seconds.
const WAIT: Duration = Duration::from_secs(50);

/// The maximum length of the ID of a message, in characters. With the prefix, it is an idempotency key.
const MAX_ID_CHARS: usize = 250;

/// The maximum number of projects that an error lists.
const LISTED: usize = 20;

/// The entries of the metadata of a message that are options of a new job.
const JOB_OPTIONS: [&str; 11] =
    ["ref", "branch", "draft", "autoMerge", "title", "model", "effort", "agent", "pullRequest", "labels", "metadata"];

/// A message that is stored.
pub(super) struct Stored {
    pub(super) message: Message,
    pub(super) job: Job,
    pub(super) configuration: Configuration,
}

/// Sends a message, and returns its task when it has ended, or after [`WAIT`].
pub(super) async fn send(call: &RpcCall, params: Value) -> Result<StreamResponse, Failure> {
    let Stored { message, job, configuration } = store(call, params).await?;
    let wait = if configuration.return_immediately.unwrap_or(false) { Duration::ZERO } else { WAIT };
    let (message, job) = tasks::ended(call, message, job, wait).await?;
    let task = tasks::task(call, &message, &job, configuration.history_length, Wanted::Everything).await?;
    Ok(StreamResponse::Task(task))
}

/// Stores a message. If it was sent before, returns the message that was stored then.
pub(super) async fn store(call: &RpcCall, params: Value) -> Result<Stored, Failure> {
    let SendMessageRequest { tenant, message, configuration, metadata } = read(params.clone())?;
    let configuration = configuration.unwrap_or_default();
    check_configuration(&configuration)?;
    let prompt = prompt(&message)?;
    let idempotency = idempotency(&message.message_id, params)?;
    let context = context(call, &message).await?;
    let mut options = metadata.unwrap_or_default();
    options.extend(message.metadata.unwrap_or_default());
    let named = match given(tenant) {
        Some(tenant) => Some(tenant),
        None => given(option(&options, "project")?),
    };
    let (accepted, kind) = match context {
        Some(job) => {
            let request = follow_up(&job, named.as_deref(), prompt, &options)?;
            let (cases, project) = (&call.app.cases, &job.project);
            let accepted = cases.send_message(&call.caller, project, job.id, request, Some(idempotency)).await?;
            (accepted, RateKind::Message)
        }
        None => {
            let project = project(call, named).await?;
            let request = jobs::request(new_job(prompt, &options)?);
            let accepted = call.app.cases.create_job(&call.caller, &project, request, Some(idempotency)).await?;
            (accepted, RateKind::Create)
        }
    };
    if !accepted.replayed {
        call.app.metrics.accepted(kind);
    }
    let store = &call.app.services.store;
    let job = match accepted.job {
        Some(job) => job,
        None => store.job(accepted.record.id).await?.ok_or_else(ApiError::job_not_found)?,
    };
    let message = match accepted.message {
        Some(id) => store.message(id).await?,
        None => store.newest_message(job.id).await?,
    };
    Ok(Stored { message: message.ok_or_else(Failure::task_not_found)?, job, configuration })
}

/// Checks that the client accepts what tasks have, and asks for nothing that is not supported.
fn check_configuration(configuration: &Configuration) -> Result<(), Failure> {
    if configuration.task_push_notification_config.is_some() {
        return Err(Failure::no_push());
    }
    let modes = configuration.accepted_output_modes.as_deref().unwrap_or_default();
    let is_text = |mode: &String| {
        let essence = mode.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        matches!(essence.as_str(), "text/plain" | "text/*" | "*/*" | "text")
    };
    if modes.is_empty() || modes.iter().any(is_text) {
        return Ok(());
    }
    let text = "configuration.acceptedOutputModes: the agent answers with text/plain, so the list must contain it";
    Err(Failure::of(Kind::ContentTypeNotSupported, text))
}

/// Returns the texts of a message.
fn prompt(message: &IncomingMessage) -> Result<String, Failure> {
    if message.role != "ROLE_USER" {
        return Err(Failure::invalid("message.role", "must be ROLE_USER"));
    }
    if message.parts.is_empty() {
        return Err(Failure::invalid("message.parts", "must have at least one part"));
    }
    let texts = message.parts.iter().enumerate().map(|(index, part)| text(index, part));
    Ok(texts.collect::<Result<Vec<&str>, Failure>>()?.join("\n"))
}

fn text(index: usize, part: &IncomingPart) -> Result<&str, Failure> {
    let media_type = part.media_type.as_deref().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = media_type.is_empty() || media_type.starts_with("text/");
    let others = [("raw", &part.raw), ("url", &part.url), ("data", &part.data)];
    let other = others.into_iter().find(|(_, content)| content.is_some()).map(|(name, _)| name);
    match (&part.text, other) {
        (Some(text), None) if is_text => Ok(text.as_str()),
        (None, None) => Err(Failure::invalid(&format!("message.parts[{index}]"), "must have a text")),
        (_, other) => {
            let what = other.map_or_else(|| format!("the media type {media_type:.60}"), |name| format!("{name:?}"));
            let text = format!(
                "message.parts[{index}]: {what} is not supported; send text, and put files into the repository or \
                 write their URL into the text"
            );
            Err(Failure::of(Kind::ContentTypeNotSupported, text))
        }
    }
}

/// Returns the idempotency key of a message: the ID that the client chose, and the hash of all that it sent with it. The
/// configuration concerns only the answer.
fn idempotency(id: &str, mut params: Value) -> Result<Idempotency, Failure> {
    if id.is_empty() || id.chars().count() > MAX_ID_CHARS || id.chars().any(char::is_control) {
        let text = format!("must have 1 to {MAX_ID_CHARS} characters, and no control characters");
        return Err(Failure::invalid("message.messageId", text));
    }
    if let Value::Object(params) = &mut params {
        params.retain(|name, _| name != "configuration");
    }
    params.sort_all_objects();
    let fingerprint = Fingerprint::of("a2a send", params.to_string().as_bytes());
    Ok(Idempotency { key: format!("a2a {id}"), fingerprint })
}

/// Returns the job of the context that a message names.
async fn context(call: &RpcCall, message: &IncomingMessage) -> Result<Option<Job>, Failure> {
    let context = given(message.context_id.clone());
    if let Some(task) = given(message.task_id.clone()) {
        let (_, job) = tasks::find(call, &task, None).await?;
        if context.is_some_and(|context| context != job.id.to_string()) {
            return Err(Failure::invalid("message.contextId", "is not the context of the task"));
        }
        let text = format!(
            "a task takes no more messages: each message is a task. Send the contextId {} without a taskId",
            job.id
        );
        return Err(Failure::of(Kind::UnsupportedOperation, text));
    }
    let Some(context) = context else { return Ok(None) };
    let job = match context.parse::<JobId>() {
        Ok(id) => call.app.services.store.job(id).await?,
        Err(_) => None,
    };
    let job = job.filter(|job| call.caller.sees(&job.project));
    let text = "there is no such context; a message without a contextId creates one";
    job.map(Some).ok_or_else(|| Failure::invalid("message.contextId", text))
}

/// Returns the message to a job.
fn follow_up(
    job: &Job,
    project: Option<&str>,
    prompt: String,
    options: &Map<String, Value>,
) -> Result<MessageRequest, Failure> {
    if project.is_some_and(|project| project != job.project.as_str()) {
        return Err(Failure::invalid("tenant", "the context belongs to another project"));
    }
    if let Some(name) = JOB_OPTIONS.into_iter().find(|name| options.contains_key(*name)) {
        let text = "is an option of a new context; the context of this message exists";
        return Err(Failure::invalid(&format!("message.metadata.{name}"), text));
    }
    let delivery: Option<Delivery> = option(options, "delivery")?;
    Ok(MessageRequest { prompt, delivery: delivery.unwrap_or_default().into() })
}

/// Returns the project of a new job: the given one, or the only one.
async fn project(call: &RpcCall, given: Option<String>) -> Result<ProjectId, Failure> {
    if let Some(given) = given {
        return tasks::project(call, &given).await;
    }
    let mut found = call.app.cases.projects_after(&call.caller, None, LISTED).await?;
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|project| project.id.to_string()).collect();
        let text = format!("is missing; set it, or metadata.project, to the ID of a project: {}", names.join(", "));
        return Err(Failure::invalid("tenant", text));
    }
    let only = found.pop().ok_or_else(|| Failure::invalid("tenant", "there are no projects yet"))?;
    Ok(only.id)
}

/// Returns the job of a message. Entries of the metadata that are not options are ignored.
fn new_job(prompt: String, options: &Map<String, Value>) -> Result<CreateJob, Failure> {
    let known = options.iter().filter(|(name, value)| JOB_OPTIONS.contains(&name.as_str()) && !value.is_null());
    let mut fields: Map<String, Value> = known.map(|(name, value)| (name.clone(), value.clone())).collect();
    fields.insert("prompt".to_owned(), Value::String(prompt));
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let field = format!("message.metadata.{}", error.path());
        Failure::invalid(&field, error.inner().to_string())
    })
}

/// Returns an option from the metadata of a message.
fn option<T: DeserializeOwned>(options: &Map<String, Value>, name: &str) -> Result<Option<T>, Failure> {
    let value = options.get(name).cloned().unwrap_or_default();
    serde_json::from_value(value)
        .map_err(|error| Failure::invalid(&format!("message.metadata.{name}"), error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(parts: Value) -> IncomingMessage {
        serde_json::from_value(json!({ "messageId": "m", "role": "ROLE_USER", "parts": parts })).unwrap()
    }

    #[test]
    fn only_parts_with_text_become_a_prompt() {
        let texts = json!([{ "text": "one" }, { "text": "two", "mediaType": "text/markdown", "filename": "" }]);
        assert_eq!(prompt(&message(texts)).ok().as_deref(), Some("one\ntwo"));
        for parts in [
            json!([]),
            json!([{}]),
            json!([{ "data": {} }]),
            json!([{ "text": "x" }, { "raw": "eA==" }]),
            json!([{ "url": "https://example.com/x" }]),
            json!([{ "text": "x", "mediaType": "application/json" }]),
        ] {
            assert!(prompt(&message(parts.clone())).is_err(), "{parts}");
        }
    }

    #[test]
    fn a_client_must_accept_text() {
        let check = |modes: &[&str]| {
            let accepted_output_modes = Some(modes.iter().map(|mode| (*mode).to_owned()).collect());
            check_configuration(&Configuration { accepted_output_modes, ..Configuration::default() }).is_ok()
        };
        assert!(check(&[]) && check(&["image/png", "text/plain; charset=utf-8"]) && check(&["*/*"]));
        assert!(!check(&["application/json"]));
    }

    #[test]
    fn the_fingerprint_of_a_message_does_not_depend_on_its_configuration_or_the_order_of_fields() {
        let of = |text: &str| idempotency("m", serde_json::from_str(text).unwrap()).unwrap().fingerprint;
        let first = of(r#"{"message":{"messageId":"m","parts":[]},"configuration":{"returnImmediately":true}}"#);
        assert_eq!(first, of(r#"{"message":{"parts":[],"messageId":"m"}}"#));
        assert_ne!(first, of(r#"{"message":{"parts":[{}],"messageId":"m"}}"#));
        assert!(idempotency("", json!({})).is_err() && idempotency("a\nb", json!({})).is_err());
    }
}
