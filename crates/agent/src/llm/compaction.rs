//! Makes a conversation fit the model's window by replacing its older part with a summary.
//!
//! Invariants: a tool call is never separated from its answer, because the cut is before a message of the user; the
//! system prompt does not change; after a compaction, the conversation ends as it did before, or with a request of the
//! user to continue.

use genai::chat::{ChatMessage, ChatRequest, ChatRole, ContentPart};

use super::caller::{Caller, Reply};
use super::usage::Tokens;
use crate::store::SessionFile;
use crate::text;
use crate::tools;
use crate::turn::Turn;

/// The share of the window, in percent, above which the conversation is compacted before a call.
const LIMIT_PERCENT: u64 = 80;

/// The largest share of the window, in percent, that the remaining messages may take.
const KEEP_PERCENT: u64 = 30;

/// The largest share of the window, in percent, that the text to summarize may take.
const SUMMARIZE_PERCENT: u64 = 60;

/// The approximate number of bytes in a token, for all languages and models: precise enough to decide when to compact.
const BYTES_PER_TOKEN: u64 = 4;

/// The maximum number of bytes of a single tool call's input or output that go into the summary.
const MAX_SUMMARIZED_TOOL_BYTES: usize = 2_000;

/// The maximum number of bytes of the user's last request that are repeated verbatim.
const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// The heading of a message with a summary; [`is_summary`] recognizes summaries in stored conversations by it.
const SUMMARY_HEADING: &str = "Summary of the work so far, because the conversation became too long:\n\n";

const ACKNOWLEDGEMENT: &str = "I go on from this summary.";

/// The text that replaces a dropped tool output.
const DROPPED: &str = "[This output was dropped because the conversation became too long.]";

const INSTRUCTIONS: &str = "\
You are given the log of a coding agent's work. Write the summary with which the agent will go on without the log. \
Keep: what the user asked for, word for word where it matters; decisions and their reasons; which files were read and \
changed, and how; commands, results and errors that still matter; what is done and what is left. Leave out what is \
obsolete. Write nothing but the summary.";

/// Returns whether a message of the user is a summary.
pub(crate) fn is_summary(text: &str) -> bool {
    text.starts_with(SUMMARY_HEADING)
}

/// Decides when the conversations with one model need compaction, and compacts them.
pub(crate) struct Compactor {
    /// The size of the model's window in tokens.
    window: u64,
}

impl Compactor {
    /// Creates a compactor for a model with a window of `window` tokens.
    pub(crate) fn new(window: u64) -> Self {
        Self { window }
    }

    /// Returns whether the conversation must be compacted before the next call.
    pub(crate) fn is_due(&self, file: &SessionFile) -> bool {
        estimate(file) > self.percent(LIMIT_PERCENT)
    }

    /// Compacts the conversation. If the model returns no summary, the oldest tool outputs are dropped instead; if the
    /// turn is cancelled, nothing changes.
    pub(crate) async fn compact(&self, caller: &Caller, turn: &Turn<'_>, file: &mut SessionFile, tokens: &mut Tokens) {
        let chat = file.chat_mut();
        let cut = cut(&chat.messages, self.percent(KEEP_PERCENT));
        let older = chat.messages.get(..cut).unwrap_or_default();
        let log = log(older, bytes(self.percent(SUMMARIZE_PERCENT)));
        let request = ChatRequest::from_system(INSTRUCTIONS).append_message(ChatMessage::user(log));
        let summary = match caller.call(request, None, turn.cancel).await {
            Ok(Reply::Cancelled { .. }) => return,
            Ok(Reply::Answer(answer)) => {
                tokens.add(answer.usage.as_ref());
                Some(answer.text()).filter(|summary| !summary.trim().is_empty())
            }
            Err(failure) => {
                tracing::warn!(reason = %failure.text, "summarizing the conversation failed; dropping old outputs");
                None
            }
        };
        match summary {
            Some(summary) => {
                replace(&mut chat.messages, cut, &summary);
                turn.reporter.thought("The conversation became long and was summarized.\n");
            }
            None => {
                drop_outputs(&mut chat.messages, bytes(self.percent(SUMMARIZE_PERCENT)));
                turn.reporter.thought("The conversation became long; old tool outputs were dropped.\n");
            }
        }
        file.measured = None;
    }

    fn percent(&self, percent: u64) -> u64 {
        self.window / 100 * percent
    }
}

