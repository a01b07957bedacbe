//! Converts a stored conversation to session updates, for `session/load`.
//!
//! Invariant: a replayed tool call has the same identifier as the first time, and never that of a later call.
//! Diffs and plans are not stored, so they are not replayed.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{SessionUpdate, ToolCall as ReportedCall};
use genai::chat::{ChatMessage, ChatRole, ContentPart, ToolCall};

use crate::llm;
use crate::report::{chunk, status, text_content, tool_call};
use crate::store::{SessionFile, Speaker, call_id};
use crate::tools::{Announcement, ToolOutput, ToolRequest};
use crate::workspace::Workspace;

/// Returns all updates of the conversation, oldest first.
pub(crate) fn updates(file: &SessionFile, workspace: &Workspace) -> Vec<SessionUpdate> {
    let lines = file.lines.iter().map(|line| match line.role {
        Speaker::User => SessionUpdate::UserMessageChunk(chunk(&line.text)),
        Speaker::Agent => SessionUpdate::AgentMessageChunk(chunk(&line.text)),
    });
    let mut updates: Vec<SessionUpdate> = lines.collect();
    if let Some(chat) = &file.chat {
        let mut chat_replay = ChatReplay::new(&chat.messages, file.calls, workspace);
        for message in &chat.messages {
            chat_replay.message(message, &mut updates);
        }
    }
    updates
}

struct ChatReplay<'a> {
    workspace: &'a Workspace,
    /// The answers of tools by the provider's call identifier, the oldest last. A provider may reuse an identifier.
    answers: HashMap<&'a str, Vec<&'a str>>,
    /// The number of the next call.
    next_call: u64,
}

impl<'a> ChatReplay<'a> {
    fn new(messages: &'a [ChatMessage], calls_so_far: u64, workspace: &'a Workspace) -> Self {
        let mut answers: HashMap<&str, Vec<&str>> = HashMap::new();
        let mut calls = 0_u64;
        for part in messages.iter().rev().flat_map(|message| message.content.parts().iter().rev()) {
            match part {
                ContentPart::ToolResponse(answer) => {
                    answers.entry(&answer.call_id).or_default().push(&answer.content);
                }
                ContentPart::ToolCall(_) => calls += 1,
                _ => {}
            }
        }
        // Summaries replace the first calls, so the numbers are counted from the end.
        Self { workspace, answers, next_call: calls_so_far.saturating_sub(calls) + 1 }
    }

    fn message(&mut self, message: &ChatMessage, updates: &mut Vec<SessionUpdate>) {
        for part in message.content.parts() {
            match (&message.role, part) {
                (ChatRole::User, ContentPart::Text(text)) if llm::is_summary(text) => {
                    updates.push(SessionUpdate::AgentThoughtChunk(chunk(text)));
                }
                (ChatRole::User, ContentPart::Text(text)) => {
                    updates.push(SessionUpdate::UserMessageChunk(chunk(text)));
                }
                (ChatRole::Assistant, ContentPart::Text(text)) => {
                    updates.push(SessionUpdate::AgentMessageChunk(chunk(text)));
                }
                (ChatRole::Assistant, ContentPart::ReasoningContent(text)) => {
                    updates.push(SessionUpdate::AgentThoughtChunk(chunk(text)));
                }
                (ChatRole::Assistant, ContentPart::ToolCall(call)) => {
                    updates.push(SessionUpdate::ToolCall(self.call(call)));
                }
                _ => {}
            }
        }
    }

    fn call(&mut self, call: &ToolCall) -> ReportedCall {
        let id = call_id(self.next_call);
        self.next_call += 1;
        let announcement = ToolRequest::parse(&call.fn_name, &call.fn_arguments)
            .map_or_else(|_| Announcement::unknown(&call.fn_name), |request| request.announcement(self.workspace));
        let reported = tool_call(&id, &call.fn_name, &announcement, call.fn_arguments.clone());
        match self.answers.get_mut(call.call_id.as_str()).and_then(Vec::pop) {
            Some(answer) => {
                reported.status(status(ToolOutput::is_failure_text(answer))).content(vec![text_content(answer)])
            }
            None => reported.status(status(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::ToolCallStatus;
    use genai::chat::ToolResponse;
    use serde_json::json;

    use super::*;

    fn read(id: &str) -> ToolCall {
        ToolCall {
            call_id: id.to_owned(),
            fn_name: "read_file".to_owned(),
            fn_arguments: json!({"path": "a"}),
            thought_signatures: None,
        }
    }

    #[test]
    fn calls_get_their_old_numbers_and_their_own_answers() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let mut file = SessionFile::new("openai/m");
        file.calls = 7;
        let messages = &mut file.chat_mut().messages;
        messages.push(ChatMessage::user("go"));
        for text in ["first", "Error: second"] {
            // The same identifier twice, as some servers give it.
            messages.push(ChatMessage::from(vec![read("call_0")]));
            messages.push(ChatMessage::from(vec![ToolResponse::new("call_0", text)]));
        }

        let calls: Vec<_> = updates(&file, &workspace)
            .into_iter()
            .filter_map(|update| match update {
                SessionUpdate::ToolCall(call) => Some((call.tool_call_id.to_string(), call.status, call.content)),
                _ => None,
            })
            .collect();

        assert_eq!(
            calls,
            [
                ("call-6".to_owned(), ToolCallStatus::Completed, vec![text_content("first")]),
                ("call-7".to_owned(), ToolCallStatus::Failed, vec![text_content("Error: second")]),
            ]
        );
    }

    #[test]
    fn lines_of_the_scripted_model_are_messages() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let mut file = SessionFile::new("test/scripted");
        file.push_line(Speaker::User, "hello");
        file.push_line(Speaker::Agent, "done");
        assert_eq!(
            updates(&file, &workspace),
            [SessionUpdate::UserMessageChunk(chunk("hello")), SessionUpdate::AgentMessageChunk(chunk("done")),]
        );
    }
}
