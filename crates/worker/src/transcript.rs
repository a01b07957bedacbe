//! What the agent says, as lines of the job's log: collected for a moment, so that a chatty agent costs few writes.

use std::time::Duration;

use journeyman_core::engine::Engine;
use journeyman_core::ids::JobId;
use journeyman_core::job::Token;
use journeyman_core::job::command::Report;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::ports::UpdateError;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use crate::acp::Update;

/// How long what was said may wait for more.
const PAUSE: Duration = Duration::from_millis(50);

/// Lines written at a time at most.
const BATCH: usize = 64;

/// Bytes of one line's data; longer tool output is cut. Keeps one line from growing a job without bound.
const LINE_BYTES: usize = 256 << 10;

/// Writes what arrives until the agent's side is closed.
pub(crate) async fn write(
    engine: &Engine,
    job: JobId,
    token: Token,
    mut updates: Receiver<Update>,
) -> Result<(), UpdateError> {
    while let Some(first) = updates.recv().await {
        let mut entries = Vec::new();
        add(&mut entries, first, engine);
        let deadline = Instant::now() + PAUSE;
        while entries.len() < BATCH {
            match tokio::time::timeout_at(deadline, updates.recv()).await {
                Ok(Some(update)) => add(&mut entries, update, engine),
                Ok(None) | Err(_) => break,
            }
        }
        if !entries.is_empty() {
            engine.report(job, token, Report::Transcript(entries)).await?;
        }
    }
    Ok(())
}

fn add(entries: &mut Vec<TranscriptEntry>, update: Update, engine: &Engine) {
    let (kind, data) = match update {
        Update::Message(text) => (TranscriptKind::Message, json!({"text": text})),
        Update::Thought(text) => (TranscriptKind::Thought, json!({"text": text})),
        Update::Plan(plan) => (TranscriptKind::Plan, json!({"entries": plan})),
        Update::ToolCall(call) => (TranscriptKind::ToolCall, call),
        Update::Usage(usage) => (TranscriptKind::Usage, usage),
        Update::Permission { title, chosen, kind, granted } => {
            (TranscriptKind::Permission, json!({"title": title, "chosen": chosen, "kind": kind, "granted": granted}))
        }
        // Kinds that came after this version: kept out of the log rather than guessed at.
        Update::Other(_) => return,
    };
    // Agents stream text in pieces: pieces that follow each other are one line.
    if let Some(last) = entries.last_mut()
        && last.kind == kind
        && matches!(kind, TranscriptKind::Message | TranscriptKind::Thought)
        && let (Some(Value::String(text)), Some(more)) = (last.data.get_mut("text"), data["text"].as_str())
    {
        text.push_str(more);
        return;
    }
    entries.push(TranscriptEntry { kind, data: storable(data), at: engine.now() });
}

/// Bounded, and without NUL, which PostgreSQL does not store.
fn storable(data: Value) -> Value {
    let text = data.to_string();
    if text.len() > LINE_BYTES {
        let id = data.get("toolCallId").cloned();
        let beginning: String = text.chars().take(2000).collect();
        return json!({"toolCallId": id, "cut": true, "bytes": text.len(), "beginning": beginning});
    }
    if text.contains("\\u0000") { without_nul(data) } else { data }
}

fn without_nul(data: Value) -> Value {
    match data {
        Value::String(text) => Value::String(text.replace('\0', "\u{fffd}")),
        Value::Array(values) => values.into_iter().map(without_nul).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, without_nul(value))).collect(),
        other => other,
    }
}