/// Estimates the size of the conversation in tokens: the provider's measurement where there is one, and the size in
/// bytes for the rest.
fn estimate(file: &SessionFile) -> u64 {
    let Some(chat) = &file.chat else {
        return 0;
    };
    let measured = file.measured.and_then(|measured| Some((measured.tokens, chat.messages.get(measured.messages..)?)));
    match measured {
        Some((tokens, newer)) => tokens + size(newer) / BYTES_PER_TOKEN,
        None => {
            let system = chat.system.as_ref().map_or(0, String::len) as u64;
            let tools: usize = tools::definitions().iter().map(|tool| tool.size()).sum();
            (system + tools as u64 + size(&chat.messages)) / BYTES_PER_TOKEN
        }
    }
}

fn size(messages: &[ChatMessage]) -> u64 {
    messages.iter().map(ChatMessage::size).sum::<usize>() as u64
}

fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}

/// Returns the index of the first message that stays: the earliest message of the user (but not the first message) from
/// which the messages take at most `keep` tokens. If there is none, as in a single long turn, no message stays.
fn cut(messages: &[ChatMessage], keep: u64) -> usize {
    (1..messages.len())
        .filter(|&index| messages.get(index).is_some_and(|message| message.role == ChatRole::User))
        .find(|&index| size(messages.get(index..).unwrap_or_default()) / BYTES_PER_TOKEN <= keep)
        .unwrap_or(messages.len())
}

/// Replaces the messages before `cut` with the summary.
fn replace(messages: &mut Vec<ChatMessage>, cut: usize, summary: &str) {
    let remaining = messages.split_off(cut.min(messages.len()));
    let mut text = format!("{SUMMARY_HEADING}{summary}");
    if remaining.is_empty() {
        if let Some(request) = last_request(messages) {
            text.push_str("\n\nThe last request of the user, word for word:\n\n");
            text.push_str(&text::keep_ends(request, MAX_REQUEST_BYTES));
        }
        text.push_str("\n\nGo on with the work.");
        *messages = vec![ChatMessage::user(text)];
        return;
    }
    *messages = vec![ChatMessage::user(text), ChatMessage::assistant(ACKNOWLEDGEMENT)];
    messages.extend(remaining);
}

fn last_request(messages: &[ChatMessage]) -> Option<&str> {
    messages
        .iter()
        .rev()
        .filter(|message| message.role == ChatRole::User)
        .filter_map(|message| message.content.first_text())
        .find(|text| !is_summary(text))
}

/// Drops tool outputs, the oldest first, until the messages have at most `target` bytes. The last message stays: the
/// model has not seen it yet.
fn drop_outputs(messages: &mut [ChatMessage], target: usize) {
    let mut excess = messages.iter().map(ChatMessage::size).sum::<usize>().saturating_sub(target);
    let last = messages.len().saturating_sub(1);
    for message in messages.iter_mut().take(last) {
        for part in message.content.iter_mut() {
            if let ContentPart::ToolResponse(answer) = part
                && excess > 0
                && answer.content.len() > DROPPED.len()
            {
                excess = excess.saturating_sub(answer.content.len() - DROPPED.len());
                answer.content = DROPPED.to_owned();
            }
        }
    }
}

/// Renders the messages as one text of approximately `max_bytes` or less.
fn log(messages: &[ChatMessage], max_bytes: usize) -> String {
    let mut log = String::new();
    for message in messages {
        for part in message.content.parts() {
            let entry = match (&message.role, part) {
                (ChatRole::User, ContentPart::Text(text)) => format!("## User\n{text}"),
                (_, ContentPart::Text(text)) => format!("## Agent\n{text}"),
                (_, ContentPart::ToolCall(call)) => format!(
                    "## Agent calls {}\n{}",
                    call.fn_name,
                    text::keep_ends(&call.fn_arguments.to_string(), MAX_SUMMARIZED_TOOL_BYTES)
                ),
                (_, ContentPart::ToolResponse(answer)) => {
                    format!("## Result\n{}", text::keep_ends(&answer.content, MAX_SUMMARIZED_TOOL_BYTES))
                }
                _ => continue,
            };
            log.push_str(&entry);
            log.push_str("\n\n");
        }
    }
    text::keep_ends(&log, max_bytes)
}

#[cfg(test)]
mod tests;
