//! Keeps a conversation in the form that every provider accepts.
//!
//! Invariant: a message with tool calls is followed by exactly one message that answers all of them.

use genai::chat::{ChatMessage, ChatRequest, ChatRole, ContentPart, ToolCall, ToolResponse};

use super::answer::Answer;
use crate::store::{Measured, SessionFile};

/// The answer to a call that did not run because the turn was cancelled.
pub(crate) const NOT_RUN: &str = "Error: the call did not run because the turn was cancelled";

/// The answer to a call whose outcome is unknown because the process ended while the call ran.
const INTERRUPTED: &str = "Error: the call was interrupted; its effect is unknown";

/// A tool call with its identifier in ACP.
#[derive(Debug)]
pub(crate) struct NumberedCall {
    /// An identifier that is unique in the session, unlike the identifiers of some providers.
    pub(crate) id: String,
    /// The call.
    pub(crate) call: ToolCall,
}

/// Appends an answer and returns the calls in it. An answer with neither text nor calls is not stored: providers would
/// refuse it as a message.
pub(crate) fn record(file: &mut SessionFile, answer: Answer) -> Vec<NumberedCall> {
    let tokens = answer.context_tokens();
    let content = answer.content;
    let calls: Vec<ToolCall> = content.tool_calls().into_iter().cloned().collect();
    let messages = &mut file.chat_mut().messages;
    if content.contains_text() || !calls.is_empty() {
        messages.push(ChatMessage::assistant(content));
    }
    let messages = messages.len();
    file.measured = tokens.map(|tokens| Measured { tokens, messages });
    calls.into_iter().map(|call| NumberedCall { id: file.next_call_id(), call }).collect()
}

/// Stores the text of a cancelled answer, because the user has seen it.
pub(crate) fn keep_partial(chat: &mut ChatRequest, partial: String) {
    if !partial.trim().is_empty() {
        chat.messages.push(ChatMessage::assistant(partial));
    }
}

/// Answers the calls that a process left unanswered when it ended.
pub(crate) fn repair(chat: &mut ChatRequest) {
    let mut repaired = Vec::with_capacity(chat.messages.len());
    let mut messages = std::mem::take(&mut chat.messages).into_iter().peekable();
    while let Some(message) = messages.next() {
        let calls: Vec<ToolCall> = message.content.tool_calls().into_iter().cloned().collect();
        repaired.push(message);
        if calls.is_empty() {
            continue;
        }
        let answers = messages.next_if(|next| next.role == ChatRole::Tool);
        let mut answers = answers.map_or_else(Vec::new, |answers| answers.content.into_tool_responses());
        for call in calls.iter().skip(answers.len()) {
            answers.push(ToolResponse::from_tool_call(call, INTERRUPTED));
        }
        repaired.push(ChatMessage::from(answers));
    }
    chat.messages = repaired;
}

/// Removes the parts that only the model that wrote them understands: thoughts, their signatures, and custom parts.
pub(crate) fn strip_private_parts(chat: &mut ChatRequest) {
    for message in &mut chat.messages {
        let parts = std::mem::take(&mut message.content).into_parts();
        message.content = parts.into_iter().filter_map(public_part).collect();
    }
    chat.messages.retain(|message| !message.content.is_empty());
}

fn public_part(part: ContentPart) -> Option<ContentPart> {
    match part {
        ContentPart::ThoughtSignature(_) | ContentPart::ReasoningContent(_) | ContentPart::Custom(_) => None,
        ContentPart::ToolCall(mut call) => {
            call.thought_signatures = None;
            Some(ContentPart::ToolCall(call))
        }
        ContentPart::Text(_) | ContentPart::Binary(_) | ContentPart::ToolResponse(_) => Some(part),
    }
}

#[cfg(test)]
mod tests {
    use genai::chat::{MessageContent, StreamEnd, Usage};
    use journeyman_core::model::Dialect;
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            call_id: id.to_owned(),
            fn_name: "f".to_owned(),
            fn_arguments: json!({}),
            thought_signatures: Some(vec!["s".to_owned()]),
        }
    }

    fn answer(parts: Vec<ContentPart>, tokens: Option<i32>) -> Answer {
        let end = StreamEnd {
            captured_content: Some(MessageContent::from_parts(parts)),
            captured_usage: tokens.map(|tokens| Usage {
                prompt_tokens: Some(tokens),
                completion_tokens: Some(1),
                ..Usage::default()
            }),
            ..StreamEnd::default()
        };
        Answer::from_stream_end(end, Dialect::OpenAi).unwrap()
    }

    #[test]
    fn answers_are_recorded_with_numbered_calls_and_their_size() {
        let mut file = SessionFile::new("openai/m");
        file.chat_mut().messages.push(ChatMessage::user("do"));
        let parts = vec![ContentPart::ToolCall(call("x")), ContentPart::ToolCall(call("x"))];
        let calls = record(&mut file, answer(parts, Some(9)));
        let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call-1", "call-2"]);
        assert_eq!(file.measured, Some(Measured { tokens: 10, messages: 2 }));
    }

    #[test]
    fn an_answer_with_only_thoughts_is_not_stored() {
        let mut file = SessionFile::new("openai/m");
        let thought = vec![ContentPart::ReasoningContent("hm".to_owned())];
        assert!(record(&mut file, answer(thought, None)).is_empty());
        assert!(file.chat_mut().messages.is_empty());
        assert_eq!(file.measured, None);
    }

    #[test]
    fn unanswered_calls_are_answered() {
        let calls = || ChatMessage::from(vec![call("1"), call("2")]);
        let answered = |ids: &[&str]| -> ChatMessage {
            ChatMessage::from(ids.iter().map(|id| ToolResponse::new(*id, "ok")).collect::<Vec<_>>())
        };
        for (messages, expected_answers) in [
            (vec![calls()], [INTERRUPTED, INTERRUPTED]),
            (vec![calls(), ChatMessage::user("go on")], [INTERRUPTED, INTERRUPTED]),
            (vec![calls(), answered(&["1"])], ["ok", INTERRUPTED]),
            (vec![calls(), answered(&["1", "2"])], ["ok", "ok"]),
        ] {
            let mut chat = ChatRequest::new(messages);
            repair(&mut chat);
            let answers = chat.messages[1].content.tool_responses();
            let answers: Vec<_> = answers.into_iter().map(|answer| answer.content.as_str()).collect();
            assert_eq!(answers, expected_answers);
            assert_eq!(chat.messages[1].role, ChatRole::Tool);
        }
    }

    #[test]
    fn private_parts_are_removed_and_empty_messages_with_them() {
        let parts = vec![
            ContentPart::ThoughtSignature("s".to_owned()),
            ContentPart::ReasoningContent("hm".to_owned()),
            ContentPart::Text("text".to_owned()),
            ContentPart::ToolCall(call("1")),
        ];
        let thought = vec![ContentPart::ReasoningContent("hm".to_owned())];
        let mut chat = ChatRequest::new(vec![ChatMessage::assistant(parts), ChatMessage::assistant(thought)]);
        strip_private_parts(&mut chat);
        assert_eq!(chat.messages.len(), 1);
        let content = &chat.messages[0].content;
        assert_eq!(content.len(), 2);
        assert!(content.tool_calls()[0].thought_signatures.is_none());
    }
}
