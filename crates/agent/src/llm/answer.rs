//! An answer of the model, normalized for the conversation.
//!
//! Invariants: the arguments of every tool call are a JSON object, because providers insist on one when the call is
//! sent back; the answer has no part that a provider refuses or that cannot be stored.

use agent_client_protocol::v1::schema::StopReason as TurnStop;
use genai::chat::{ContentPart, MessageContent, StopReason, StreamEnd, Usage};
use journeyman_core::model::Dialect;
use serde_json::{Map, Value};

use super::usage::count;

/// An answer of the model.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The texts, thoughts and tool calls of the answer, in order.
    pub(crate) content: MessageContent,
    /// The tokens of the call, if the provider reported them.
    pub(crate) usage: Option<Usage>,
    stop: Option<StopReason>,
}

impl Answer {
    /// Converts the end of a stream to an answer. Returns `None` if the stream was incomplete, which some adapters do
    /// not report as an error: the stream ended without content, or the last line from Ollama, which has the token
    /// counts, is missing. That line is also missing after an error in the middle of the stream.
    pub(crate) fn from_stream_end(end: StreamEnd, dialect: Dialect) -> Option<Self> {
        if dialect == Dialect::Ollama && end.captured_usage.is_none() {
            return None;
        }
        let captured = end.captured_content.unwrap_or_default();
        let has_reasoning = captured.contains_reasoning_content();
        let mut parts: Vec<ContentPart> = captured.into_parts().into_iter().filter_map(clean).collect();
        if !has_reasoning && let Some(reasoning) = end.captured_reasoning_content {
            parts.push(ContentPart::ReasoningContent(reasoning));
        }
        if parts.is_empty() && end.captured_stop_reason.is_none() {
            return None;
        }
        Some(Self {
            content: MessageContent::from_parts(parts),
            usage: end.captured_usage,
            stop: end.captured_stop_reason,
        })
    }

    /// Returns the reason for the end of the turn, if the turn ends with this answer.
    pub(crate) fn stop_reason(&self) -> TurnStop {
        match self.stop {
            Some(StopReason::MaxTokens(_)) => TurnStop::MaxTokens,
            Some(StopReason::ContentFilter(_)) => TurnStop::Refusal,
            Some(
                StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_) | StopReason::Other(_),
            )
            | None => TurnStop::EndTurn,
        }
    }

    /// Returns the size of the conversation in tokens, including this answer, if the provider reported it.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        let usage = self.usage.as_ref()?;
        let input = usage.prompt_tokens?;
        Some(count(Some(input)) + count(usage.completion_tokens))
    }

    /// Returns all text of the answer.
    pub(crate) fn text(&self) -> String {
        self.content.joined_texts().unwrap_or_default()
    }
}

fn clean(part: ContentPart) -> Option<ContentPart> {
    match part {
        // Anthropic refuses empty texts.
        ContentPart::Text(text) => (!text.trim().is_empty()).then_some(ContentPart::Text(text)),
        ContentPart::ToolCall(mut call) => {
            call.fn_arguments = object(call.fn_arguments);
            Some(ContentPart::ToolCall(call))
        }
        // genai serializes this name in a form that it cannot deserialize, and does not need the name for sending.
        ContentPart::Custom(mut custom) => {
            custom.model_iden = None;
            Some(ContentPart::Custom(custom))
        }
        other => Some(other),
    }
}

/// Converts the arguments to an object. Truncated arguments become empty; the tool then reports what is missing.
fn object(arguments: Value) -> Value {
    match arguments {
        Value::Object(_) => arguments,
        Value::String(text) => {
            serde_json::from_str(&text).ok().filter(Value::is_object).unwrap_or_else(|| Value::Object(Map::new()))
        }
        _ => Value::Object(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use genai::chat::{CustomPart, ToolCall};
    use serde_json::json;

    use super::*;

    fn end(parts: Vec<ContentPart>) -> StreamEnd {
        StreamEnd { captured_content: Some(MessageContent::from_parts(parts)), ..StreamEnd::default() }
    }

    fn call(arguments: Value) -> ContentPart {
        ContentPart::ToolCall(ToolCall {
            call_id: "c".to_owned(),
            fn_name: "f".to_owned(),
            fn_arguments: arguments,
            thought_signatures: None,
        })
    }

    #[test]
    fn arguments_always_become_an_object() {
        for (arguments, expected) in [
            (json!({"a": 1}), json!({"a": 1})),
            (json!("{\"a\":1}"), json!({"a": 1})),
            (json!("{\"a\":"), json!({})),
            (json!("[1]"), json!({})),
            (json!(null), json!({})),
        ] {
            let answer = Answer::from_stream_end(end(vec![call(arguments)]), Dialect::OpenAi).unwrap();
            assert_eq!(answer.content.tool_calls()[0].fn_arguments, expected);
        }
    }

    #[test]
    fn parts_that_cannot_be_sent_or_stored_are_dropped() {
        let custom = CustomPart {
            model_iden: Some(genai::ModelIden::new(genai::adapter::AdapterKind::Anthropic, "m")),
            data: json!({"type": "redacted_thinking"}),
        };
        let parts = vec![ContentPart::Custom(custom), ContentPart::Text(" \n".to_owned())];
        let answer = Answer::from_stream_end(end(parts), Dialect::OpenAi).unwrap();
        assert_eq!(answer.content.len(), 1);
        assert!(answer.content.custom_parts()[0].model_iden.is_none());
        let stored = serde_json::to_string(&answer.content).unwrap();
        assert!(serde_json::from_str::<MessageContent>(&stored).is_ok());
    }

    #[test]
    fn an_empty_stream_is_not_an_answer() {
        assert!(Answer::from_stream_end(StreamEnd::default(), Dialect::OpenAi).is_none());
        let stopped =
            StreamEnd { captured_stop_reason: Some(StopReason::from("end_turn".to_owned())), ..StreamEnd::default() };
        assert!(Answer::from_stream_end(stopped, Dialect::OpenAi).is_some());
    }

    #[test]
    fn stop_reasons_are_translated() {
        for (provider, expected) in [
            ("stop", TurnStop::EndTurn),
            ("max_tokens", TurnStop::MaxTokens),
            ("refusal", TurnStop::Refusal),
            ("something new", TurnStop::EndTurn),
        ] {
            let stopped =
                StreamEnd { captured_stop_reason: Some(StopReason::from(provider.to_owned())), ..StreamEnd::default() };
            let answer = Answer::from_stream_end(stopped, Dialect::OpenAi).unwrap();
            assert_eq!(answer.stop_reason(), expected, "{provider}");
        }
    }

    #[test]
    fn an_ollama_stream_without_its_last_line_is_incomplete() {
        let partial = || end(vec![ContentPart::Text("It begins well".to_owned())]);
        assert!(Answer::from_stream_end(partial(), Dialect::Ollama).is_none());
        let whole = StreamEnd { captured_usage: Some(Usage::default()), ..partial() };
        assert!(Answer::from_stream_end(whole, Dialect::Ollama).is_some());
    }
}
