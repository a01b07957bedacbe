//! The wire format of the inbox.

use journeyman_core::hook::HookEvent;
use journeyman_core::inbox::{self, Outcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of an event in the inbox.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InboxState {
    /// The event was not read yet.
    Received,
    /// The event waits for others of the same job, to become one message with them.
    Waiting,
    /// The event led to something.
    Done,
    /// The event led to nothing.
    Ignored,
    /// The event could not be carried out.
    Failed,
}

impl From<inbox::InboxState> for InboxState {
    fn from(state: inbox::InboxState) -> Self {
        match state {
            inbox::InboxState::Received => Self::Received,
            inbox::InboxState::Waiting => Self::Waiting,
            inbox::InboxState::Done => Self::Done,
            inbox::InboxState::Ignored => Self::Ignored,
            inbox::InboxState::Failed => Self::Failed,
        }
    }
}

impl From<InboxState> for inbox::InboxState {
    fn from(state: InboxState) -> Self {
        match state {
            InboxState::Received => Self::Received,
            InboxState::Waiting => Self::Waiting,
            InboxState::Done => Self::Done,
            InboxState::Ignored => Self::Ignored,
            InboxState::Failed => Self::Failed,
        }
    }
}

/// An event of a code host.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InboxEvent {
    /// The ID, which is larger than those of earlier events.
    id: String,
    /// The time of the arrival.
    #[schema(format = DateTime)]
    received_at: String,
    /// The code host, such as `github.com`.
    host: String,
    /// The name of the event, as the code host writes it.
    event: String,
    /// The ID of the delivery. A redelivery has the same, and is not stored again.
    delivery: String,
    state: InboxState,
    /// What became of the event, such as `message`, `ignored_self` or `not_permitted`; `null` while it is received or
    /// waiting. New outcomes may be added.
    #[schema(required, value_type = Option<String>)]
    outcome: Option<Outcome>,
    /// The explanation of the outcome, for people.
    #[schema(required)]
    detail: Option<String>,
    /// The number of attempts at reading the event.
    attempts: u32,
    #[schema(required)]
    project_id: Option<String>,
    #[schema(required)]
    job: Option<String>,
    /// The message that the event became part of.
    #[schema(required)]
    message: Option<String>,
    /// The path of the repository, such as `owner/name`, if the event was read.
    #[schema(required)]
    repository: Option<String>,
    /// The name of the user who caused the event; if the code host does not say, the author of the comment, review or
    /// issue.
    #[schema(required)]
    sender: Option<String>,
    /// The page of the comment, review or issue.
    #[schema(required)]
    url: Option<String>,
}

impl From<inbox::InboxEvent> for InboxEvent {
    fn from(event: inbox::InboxEvent) -> Self {
        let read = event.read();
        let url = read.and_then(HookEvent::url).map(str::to_owned);
        let repository = read.and_then(|read| read.repository.as_ref()).map(|repository| repository.path.clone());
        let sender = read.and_then(|read| read.sender.as_ref().or_else(|| read.author())).map(|user| user.name.clone());
        Self {
            id: event.number.to_string(),
            received_at: event.received_at.to_string(),
            state: event.state.into(),
            outcome: event.outcome,
            attempts: event.attempts,
            project_id: event.project.map(|project| project.to_string()),
            job: event.job.map(|job| job.to_string()),
            message: event.message.map(|message| message.to_string()),
            repository,
            sender,
            url,
            host: event.host.0,
            event: event.event,
            delivery: event.delivery,
            detail: event.detail,
        }
    }
}

/// A page of the inbox.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InboxPage {
    /// The events, newest first.
    pub(crate) events: Vec<InboxEvent>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}
