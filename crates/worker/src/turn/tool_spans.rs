//! Spans of an agent's tool calls, with the attributes of OpenTelemetry's conventions for generative AI
//! (<https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>).

use std::collections::HashMap;

use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use tracing::Span;
use tracing::field::Empty;

/// The maximum number of open spans. An agent may begin any number of tool calls and end none of them.
const MAX_OPEN: usize = 100;

/// The maximum length of the ID of a tool call, in characters. Longer IDs are truncated.
const ID_CHARS: usize = 100;

/// The kinds of tool calls in the Agent Client Protocol, without "other". Apart from the ID of the call, a span contains
/// no text from the agent, so an unknown kind is recorded as "other".
const KINDS: [&str; 9] = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];

/// The open tool calls of a turn. Dropping them ends their spans.
#[derive(Default)]
pub(super) struct ToolSpans(HashMap<String, Span>);

impl ToolSpans {
    /// Begins or ends the span of a tool call. Titles and arguments are not exported, because they may contain anything.
    pub(super) fn note(&mut self, entry: &TranscriptEntry) {
        if entry.kind != TranscriptKind::ToolCall {
            return;
        }
        let text = |field: &str| entry.data[field].as_str().unwrap_or_default();
        let id: String = text("toolCallId").chars().take(ID_CHARS).collect();
        if !self.0.contains_key(&id) && self.0.len() < MAX_OPEN {
            let kind = KINDS.into_iter().find(|kind| *kind == text("kind")).unwrap_or("other");
            let span = tracing::debug_span!(
                "tool_call",
                otel.name = format_args!("execute_tool {kind}"),
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = kind,
                gen_ai.tool.call.id = id.as_str(),
                otel.status_code = Empty
            );
            self.0.insert(id.clone(), span);
        }
        let status = text("status");
        if ["completed", "failed"].contains(&status)
            && let Some(span) = self.0.remove(&id)
            && status == "failed"
        {
            span.record("otel.status_code", "ERROR");
        }
    }
}
