//! The types of events and the schemas of their `data`.

use serde_json::{Map, Value, json};

/// The prefix of the names of event schemas.
const PREFIX: &str = "Event";

/// A type of event.
struct Kind {
    /// The name, such as `run.started`.
    name: &'static str,
    /// The description: the moment at which the event occurs.
    text: &'static str,
    /// The properties of its data.
    data: Value,
    /// The properties that are always present.
    required: &'static [&'static str],
}

/// Returns the schemas of all types of events, by name, and the schema `Event`, which is one of them.
pub(crate) fn schemas() -> Map<String, Value> {
    let kinds = kinds();
    let reference = |kind: &Kind| format!("#/components/schemas/{}", schema_name(kind.name));
    let mapping: Map<String, Value> =
        kinds.iter().map(|kind| (kind.name.to_owned(), Value::String(reference(kind)))).collect();
    let one_of: Vec<Value> = kinds.iter().map(|kind| json!({ "$ref": reference(kind) })).collect();
    let mut schemas: Map<String, Value> = kinds.iter().map(|kind| (schema_name(kind.name), schema(kind))).collect();
    schemas.insert(
        PREFIX.to_owned(),
        json!({
            "description": "An entry in the log of a job. New types may be added; ignore types that you do not know.",
            "oneOf": one_of,
            "discriminator": { "propertyName": "type", "mapping": mapping },
        }),
    );
    schemas
}

/// Returns the name of the schema of a type, such as `EventRunStarted` for `run.started`.
fn schema_name(kind: &str) -> String {
    let words = kind.split(['.', '_']).map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    std::iter::once(PREFIX.to_owned()).chain(words).collect()
}

fn schema(kind: &Kind) -> Value {
    let mut data = json!({ "type": "object", "properties": kind.data });
    if !kind.required.is_empty() {
        data["required"] = json!(kind.required);
    }
    json!({
        "type": "object",
        "description": kind.text,
        "required": ["seq", "type", "at", "runId", "data"],
        "properties": {
            "seq": {
                "type": "integer", "format": "int64", "minimum": 1,
                "description": "The sequence number: 1 for the job's first event, without gaps.",
            },
            "type": { "type": "string", "const": kind.name },
            "at": { "type": "string", "format": "date-time" },
            "runId": { "type": ["string", "null"], "description": "The ID of the run, if the event belongs to one." },
            "data": data,
        },
    })
}

