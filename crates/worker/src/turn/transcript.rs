//! Writes the agent's updates to the job's log. Updates are collected for a short time, so that an agent that sends
//! many of them causes few writes.

use std::cmp::Ordering;
use std::time::Duration;

use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::ports::UpdateError;
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::acp::Update;
use crate::claim::lease::Reporter;
use crate::claim::redaction::{Pieces, Redactor};
use crate::turn::answer::Answer;
use crate::turn::tool_spans::ToolSpans;

/// The time for which updates are collected before they are written.
const PAUSE: Duration = Duration::from_millis(50);

/// The maximum number of entries that are written together.
const BATCH: usize = 64;

/// The maximum size of an entry's data in bytes. Longer tool output is cut, so that one entry cannot grow a job without
/// bound.
const ENTRY_BYTES: usize = 256 << 10;

/// The maximum number of dropped lines that are logged in one turn, because an agent may print anything, as often as it
/// likes.
const MAX_DROPPED: usize = 20;

/// Writes updates until the turn is `over` and no updates are left. If writing fails, the rest is still read, so that
/// the agent does not wait for us.
pub(crate) async fn write(
    reporter: &Reporter,
    updates: &mut Receiver<Update>,
    over: &CancellationToken,
    answer: &mut Answer,
) -> Result<(), UpdateError> {
    let left = &mut None;
    let written = write_all(reporter, updates, over, (left, answer)).await;
    while next(updates, over, left).await.is_some() {}
    written
}

/// Takes all updates that have arrived, and returns those about lines that were no messages.
pub(super) fn dropped_lines(updates: &mut Receiver<Update>) -> Vec<Update> {
    let arrived = std::iter::from_fn(|| updates.try_recv().ok());
    arrived.filter(|update| matches!(update, Update::Dropped { .. })).collect()
}

/// Writes updates about lines that were no messages.
pub(super) async fn write_dropped(reporter: &Reporter, dropped: Vec<Update>) -> Result<(), UpdateError> {
    let (mut buffer, mut entries) = (TextBuffer::default(), Vec::new());
    for update in dropped {
        buffer.add(reporter, &mut entries, update);
    }
    if !entries.is_empty() {
        reporter.transcript(entries).await?;
    }
    Ok(())
}

async fn write_all(
    reporter: &Reporter,
    updates: &mut Receiver<Update>,
    over: &CancellationToken,
    (left, answer): (&mut Option<usize>, &mut Answer),
) -> Result<(), UpdateError> {
    let (mut buffer, mut tools) = (TextBuffer::default(), ToolSpans::default());
    // Updates that arrived before the turn was over are in the channel by then, and are taken first.
    while let Some(first) = next(updates, over, left).await {
        let mut entries = Vec::new();
        buffer.add(reporter, &mut entries, first);
        let deadline = Instant::now() + PAUSE;
        while entries.len() < BATCH {
            match tokio::time::timeout_at(deadline, next(updates, over, left)).await {
                Ok(Some(update)) => buffer.add(reporter, &mut entries, update),
                Ok(None) | Err(_) => break,
            }
        }
        if !entries.is_empty() {
            for entry in &entries {
                answer.note(entry);
                tools.note(entry);
            }
            reporter.transcript(entries).await?;
        }
    }
    let mut entries = Vec::new();
    buffer.end(reporter, &mut entries, reporter.now());
    if !entries.is_empty() {
        entries.iter().for_each(|entry| answer.note(entry));
        reporter.transcript(entries).await?;
    }
    Ok(())
}

/// Text that arrives in pieces. Its end may be held back, because it may be the beginning of a secret.
#[derive(Default)]
struct TextBuffer {
    pieces: Pieces,
    /// The kind of the pieces.
    kind: Option<TranscriptKind>,
    /// The number of dropped lines so far.
    dropped: usize,
}

impl TextBuffer {
    fn add(&mut self, reporter: &Reporter, entries: &mut Vec<TranscriptEntry>, update: Update) {
        let at = reporter.now();
        let update = match update {
            Update::Dropped { reason, beginning } => match self.limit(reason, beginning) {
                Some(update) => update,
                None => return,
            },
            update => update,
        };
        let kind = match update {
            Update::Message(_) => Some(TranscriptKind::Message),
            Update::Thought(_) => Some(TranscriptKind::Thought),
            _ => None,
        };
        if kind != self.kind {
            self.end(reporter, entries, at);
            self.kind = kind;
        }
        match (update, reporter.redactor()) {
            (Update::Message(text), Some(redactor)) => {
                add(entries, Update::Message(self.pieces.add(redactor, &text)), at)
            }
            (Update::Thought(text), Some(redactor)) => {
                add(entries, Update::Thought(self.pieces.add(redactor, &text)), at)
            }
            (update, redactor) => add_redacted(entries, update, at, redactor),
        }
    }

