//! Builds the request from the conversation: adds the tools, and adapts the messages to the dialect.
//!
//! Invariant: the stored conversation is not changed.

use genai::chat::{CacheControl, ChatMessage, ChatRequest, ChatRole};
use journeyman_core::model::Dialect;

use crate::tools;

/// The number of messages that are marked for Anthropic's cache: the newest, which the next call will read, and the one
/// before it, which the previous call has written.
const CACHE_MARKS: usize = 2;

/// Returns the request for the next answer.
pub(crate) fn with_tools(dialect: Dialect, chat: &ChatRequest) -> ChatRequest {
    let mut request = chat.clone().with_tools(tools::definitions());
    match dialect {
        Dialect::Anthropic => mark_for_cache(&mut request.messages),
        Dialect::Ollama => request.messages = one_answer_per_message(request.messages),
        Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::Gemini | Dialect::Compatible => {}
    }
    request
}

fn mark_for_cache(messages: &mut [ChatMessage]) {
    messages
        .iter_mut()
        .rev()
        .filter(|message| matches!(message.role, ChatRole::User | ChatRole::Tool))
        .take(CACHE_MARKS)
        .for_each(|message| message.options = Some(CacheControl::Ephemeral.into()));
}

/// Splits messages with several answers: the adapter for Ollama sends only the last answer of a message.
fn one_answer_per_message(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut split = Vec::with_capacity(messages.len());
    for message in messages {
        if message.role == ChatRole::Tool {
            split.extend(message.content.into_tool_responses().into_iter().map(ChatMessage::from));
        } else {
            split.push(message);
        }
    }
    split
}

#[cfg(test)]
mod tests {
    use genai::chat::ToolResponse;

    use super::*;

    fn chat() -> ChatRequest {
        let answers = vec![ToolResponse::new("1", "a"), ToolResponse::new("2", "b")];
        ChatRequest::new(vec![ChatMessage::user("do"), ChatMessage::assistant("calls"), ChatMessage::from(answers)])
    }

    #[test]
    fn the_newest_messages_are_marked_for_anthropic_only() {
        let marked = |dialect| -> Vec<bool> {
            with_tools(dialect, &chat()).messages.iter().map(|message| message.options.is_some()).collect()
        };
        assert_eq!(marked(Dialect::Anthropic), [true, false, true]);
        assert_eq!(marked(Dialect::OpenAi), [false, false, false]);
    }

    #[test]
    fn answers_are_split_for_ollama_only() {
        assert_eq!(with_tools(Dialect::Ollama, &chat()).messages.len(), 4);
        assert_eq!(with_tools(Dialect::Gemini, &chat()).messages.len(), 3);
    }

    #[test]
    fn the_tools_are_sent_but_not_stored() {
        let chat = chat();
        assert!(with_tools(Dialect::OpenAi, &chat).tools.is_some_and(|tools| !tools.is_empty()));
        assert!(chat.tools.is_none());
    }
}
