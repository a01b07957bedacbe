//! Reports the progress of a turn to the client, in the types of ACP.
//!
//! Invariant: reporting never fails a turn. If a notification cannot be sent, the connection is closing, and the turn
//! is dropped anyway.

use std::sync::Arc;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    Content, ContentBlock, ContentChunk, Diff, PermissionOption, PermissionOptionKind, Plan, PlanEntry,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, SessionNotification, SessionUpdate, TextContent,
    ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use crate::tools::{Announcement, FileDiff, ToolOutput};

/// The option that grants a permission.
const ALLOW: &str = "allow_once";

/// The option that refuses a permission.
const REJECT: &str = "reject_once";

/// Sends updates of one session to the client.
#[derive(Clone)]
pub(crate) struct Reporter {
    connection: ConnectionTo<Client>,
    session_id: SessionId,
}

impl Reporter {
    /// Creates a reporter for the session on its connection.
    pub(crate) fn new(connection: ConnectionTo<Client>, session_id: SessionId) -> Self {
        Self { connection, session_id }
    }

    /// Sends an update unchanged.
    pub(crate) fn send(&self, update: SessionUpdate) {
        let notification = SessionNotification::new(self.session_id.clone(), update);
        if let Err(error) = self.connection.send_notification(notification) {
            tracing::debug!(code = ?error.code, "an update could not be sent");
        }
    }

    /// Sends a part of the agent's message.
    pub(crate) fn message(&self, text: &str) {
        self.send(SessionUpdate::AgentMessageChunk(chunk(text)));
    }

    /// Sends a part of the agent's thoughts.
    pub(crate) fn thought(&self, text: &str) {
        self.send(SessionUpdate::AgentThoughtChunk(chunk(text)));
    }

    /// Sends the plan, which replaces the previous one.
    pub(crate) fn plan(&self, entries: &[PlanEntry]) {
        self.send(SessionUpdate::Plan(Plan::new(entries.to_vec())));
    }

    /// Reports the start of a tool call.
    pub(crate) fn call_started(&self, id: &str, name: &str, announcement: &Announcement, raw_input: Value) {
        let call = tool_call(id, name, announcement, raw_input).status(ToolCallStatus::InProgress);
        self.send(SessionUpdate::ToolCall(call));
    }

    /// Reports the end of a tool call.
    pub(crate) fn call_finished(&self, id: &str, output: &ToolOutput) {
        let content = match &output.diff {
            Some(diff) => vec![diff_content(diff)],
            None => vec![text_content(&output.text)],
        };
        let fields = ToolCallUpdateFields::new().status(status(output.failed)).content(content);
        self.send(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields)));
    }

    /// Asks the user for permission and waits for the answer. Must not be awaited in the dispatch loop. An error or an
    /// unknown answer counts as a refusal.
    pub(crate) async fn ask(&self, id: &str, question: &str, kind: ToolKind) -> bool {
        let fields = ToolCallUpdateFields::new().title(question).kind(kind).status(ToolCallStatus::Pending);
        let request = RequestPermissionRequest::new(
            self.session_id.clone(),
            ToolCallUpdate::new(id.to_owned(), fields),
            vec![
                PermissionOption::new(ALLOW, "Allow once", PermissionOptionKind::AllowOnce),
                PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
            ],
        );
        match self.connection.send_request(request).block_task().await {
            Ok(response) => match response.outcome {
                RequestPermissionOutcome::Selected(selected) => &*selected.option_id.0 == ALLOW,
                _ => false,
            },
            Err(error) => {
                tracing::debug!(code = ?error.code, "the permission request was not answered");
                false
            }
        }
    }
}

/// Converts text to the content of a message or thought update.
pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

/// Converts an announcement to the report of a tool call.
pub(crate) fn tool_call(id: &str, name: &str, announcement: &Announcement, raw_input: Value) -> ToolCall {
    let id: Arc<str> = Arc::from(id);
    ToolCall::new(id, announcement.title.clone())
        .name(name)
        .kind(announcement.kind)
        .locations(announcement.locations.clone())
        .raw_input(raw_input)
}

/// Converts the text of a tool call's result to content.
pub(crate) fn text_content(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// Returns the status of a finished tool call.
pub(crate) fn status(failed: bool) -> ToolCallStatus {
    if failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed }
}

fn diff_content(diff: &FileDiff) -> ToolCallContent {
    ToolCallContent::Diff(Diff::new(diff.path.clone(), diff.new_text.clone()).old_text(diff.old_text.clone()))
}
