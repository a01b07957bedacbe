//! From the agent's JSON to the few things that the worker tells apart.
//!
//! Invariant: nothing that an agent sends fails here. What is not understood is kept as it came.

use serde_json::{Map, Value};

use super::lines::head;

/// The fields of a tool call that are kept.
const TOOL_CALL_FIELDS: [&str; 8] =
    ["toolCallId", "title", "kind", "status", "rawInput", "rawOutput", "content", "locations"];

/// The fields of a usage update that are kept.
const USAGE_FIELDS: [&str; 3] = ["used", "size", "cost"];

/// The most of an unknown stop reason that is kept, in characters.
const STOP_CHARS: usize = 100;

/// Something that an agent told about its work.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// A piece of the agent's message; never empty.
    Message(String),
    /// A piece of the agent's reasoning; never empty.
    Thought(String),
    /// The whole plan, in place of any earlier one: `[{content, priority, status}]`.
    Plan(Value),
    /// A tool call: `{toolCallId, title, kind, status, rawInput, rawOutput, content, locations}`, without the fields
    /// that the agent left out. A later word on the same call has the fields that changed and `update: true`.
    ToolCall(Value),
    /// How full the context is, as the agent counts it: `{used, size, cost}`. Agents mean different things by it.
    Usage(Value),
    /// The agent asked for a permission and was answered.
    Permission {
        /// What the agent wanted to do, in its words; its id where it gave no words.
        title: String,
        /// The id of the option that was chosen; `None` if none fitted.
        chosen: Option<String>,
        /// The kind of that option, such as `allow_once`.
        kind: Option<String>,
        /// Whether the permission was given.
        granted: bool,
    },
    /// A line that was not a message, or could not be read.
    Dropped {
        /// The problem with the line.
        reason: String,
        /// The first characters of the line.
        beginning: String,
    },
    /// Any other update, as it came.
    Other(Value),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// Why the agent stopped.
    pub stop: Stop,
    /// What the agent says that the turn used. Agents mean different things by it; for bills there is the model proxy.
    pub usage: Option<Usage>,
    /// The title of the tool call that the policy refused, if the turn ended because of the refusal.
    pub refused: Option<String>,
}

/// Why an agent stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It was done.
    EndTurn,
    /// The model came to its limit of tokens.
    MaxTokens,
    /// The agent came to its limit of requests in one turn.
    MaxTurnRequests,
    /// The model refused.
    Refusal,
    /// We cancelled the turn.
    Cancelled,
    /// A reason that this version of the protocol does not know; empty if the agent gave none.
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

/// Tokens, as the agent counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from the provider's cache.
    pub cached: Option<u64>,
    /// Tokens written to the provider's cache.
    pub cache_written: Option<u64>,
    /// Tokens spent on reasoning.
    pub thought: Option<u64>,
}

/// Translates the params of a `session/update`. `None` if there is nothing to tell.
pub(super) fn update(mut params: Value) -> Option<Update> {
    let Some(mut update) = params.get_mut("update").filter(|update| update.is_object()).map(Value::take) else {
        return Some(Update::Other(params));
    };
    let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "agent_message_chunk" => chunk(update, Update::Message),
        "agent_thought_chunk" => chunk(update, Update::Thought),
        // Our own message, sent back to us.
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
        // An image, a link, an embedded file.
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

/// Reads the answer to a `session/prompt`.
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

    fn translated(told: Value) -> Option<Update> {
        update(json!({ "sessionId": "s1", "update": told }))
    }

    #[test]
    fn text_is_told_and_empty_text_is_not() {
        let said = |kind: &str, text: &str| {
            translated(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }))
        };
        assert_eq!(said("agent_message_chunk", "hi"), Some(Update::Message("hi".to_owned())));
        assert_eq!(said("agent_thought_chunk", " "), Some(Update::Thought(" ".to_owned())));
        assert_eq!(said("agent_message_chunk", ""), None);
        assert_eq!(said("agent_thought_chunk", ""), None);
        assert_eq!(said("user_message_chunk", "hi"), None);
    }

    #[test]
    fn content_other_than_text_is_kept() {
        let image = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image", "data": "" } });
        assert_eq!(translated(image.clone()), Some(Update::Other(image)));
    }

    #[test]
    fn a_tool_call_keeps_its_known_fields_and_later_words_are_marked() {
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
    fn plan_and_usage_lose_their_wrapping() {
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
    fn what_is_not_understood_is_kept_as_it_came() {
        for told in [
            json!({ "sessionUpdate": "brain_transplant", "x": [1] }),
            json!({ "sessionUpdate": "tool_call", "title": "without an id" }),
            json!({ "sessionUpdate": "plan" }),
            json!({}),
        ] {
            assert_eq!(translated(told.clone()), Some(Update::Other(told)));
        }
        assert_eq!(update(json!([1])), Some(Update::Other(json!([1]))));
        assert_eq!(update(Value::Null), Some(Update::Other(Value::Null)));
    }

    #[test]
    fn an_answer_is_read_leniently() {
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
