//! Messages and their receipts.

use journeyman_core::message::{self, DeliveryMode, Origin};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a message does to a job that is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Delivery {
    /// Waits its turn.
    #[default]
    Queue,
    /// Stops the running turn, keeps what it had committed, and goes first.
    Interrupt,
    /// Is refused with 409 `job_busy`.
    Reject,
}

impl From<Delivery> for DeliveryMode {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Queue => Self::Queue,
            Delivery::Interrupt => Self::Interrupt,
            Delivery::Reject => Self::Reject,
        }
    }
}

impl From<DeliveryMode> for Delivery {
    fn from(delivery: DeliveryMode) -> Self {
        match delivery {
            DeliveryMode::Queue => Self::Queue,
            DeliveryMode::Interrupt => Self::Interrupt,
            DeliveryMode::Reject => Self::Reject,
        }
    }
}

/// A follow-up message.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SendMessage {
    /// What the agent shall do.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(crate) prompt: String,
    /// What it does to a job that is busy; `queue` unless given.
    pub(crate) delivery: Option<Delivery>,
}

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageOrigin {
    /// The HTTP interface.
    Api,
    /// A person at the dashboard.
    Dashboard,
    /// A comment on a pull request.
    PullRequest,
}

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageStatus {
    /// Stored, waiting.
    Queued,
    /// A run has taken it.
    Delivered,
    /// Its run succeeded.
    Finished,
    /// Its last run failed.
    Failed,
    /// Stopped while a run had it.
    Cancelled,
    /// Taken back before any run had it.
    Withdrawn,
}

impl From<message::MessageStatus> for MessageStatus {
    fn from(status: message::MessageStatus) -> Self {
        match status {
            message::MessageStatus::Queued => Self::Queued,
            message::MessageStatus::Delivered => Self::Delivered,
            message::MessageStatus::Finished => Self::Finished,
            message::MessageStatus::Failed => Self::Failed,
            message::MessageStatus::Cancelled => Self::Cancelled,
            message::MessageStatus::Withdrawn => Self::Withdrawn,
        }
    }
}

/// A message and its receipt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    #[schema(example = "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    pub(crate) id: String,
    /// What the agent is told.
    pub(crate) prompt: String,
    pub(crate) origin: MessageOrigin,
    /// The name of the key that sent it, or of the person.
    #[schema(required)]
    pub(crate) author: Option<String>,
    pub(crate) delivery: Delivery,
    pub(crate) status: MessageStatus,
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
    /// When a run first took it.
    #[schema(required, format = DateTime)]
    pub(crate) delivered_at: Option<String>,
    /// When its status became final.
    #[schema(required, format = DateTime)]
    pub(crate) finished_at: Option<String>,
    /// The last run that took it.
    #[schema(required)]
    pub(crate) run_id: Option<String>,
    /// The commits that it led to, oldest first.
    pub(crate) commits: Vec<String>,
    /// The pull request that carries them.
    #[schema(required)]
    pub(crate) pr_link: Option<String>,
    /// The later message whose push included these commits, if publishing this message failed.
    #[schema(required)]
    pub(crate) published_with: Option<String>,
    /// The final text of the agent's turn, at most 100,000 characters; `null` before its end, or if it said nothing.
    #[schema(required)]
    pub(crate) answer: Option<String>,
}

impl From<message::Message> for Message {
    fn from(message: message::Message) -> Self {
        Self {
            id: message.id.to_string(),
            prompt: message.prompt,
            origin: match message.origin {
                Origin::Api => MessageOrigin::Api,
                Origin::Dashboard => MessageOrigin::Dashboard,
                Origin::PullRequest => MessageOrigin::PullRequest,
            },
            author: message.author,
            delivery: message.delivery.into(),
            status: message.status.into(),
            created_at: message.created_at.to_string(),
            delivered_at: message.delivered_at.map(|at| at.to_string()),
            finished_at: message.finished_at.map(|at| at.to_string()),
            run_id: message.run.map(|run| run.to_string()),
            commits: message.commits.into_iter().map(String::from).collect(),
            pr_link: message.pr_link,
            published_with: message.published_with.map(|id| id.to_string()),
            answer: message.answer,
        }
    }
}

/// All messages of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageList {
    /// In the order in which they were accepted.
    pub(crate) messages: Vec<Message>,
}
