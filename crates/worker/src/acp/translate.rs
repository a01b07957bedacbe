//! Translates the agent's JSON into the few kinds of updates that the worker distinguishes.
//!
//! Invariant: the translation never fails. JSON that is not understood is passed on unchanged.

use serde_json::{Map, Value};

use super::lines::head;

/// The fields of a tool call that are kept.
const TOOL_CALL_FIELDS: [&str; 8] =
    ["toolCallId", "title", "kind", "status", "rawInput", "rawOutput", "content", "locations"];

/// The fields of a usage update that are kept.
const USAGE_FIELDS: [&str; 3] = ["used", "size", "cost"];

/// The maximum number of characters that are kept of an unknown stop reason.
const STOP_CHARS: usize = 100;

/// An update from an agent about its work.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// A piece of the agent's message; never empty.
    Message(String),
    /// A piece of the agent's reasoning; never empty.
    Thought(String),
    /// The whole plan, which replaces any earlier one: `[{content, priority, status}]`.
    Plan(Value),
    /// A tool call: `{toolCallId, title, kind, status, rawInput, rawOutput, content, locations}`, without the fields
    /// that the agent left out. A later update about the same call has the fields that changed, and `update: true`.
    ToolCall(Value),
    /// The usage of the context, as the agent counts it: `{used, size, cost}`. Agents count in different ways.
    Usage(Value),
    /// The agent asked for permission and was answered.
    Permission {
        /// The agent's title for the tool call, or the call's ID if it has no title.
        title: String,
        /// The ID of the chosen option; `None` if none was suitable.
        chosen: Option<String>,
        /// The kind of that option, such as `allow_once`.
        kind: Option<String>,
        /// True if the permission was given.
        granted: bool,
    },
    /// A line that was not a message, or could not be parsed.
    Dropped {
        /// The problem with the line.
        reason: String,
        /// The first characters of the line.
        beginning: String,
    },
    /// Any other update, unchanged.
    Other(Value),
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// The reason why the agent stopped.
    pub stop: Stop,
    /// The usage of the turn, as the agent counts it. Agents count in different ways; costs are based on the count of
    /// the model proxy.
    pub usage: Option<Usage>,
    /// The title of the tool call that the policy refused, if the turn ended because of the refusal.
    pub refused: Option<String>,
}

/// The reason why an agent stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The agent finished.
    EndTurn,
    /// The model reached its limit of tokens.
    MaxTokens,
    /// The agent reached its limit of requests in one turn.
    MaxTurnRequests,
    /// The model refused.
    Refusal,
    /// The turn was cancelled.
    Cancelled,
    /// A reason that version 1 of the protocol does not have; empty if the agent gave none.
    Unknown(String),
}

impl Stop {
    /// Returns the name in the protocol; empty if the agent gave none.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Unknown(name) => name,
        }
    }
}

/// The number of tokens, as the agent counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the provider's cache.
    pub cached: Option<u64>,
    /// Tokens written to the provider's cache.
    pub cache_written: Option<u64>,
    /// Tokens spent on reasoning.
    pub thought: Option<u64>,
}

/// Translates the params of a `session/update`; `None` if there is nothing to report.
pub(super) fn update(mut params: Value) -> Option<Update> {
    let Some(mut update) = params.get_mut("update").filter(|update| update.is_object()).map(Value::take) else {
        return Some(Update::Other(params));
    };
    let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "agent_message_chunk" => chunk(update, Update::Message),
        "agent_thought_chunk" => chunk(update, Update::Thought),
        // The client's own message, which the agent repeats.
        "user_message_chunk" => None,
        "plan" => Some(match update.get_mut("entries").map(Value::take) {
            Some(entries) => Update::Plan(entries),
            None => Update::Other(update),
        }),
        "tool_call" => Some(tool_call(update, false)),
        "tool_call_update" => Some(tool_call(update, true)),
        "usage_update" => {
            if let Some(fields) = update.as_object_mut() {
                fields.retain(|name, _| USAGE_FIELDS.contains(&name.as_str()));
            }
            Some(Update::Usage(update))
        }
        _ => Some(Update::Other(update)),
    }
}

fn chunk(update: Value, into: fn(String) -> Update) -> Option<Update> {
    match text(&update).map(str::to_owned) {
        Some(text) if text.is_empty() => None,
        Some(text) => Some(into(text)),
        // The content is an image, a link or an embedded file.
        None => Some(Update::Other(update)),
    }
}

fn text(update: &Value) -> Option<&str> {
    let content = update.get("content")?;
    match content.get("type").and_then(Value::as_str) {
        None | Some("text") => content.get("text")?.as_str(),
        Some(_) => None,
    }
}