    /// Returns a dropped line as it is logged; `None` after too many.
    fn limit(&mut self, reason: String, beginning: String) -> Option<Update> {
        self.dropped += 1;
        match self.dropped.cmp(&MAX_DROPPED) {
            Ordering::Less => Some(Update::Dropped { reason, beginning }),
            Ordering::Equal => {
                let reason = "further dropped lines of this turn are not logged".to_owned();
                Some(Update::Dropped { reason, beginning: String::new() })
            }
            Ordering::Greater => None,
        }
    }

    /// Ends the text, because no more pieces of its kind follow, and adds the rest to the entries.
    fn end(&mut self, reporter: &Reporter, entries: &mut Vec<TranscriptEntry>, at: Timestamp) {
        let rest = reporter.redactor().map(|redactor| self.pieces.end(redactor)).unwrap_or_default();
        match self.kind.take().filter(|_| !rest.is_empty()) {
            Some(TranscriptKind::Message) => add(entries, Update::Message(rest), at),
            Some(TranscriptKind::Thought) => add(entries, Update::Thought(rest), at),
            _ => {}
        }
    }
}

/// Returns the next update; `None` when the turn is over and all updates that had arrived by then are taken. Updates
/// that the agent sends after that are not waited for.
async fn next(updates: &mut Receiver<Update>, over: &CancellationToken, left: &mut Option<usize>) -> Option<Update> {
    if !over.is_cancelled() {
        tokio::select! {
            biased;
            update = updates.recv() => return update,
            () = over.cancelled() => {}
        }
    }
    let left = left.get_or_insert(updates.len());
    *left = left.checked_sub(1)?;
    updates.try_recv().ok()
}

fn add(entries: &mut Vec<TranscriptEntry>, update: Update, at: Timestamp) {
    add_redacted(entries, update, at, None);
}

/// Adds an update to the entries. Secrets are redacted before long data is cut, because half of a secret would not be
/// recognized.
fn add_redacted(entries: &mut Vec<TranscriptEntry>, update: Update, at: Timestamp, redactor: Option<&Redactor>) {
    if matches!(&update, Update::Message(text) | Update::Thought(text) if text.is_empty()) {
        return;
    }
    let (kind, data) = match update {
        Update::Message(text) => (TranscriptKind::Message, json!({"text": text})),
        Update::Thought(text) => (TranscriptKind::Thought, json!({"text": text})),
        Update::Plan(plan) => (TranscriptKind::Plan, json!({"entries": plan})),
        Update::ToolCall(call) => (TranscriptKind::ToolCall, call),
        Update::Usage(usage) => (TranscriptKind::Usage, usage),
        Update::Permission { title, chosen, kind, granted } => {
            (TranscriptKind::Permission, json!({"title": title, "chosen": chosen, "kind": kind, "granted": granted}))
        }
        Update::Dropped { reason, beginning } => {
            (TranscriptKind::LineDropped, json!({"reason": reason, "beginning": beginning}))
        }
        // Content other than text, and kinds that this version does not know, are not logged.
        Update::Other(_) => return,
    };
    // Agents stream text in pieces. Consecutive pieces of the same kind become one entry.
    if let Some(last) = entries.last_mut()
        && last.kind == kind
        && matches!(kind, TranscriptKind::Message | TranscriptKind::Thought)
        && let (Some(Value::String(text)), Some(more)) = (last.data.get_mut("text"), data["text"].as_str())
    {
        text.push_str(more);
        return;
    }
    let data = match redactor {
        Some(redactor) => redactor.document(data),
        None => data,
    };
    entries.push(TranscriptEntry { kind, data: storable(data), at });
}

/// Returns data that can be stored: with limited size, and without NUL, which PostgreSQL does not store.
fn storable(data: Value) -> Value {
    let text = data.to_string();
    if text.len() > ENTRY_BYTES {
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
