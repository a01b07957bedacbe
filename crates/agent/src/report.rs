//! What the client is told, in the terms of ACP.
//!
//! Invariant: reporting never fails a turn. A notification that cannot be sent means that the connection is going
//! away, and then the turn is dropped anyway.

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

/// Speaks to the client about one session.
#[derive(Clone)]
pub(crate) struct Reporter {
    connection: ConnectionTo<Client>,
    session_id: SessionId,
}

impl Reporter {
    /// A reporter for the session on its connection.
    pub(crate) fn new(connection: ConnectionTo<Client>, session_id: SessionId) -> Self {
        Self { connection, session_id }
    }

    /// Sends an update as it is.
    pub(crate) fn send(&self, update: SessionUpdate) {
        let notification = SessionNotification::new(self.session_id.clone(), update);
        if let Err(error) = self.connection.send_notification(notification) {
            tracing::debug!(code = ?error.code, "an update could not be sent");
        }
    }

    /// A piece of what the agent says.
    pub(crate) fn message(&self, text: &str) {
        self.send(SessionUpdate::AgentMessageChunk(chunk(text)));
    }

    /// A piece of what the agent thinks.
    pub(crate) fn thought(&self, text: &str) {
        self.send(SessionUpdate::AgentThoughtChunk(chunk(text)));
    }

    /// The plan, which replaces the one before.
    pub(crate) fn plan(&self, entries: &[PlanEntry]) {
        self.send(SessionUpdate::Plan(Plan::new(entries.to_vec())));
    }

    /// A tool call begins.
    pub(crate) fn call_started(&self, id: &str, name: &str, announcement: &Announcement, raw_input: Value) {
        let call = tool_call(id, name, announcement, raw_input).status(ToolCallStatus::InProgress);
        self.send(SessionUpdate::ToolCall(call));
    }

    /// A tool call is over.
    pub(crate) fn call_finished(&self, id: &str, output: &ToolOutput) {
        let content = match &output.diff {
            Some(diff) => vec![diff_content(diff)],
            None => vec![text_content(&output.text)],
        };
        let fields = ToolCallUpdateFields::new().status(status(output.failed)).content(content);
        self.send(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields)));
    }

    /// Asks the user for a permission and waits for the answer. Must not be awaited in the dispatch loop. An error
    /// and an unknown answer are refusals.
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
                tracing::debug!(code = ?error.code, "the question for a permission was not answered");
                false
            }
        }
    }
}

/// A piece of text as it is in message and thought updates.
pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

/// A tool call with what is known before it runs.
pub(crate) fn tool_call(id: &str, name: &str, announcement: &Announcement, raw_input: Value) -> ToolCall {
    let id: Arc<str> = Arc::from(id);
    ToolCall::new(id, announcement.title.clone())
        .name(name)
        .kind(announcement.kind)
        .locations(announcement.locations.clone())
        .raw_input(raw_input)
}

/// The text of a tool call's result.
pub(crate) fn text_content(text: &str) -> ToolCallContent {
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// The status of a tool call that is over.
pub(crate) fn status(failed: bool) -> ToolCallStatus {
    if failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed }
}

fn diff_content(diff: &FileDiff) -> ToolCallContent {
    ToolCallContent::Diff(Diff::new(diff.path.clone(), diff.new_text.clone()).old_text(diff.old_text.clone()))
}
