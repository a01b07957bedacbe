//! The wire format of the events of a project.

use std::borrow::Cow;

use journeyman_core::feed::{FeedEntry, FeedKind};
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::job::JobRecord;
use super::run::Reason;

/// An event of a project, for integrations. Webhooks have the same body without the ID.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProjectEvent {
    /// The position in the feed. Later events have larger numbers. It is also a cursor, until the server is restored.
    #[schema(example = "4711")]
    pub(crate) id: String,
    #[serde(rename = "type")]
    #[schema(value_type = FeedEventType)]
    pub(crate) kind: String,
    /// The time of the event.
    #[schema(format = DateTime)]
    timestamp: String,
    #[schema(value_type = ProjectEventData)]
    data: Value,
}

/// The type of an event of a project, for the document.
pub(crate) struct FeedEventType;

impl ToSchema for FeedEventType {
    fn name() -> Cow<'static, str> {
        "ProjectEventType".into()
    }
}

impl PartialSchema for FeedEventType {
    fn schema() -> RefOr<Schema> {
        let meanings = FeedKind::ALL.iter().map(|kind| format!("- `{}`: {}", kind.name(), kind.meaning()));
        let meanings: Vec<String> = meanings.collect();
        let text = "The type of an event. New types may be added; ignore types that you do not know.";
        let names = FeedKind::ALL.iter().map(|kind| kind.name());
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(format!("{text}\n\n{}", meanings.join("\n"))))
            .enum_values(Some(names))
            .examples([FeedKind::MessageFinished.name()])
            .into()
    }
}

impl From<FeedEntry> for ProjectEvent {
    fn from(entry: FeedEntry) -> Self {
        Self { id: entry.position.to_string(), kind: entry.kind, timestamp: entry.at.to_string(), data: entry.data }
    }
}

/// The body of a request to the endpoint of a webhook with the format `standard`.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its schema is used: crates/webhooks writes the body")]
pub(crate) struct WebhookBody {
    #[schema(value_type = FeedEventType, rename = "type")]
    kind: String,
    /// The time of the event.
    #[schema(format = DateTime)]
    timestamp: String,
    data: ProjectEventData,
}

/// The data of an event: IDs, and the job's record after the change. Ask the interface for more.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProjectEventData {
    /// The job after the change.
    job: JobRecord,
    /// The project of the job.
    project_id: String,
    /// The title of the job.
    title: String,
    /// The message, in `message.finished`, `message.failed`, `budget.reached`, and `pull_request.opened` and `.updated`.
    #[schema(required)]
    message_id: Option<String>,
    /// The run, in the same events.
    #[schema(required)]
    run_id: Option<String>,
    /// The pull request, in events of pull requests.
    #[schema(required)]
    pull_request: Option<EventPullRequest>,
    /// The reason, in `job.failed`, `message.failed` and `budget.reached`.
    #[schema(required)]
    reason: Option<Reason>,
}

/// The pull request of an event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventPullRequest {
    number: u64,
    /// The page; `null` if it is a pull request of an earlier branch of the job.
    #[schema(required)]
    url: Option<String>,
}

/// A page of the events of a project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProjectEventPage {
    /// The events, oldest first.
    pub(crate) events: Vec<ProjectEvent>,
    /// The value of `cursor` for the next page, also if there are no more events yet.
    pub(crate) next_cursor: String,
    /// `true` if there are more events already.
    pub(crate) has_more: bool,
}
