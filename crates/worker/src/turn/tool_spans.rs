//! Spans of an agent's tool calls, with the attributes of OpenTelemetry's conventions for generative AI
//! (<https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>).

use std::collections::HashMap;

use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use tracing::Span;
use tracing::field::Empty;

/// The maximum number of tool calls whose span is open. An agent may begin any number and end none.
const MAX_OPEN: usize = 100;

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
        let (id, status) = (text("toolCallId"), text("status"));
        if !self.0.contains_key(id) && self.0.len() < MAX_OPEN {
            let kind = if text("kind").is_empty() { "other" } else { text("kind") };
            let span = tracing::debug_span!(
                "tool_call",
                otel.name = format_args!("execute_tool {kind}"),
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = kind,
                gen_ai.tool.call.id = id,
                otel.status_code = Empty
            );
            self.0.insert(id.to_owned(), span);
        }
        if ["completed", "failed"].contains(&status)
            && let Some(span) = self.0.remove(id)
            && status == "failed"
        {
            span.record("otel.status_code", "ERROR");
        }
    }
}