/// Adds the properties that the data of an agent's event has if it is truncated: data of more than 256 KiB is replaced
/// by `cut`, `bytes`, and its `beginning`.
fn truncatable(mut properties: Value) -> Value {
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("cut".to_owned(), json!({ "type": "boolean", "description": "True if data was truncated." }));
        properties
            .insert("bytes".to_owned(), json!({ "type": "integer", "description": "The original size in bytes." }));
        properties.insert("beginning".to_owned(), json!({ "type": "string", "description": "The first characters." }));
        properties.entry("toolCallId").or_insert_with(|| json!({ "type": ["string", "null"] }));
    }
    properties
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn kinds() -> Vec<Kind> {
    let text = || json!({ "type": "string" });
    let maybe = || json!({ "type": ["string", "null"] });
    let number = || json!({ "type": "integer", "format": "int64", "minimum": 0 });
    let time = || json!({ "type": "string", "format": "date-time" });
    let shas = || json!({ "type": "array", "items": { "type": "string" } });
    let any = || json!({});
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let maybe_reason = || json!({ "oneOf": [{ "$ref": "#/components/schemas/Reason" }, { "type": "null" }] });
    let pull = || json!({ "number": number(), "url": text() });
    let egress = || truncatable(json!({ "destination": text(), "reason": maybe() }));
    let kind = |name, text, data, required| Kind { name, text, data, required };
    vec![
        kind(
            "job.created",
            "The job was created.",
            json!({
                "title": text(), "source": schema("Source"), "agent": text(), "model": text(),
                "effort": schema("Effort"),
            }),
            &["title", "source", "agent", "model"],
        ),
        kind("job.completed", "No messages are left, and the last run succeeded.", json!({}), &[]),
        kind(
            "job.failed",
            "No messages are left, and the last run failed.",
            json!({ "reason": schema("Reason") }),
            &["reason"],
        ),
        kind("job.archived", "The job was archived.", json!({}), &[]),
        kind("job.unarchived", "The job is no longer archived.", json!({}), &[]),
        kind(
            "message.accepted",
            "A message was stored.",
            json!({
                "messageId": text(), "prompt": text(), "origin": schema("MessageOrigin"), "author": maybe(),
                "delivery": schema("Delivery"),
            }),
            &["messageId", "prompt", "origin", "author", "delivery"],
        ),
        kind("message.withdrawn", "A queued message was withdrawn.", json!({ "messageId": text() }), &["messageId"]),
        kind(
            "message.changed",
            "The comments of a queued message were edited on the code host.",
            json!({ "messageId": text(), "prompt": text() }),
            &["messageId", "prompt"],
        ),
        kind(
            "message.waiting",
            "A message waits for something outside the job, such as its code host.",
            json!({
                "messageId": text(), "reason": schema("Reason"), "since": time(), "deadline": time(),
                "nextAttemptAt": time(),
            }),
            &["messageId", "reason", "since", "deadline", "nextAttemptAt"],
        ),
        kind(
            "message.published_with",
            "Commits of earlier messages were published with those of this message.",
            json!({ "messageId": text(), "earlier": shas() }),
            &["messageId", "earlier"],
        ),
        kind(
            "message.finished",
            "A delivered message finished, failed, or was cancelled.",
            json!({
                "messageId": text(), "status": schema("MessageStatus"), "answer": maybe(), "commits": shas(),
                "prLink": maybe(), "reason": maybe_reason(),
            }),
            // Logs of versions before 0.1 have no `answer`.
            &["messageId", "status", "commits", "prLink", "reason"],
        ),
        kind(
            "run.started",
            "A worker started a run for a message.",
            json!({ "messageId": text(), "attempt": number(), "worker": text() }),
            &["messageId", "attempt", "worker"],
        ),
        kind(
            "run.finished",
            "A run ended.",
            json!({ "status": schema("RunStatus"), "reason": maybe_reason(), "commits": shas() }),
            &["status", "reason", "commits"],
        ),
        kind(
            "commit.pushed",
            "The branch was pushed.",
            json!({ "branch": text(), "head": text(), "commits": shas() }),
            &["branch", "head", "commits"],
        ),
        kind("pull_request.opened", "A pull request was opened.", pull(), &["number", "url"]),
        kind("pull_request.updated", "The pull request has new commits.", pull(), &["number", "url"]),
        kind("pull_request.merged", "A pull request was merged.", json!({ "number": number() }), &["number"]),
        kind("pull_request.closed", "A pull request was closed.", json!({ "number": number() }), &["number"]),
        kind("pull_request.reopened", "A pull request was reopened.", json!({ "number": number() }), &["number"]),
        kind(
            "pull_request.outdated",
            "The pull request conflicts with its base branch, or is behind it, and the project wants it to be updated.",
            json!({
                "number": number(), "base": text(), "baseSha": text(), "headSha": text(), "behind": number(),
                "conflicts": schema("PullConflicts"), "stop": maybe(),
            }),
            &["number", "base", "baseSha", "headSha", "behind", "conflicts", "stop"],
        ),
        kind(
            "checks.settled",
            "All checks of the newest commit of the pull request have finished.",
            json!({ "sha": text(), "result": text(), "failed": shas(), "stop": maybe() }),
            &["sha", "result", "failed", "stop"],
        ),
        kind("agent.message", "The agent sent a message.", truncatable(json!({ "text": text() })), &[]),
        kind("agent.thought", "The agent sent a thought.", truncatable(json!({ "text": text() })), &[]),
        kind(
            "agent.plan",
            "The agent's complete plan.",
            truncatable(json!({ "entries": { "type": "array", "items": {} } })),
            &[],
        ),
        kind(
            "agent.tool_call",
            "A tool call, or an update of one, with the fields that the agent sent.",
            truncatable(json!({
                "toolCallId": maybe(), "title": any(), "kind": any(), "status": any(), "rawInput": any(),
                "rawOutput": any(), "content": any(), "locations": any(),
                "update": { "type": "boolean", "description": "True if an earlier event started the call." },
            })),
            &[],
        ),
        kind(
            "agent.usage",
            "The usage of the context window, as reported by the agent.",
            truncatable(json!({ "used": any(), "size": any(), "cost": any() })),
            &[],
        ),
        kind(
            "agent.session",
            "The agent's session was opened.",
            truncatable(json!({
                "agent": text(), "opened": { "type": "string", "enum": ["new", "resumed", "loaded"] },
                "resumes": { "type": "boolean" }, "loads": { "type": "boolean" }, "millis": number(),
                "notSet": {
                    "type": "object", "additionalProperties": text(),
                    "description": "The wanted values of `model`, `effort` and `mode` that the agent does not offer or \
                                    has refused.",
                },
            })),
            &[],
        ),
        kind(
            "agent.continued",
            "The agent's turn was cut short, and the agent is asked to continue.",
            truncatable(json!({ "cause": text(), "continuation": number(), "most": number() })),
            &[],
        ),
        kind(
            "changes.left_out",
            "The turn changed files that its commits do not have.",
            truncatable(json!({
                "paths": { "type": "array", "items": schema("LeftOut") }, "more": number(),
            })),
            &[],
        ),
        kind(
            "checkout.incomplete",
            "The working tree of the turn lacks something that the repository or an earlier turn has: the content of a \
             file in Git LFS, a file that was left out of an earlier commit, a submodule, the newest commit of the \
             branch that the work is merged into, the work of a turn that was lost before it was recorded, or the agent's \
             home of earlier turns.",
            truncatable(json!({
                "entries": { "type": "array", "items": {
                    "type": "object", "required": ["path", "kind", "reason", "detail"],
                    "properties": {
                        "path": text(), "kind": { "type": "string", "enum": ["file", "submodule", "base", "turn", "home"] },
                        "reason": text(), "detail": text(),
                    },
                } },
                "more": number(),
            })),
            &[],
        ),
        kind(
            "home.not_stored",
            "The agent's home was not stored after the turn, so a rebuilt workspace will not have it.",
            truncatable(json!({ "reason": text(), "detail": text() })),
            &[],
        ),
        kind(
            "agent.line_dropped",
            "A line of the agent's output was not a message of the protocol.",
            truncatable(json!({ "reason": text() })),
            &[],
        ),
        kind(
            "agent.model_call",
            "The agent called a model through the service.",
            truncatable(json!({
                "model": text(), "inputTokens": number(), "cachedTokens": number(), "outputTokens": number(),
                "costMicros": { "type": ["integer", "null"] }, "estimated": { "type": "boolean" },
                "waitedMillis": number(), "millis": number(), "failure": maybe(),
            })),
            &[],
        ),
        kind(
            "model.denied",
            "A model call, or a part of it, was denied.",
            truncatable(json!({ "reason": text() })),
            &[],
        ),
        kind(
            "permission.answered",
            "The agent asked for permission, and the project's policy answered.",
            truncatable(
                json!({ "title": text(), "chosen": maybe(), "kind": maybe(), "granted": { "type": "boolean" } }),
            ),
            &[],
        ),
        kind("egress.allowed", "A program reached a destination outside the sandbox.", egress(), &[]),
        kind("egress.denied", "A program was denied access to a destination outside the sandbox.", egress(), &[]),
    ]
}
