//! The types of the protocol, in their JSON form: names in camelCase, enumerations by the names of their values
//! (specification 1.0, section 5.5). Requests have only the fields that the server reads.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SendMessageRequest {
    pub(super) tenant: Option<String>,
    pub(super) message: IncomingMessage,
    pub(super) configuration: Option<Configuration>,
    pub(super) metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Configuration {
    pub(super) accepted_output_modes: Option<Vec<String>>,
    pub(super) task_push_notification_config: Option<Value>,
    pub(super) history_length: Option<u32>,
    pub(super) return_immediately: Option<bool>,
}

/// A message of a client.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncomingMessage {
    pub(super) message_id: String,
    pub(super) context_id: Option<String>,
    pub(super) task_id: Option<String>,
    pub(super) role: String,
    pub(super) parts: Vec<IncomingPart>,
    pub(super) metadata: Option<Map<String, Value>>,
}

/// A part of a message of a client. It has one of the contents.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncomingPart {
    pub(super) text: Option<String>,
    pub(super) raw: Option<Value>,
    pub(super) url: Option<Value>,
    pub(super) data: Option<Value>,
    pub(super) media_type: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GetTaskRequest {
    pub(super) tenant: Option<String>,
    pub(super) id: String,
    pub(super) history_length: Option<u32>,
}

/// A request about a task: to cancel it, or to subscribe to it.
#[derive(Debug, Deserialize)]
pub(super) struct TaskRequest {
    pub(super) tenant: Option<String>,
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListTasksRequest {
    pub(super) tenant: Option<String>,
    pub(super) context_id: Option<String>,
    pub(super) status: Option<String>,
    pub(super) page_size: Option<usize>,
    pub(super) page_token: Option<String>,
    pub(super) history_length: Option<u32>,
    pub(super) status_timestamp_after: Option<String>,
    pub(super) include_artifacts: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListTasksResponse {
    pub(super) tasks: Vec<Task>,
    pub(super) next_page_token: String,
    pub(super) page_size: usize,
    pub(super) total_size: u64,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum TaskState {
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) context_id: String,
    pub(super) status: TaskStatus,
    /// The artifacts; left out if the client did not ask for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifacts: Option<Vec<Artifact>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) history: Vec<Message>,
    pub(super) metadata: Value,
}

#[derive(Debug, Serialize)]
pub(super) struct TaskStatus {
    pub(super) state: TaskState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Message>,
    pub(super) timestamp: String,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Role {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub(super) message_id: String,
    pub(super) context_id: String,
    pub(super) task_id: String,
    pub(super) role: Role,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact {
    pub(super) artifact_id: String,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) parts: Vec<Part>,
}

/// A part of a message or an artifact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    #[serde(flatten)]
    pub(super) content: Content,
    pub(super) media_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Value>,
}

/// The content of a part.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Content {
    Text(String),
    Data(Value),
}

/// An event of a stream, or the answer to a message.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StreamResponse {
    Task(Task),
    StatusUpdate(StatusUpdate),
    ArtifactUpdate(ArtifactUpdate),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusUpdate {
    pub(super) task_id: String,
    pub(super) context_id: String,
    pub(super) status: TaskStatus,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactUpdate {
    pub(super) task_id: String,
    pub(super) context_id: String,
    pub(super) artifact: Artifact,
    pub(super) append: bool,
    pub(super) last_chunk: bool,
}

/// Returns a text that is given. An empty text is the default value of the protocol, and means none.
pub(super) fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn enumerations_and_contents_have_the_names_of_the_protocol() {
        assert_eq!(serde_json::to_value(TaskState::Canceled).unwrap(), json!("TASK_STATE_CANCELED"));
        assert_eq!(serde_json::to_value(Role::Agent).unwrap(), json!("ROLE_AGENT"));
        let part = Part { content: Content::Data(json!({ "a": 1 })), media_type: "application/json", metadata: None };
        let expected = json!({ "data": { "a": 1 }, "mediaType": "application/json" });
        assert_eq!(serde_json::to_value(part).unwrap(), expected);
    }

    #[test]
    fn null_and_missing_fields_of_requests_are_the_same() {
        let text = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","data":null}],"taskId":null},
                       "configuration":null,"tenant":null,"later":1}"#;
        let request: SendMessageRequest = serde_json::from_str(text).unwrap();
        assert!(request.configuration.is_none() && request.message.parts[0].data.is_none());
        assert_eq!((given(Some(String::new())), given(Some("x".to_owned()))), (None, Some("x".to_owned())));
    }
}
