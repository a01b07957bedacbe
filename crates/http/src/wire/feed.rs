//! The wire format of the events of a project.

use journeyman_core::feed::{FeedEntry, FeedKind};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::job::JobRecord;
use super::run::Reason;

/// An event of a project, for integrations. Webhooks have the same body without the ID.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProjectEvent {
    /// The position in the feed, which is also a cursor. Later events have larger numbers.
    #[schema(example = "4711")]
    pub(crate) id: String,
    /// The type of the event. New types may be added; ignore types that you do not know.
    #[serde(rename = "type")]
    #[schema(schema_with = kind)]
    pub(crate) kind: String,
    /// The time of the event.
    #[schema(format = DateTime)]
    timestamp: String,
    #[schema(value_type = ProjectEventData)]
    data: Value,
}

fn kind() -> Object {
    let description = "The type of the event. New types may be added; ignore types that you do not know.";
    let example = FeedKind::MessageFinished.name();
    ObjectBuilder::new().schema_type(Type::String).description(Some(description)).examples([example]).into()
}

impl From<FeedEntry> for ProjectEvent {
    fn from(entry: FeedEntry) -> Self {
        Self { id: entry.position.to_string(), kind: entry.kind, timestamp: entry.at.to_string(), data: entry.data }
    }
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
    /// The message, if the event belongs to one.
    #[schema(required)]
    message_id: Option<String>,
    /// The run, if the event belongs to one.
    #[schema(required)]
    run_id: Option<String>,
    /// The pull request, if the event is about one.
    #[schema(required)]
    pull_request: Option<EventPullRequest>,
    /// The reason for a failure.
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