fn tool_call(mut update: Value, later: bool) -> Update {
    if update.get("toolCallId").and_then(Value::as_str).is_none() {
        return Update::Other(update);
    }
    let mut call = Map::new();
    for field in TOOL_CALL_FIELDS {
        // In version 1, null and absent both mean "as before".
        if let Some(value) = update.get_mut(field).map(Value::take).filter(|value| !value.is_null()) {
            call.insert(field.to_owned(), value);
        }
    }
    if later {
        call.insert("update".to_owned(), Value::Bool(true));
    }
    Update::ToolCall(Value::Object(call))
}

/// Parses the answer to a `session/prompt`.
pub(super) fn turn_end(answer: &Value) -> TurnEnd {
    let stop = match answer.get("stopReason").and_then(Value::as_str) {
        Some("end_turn") => Stop::EndTurn,
        Some("max_tokens") => Stop::MaxTokens,
        Some("max_turn_requests") => Stop::MaxTurnRequests,
        Some("refusal") => Stop::Refusal,
        Some("cancelled") => Stop::Cancelled,
        Some(other) => Stop::Unknown(head(other, STOP_CHARS).to_owned()),
        None => Stop::Unknown(String::new()),
    };
    TurnEnd { stop, usage: answer.get("usage").and_then(usage), refused: None }
}

fn usage(value: &Value) -> Option<Usage> {
    let tokens = |field: &str| value.get(field).and_then(Value::as_u64);
    Some(Usage {
        input: tokens("inputTokens")?,
        output: tokens("outputTokens")?,
        cached: tokens("cachedReadTokens"),
        cache_written: tokens("cachedWriteTokens"),
        thought: tokens("thoughtTokens"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(inner: Value) -> Option<Update> {
        update(json!({ "sessionId": "s1", "update": inner }))
    }

    #[test]
    fn text_is_reported_unless_it_is_empty() {
        let chunk = |kind: &str, text: &str| {
            translated(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }))
        };
        assert_eq!(chunk("agent_message_chunk", "hi"), Some(Update::Message("hi".to_owned())));
        assert_eq!(chunk("agent_thought_chunk", " "), Some(Update::Thought(" ".to_owned())));
        assert_eq!(chunk("agent_message_chunk", ""), None);
        assert_eq!(chunk("agent_thought_chunk", ""), None);
        assert_eq!(chunk("user_message_chunk", "hi"), None);
    }

    #[test]
    fn content_other_than_text_is_passed_on() {
        let image = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image", "data": "" } });
        assert_eq!(translated(image.clone()), Some(Update::Other(image)));
    }

    #[test]
    fn a_tool_call_keeps_its_known_fields_and_later_updates_are_marked() {
        assert_eq!(
            translated(json!({
                "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls", "kind": "execute",
                "rawInput": { "command": "ls" }, "rawOutput": null, "_meta": { "x": 1 },
            })),
            Some(Update::ToolCall(json!({
                "toolCallId": "c1", "title": "ls", "kind": "execute", "rawInput": { "command": "ls" },
            })))
        );
        assert_eq!(
            translated(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed" })),
            Some(Update::ToolCall(json!({ "toolCallId": "c1", "status": "failed", "update": true })))
        );
    }

    #[test]
    fn plans_and_usage_are_unwrapped() {
        assert_eq!(
            translated(json!({ "sessionUpdate": "plan", "entries": [{ "content": "a" }] })),
            Some(Update::Plan(json!([{ "content": "a" }])))
        );
        assert_eq!(
            translated(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "_meta": {} })),
            Some(Update::Usage(json!({ "used": 1, "size": 2 })))
        );
    }

    #[test]
    fn unknown_updates_are_passed_on_unchanged() {
        for unknown in [
            json!({ "sessionUpdate": "brain_transplant", "x": [1] }),
            json!({ "sessionUpdate": "tool_call", "title": "without an id" }),
            json!({ "sessionUpdate": "plan" }),
            json!({}),
        ] {
            assert_eq!(translated(unknown.clone()), Some(Update::Other(unknown)));
        }
        assert_eq!(update(json!([1])), Some(Update::Other(json!([1]))));
        assert_eq!(update(Value::Null), Some(Update::Other(Value::Null)));
    }

    #[test]
    fn an_answer_is_parsed_leniently() {
        let usage = json!({ "inputTokens": 1, "outputTokens": 2, "cachedReadTokens": 3 });
        assert_eq!(
            turn_end(&json!({ "stopReason": "max_tokens", "usage": usage })),
            TurnEnd {
                stop: Stop::MaxTokens,
                usage: Some(Usage { input: 1, output: 2, cached: Some(3), cache_written: None, thought: None }),
                refused: None,
            }
        );
        assert_eq!(
            turn_end(&json!({ "stopReason": "tired", "usage": { "inputTokens": "many" } })),
            TurnEnd { stop: Stop::Unknown("tired".to_owned()), usage: None, refused: None }
        );
        assert_eq!(turn_end(&Value::Null).stop, Stop::Unknown(String::new()));
    }
}
