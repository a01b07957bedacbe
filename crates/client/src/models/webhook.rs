//! Webhooks and their deliveries.

use serde::{Deserialize, Serialize};

use super::feed::ProjectEventType;
use super::values::Secret;

/// A webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Webhook {
    /// The ID.
    pub id: String,
    /// The URL of the endpoint.
    pub url: String,
    /// The types of events to deliver; empty means all types.
    pub events: Vec<ProjectEventType>,
    /// The form of the requests.
    pub format: WebhookFormat,
    /// The note for people.
    pub description: String,
    /// `true` if the webhook receives events.
    pub enabled: bool,
    /// The reason why it does not; `None` if it does.
    pub disabled_reason: Option<DisabledReason>,
    /// The time of the first of the failed attempts since the last success; `None` if the last attempt succeeded.
    pub failing_since: Option<String>,
    /// The time of the creation.
    pub created_at: String,
    /// The time until which requests are signed with the secret before the last rotation too.
    pub old_secret_until: Option<String>,
}

/// A webhook with its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreatedWebhook {
    /// The webhook without its secret.
    #[serde(flatten)]
    pub webhook: Webhook,
    /// The secret with which requests are signed. Only this response contains it.
    pub secret: Secret,
}

open_enum! {
    /// The form of the requests to an endpoint.
    WebhookFormat {
        /// The value `standard`.
        Standard = "standard",
        /// The value `slack`.
        Slack = "slack",
        /// The value `teams`.
        Teams = "teams",
        /// The value `discord`.
        Discord = "discord",
    }
}

open_enum! {
    /// The reason why a webhook receives no events. New reasons may be added.
    DisabledReason {
        /// A person disabled the webhook.
        OnRequest = "on_request",
        /// The endpoint answered 410.
        Gone = "gone",
        /// The endpoint failed for too long.
        Failing = "failing",
    }
}

/// An event for an endpoint, and the attempts to deliver it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebhookDelivery {
    /// The ID.
    pub id: String,
    /// The ID of the event in the feed.
    pub event_id: String,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: ProjectEventType,
    /// The job of the event.
    pub job: String,
    /// The state.
    pub state: DeliveryStatus,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The time of the creation.
    pub created_at: String,
    /// The time of the next attempt; `None` if there is none.
    pub next_attempt_at: Option<String>,
    /// The result of the last attempt; `None` before the first one.
    pub last_attempt: Option<Attempt>,
}

open_enum! {
    /// The state of a delivery.
    DeliveryStatus {
        /// The delivery waits for an attempt.
        Pending = "pending",
        /// The endpoint accepted the event.
        Delivered = "delivered",
        /// All attempts failed.
        Failed = "failed",
    }
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// The time.
    pub at: String,
    /// The duration of the request, in milliseconds.
    pub duration_ms: u64,
    /// The status that the endpoint answered; `None` if there was no answer.
    pub status: Option<u32>,
    /// The first KiB of the answer.
    pub response: Option<String>,
    /// The reason why there was no answer.
    pub error: Option<String>,
}

/// A webhook to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateWebhook {
    /// The URL of the endpoint. The server connects only to public addresses, and to networks that its operator has
    /// allowed.
    pub url: String,
    /// The types of events to deliver; by default, all types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<ProjectEventType>>,
    /// The form of the requests; by default, `standard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<WebhookFormat>,
    /// A note for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl CreateWebhook {
    /// Returns the request with its required fields.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), events: None, format: None, description: None }
    }

    /// Sets `events`.
    #[must_use]
    pub fn events(mut self, value: Vec<ProjectEventType>) -> Self {
        self.events = Some(value);
        self
    }

    /// Sets `format`.
    #[must_use]
    pub fn format(mut self, value: WebhookFormat) -> Self {
        self.format = Some(value);
        self
    }

    /// Sets `description`.
    #[must_use]
    pub fn description(mut self, value: impl Into<String>) -> Self {
        self.description = Some(value.into());
        self
    }
}

/// The changes of a webhook. Fields that are not given stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeWebhook {
    /// The URL of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The types of events to deliver; an empty list means all types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<ProjectEventType>>,
    /// The form of the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<WebhookFormat>,
    /// A note for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `false` to disable the webhook. When it is enabled again, it receives the deliveries that are still pending,
    /// and the events from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl ChangeWebhook {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `url`.
    #[must_use]
    pub fn url(mut self, value: impl Into<String>) -> Self {
        self.url = Some(value.into());
        self
    }

    /// Sets `events`.
    #[must_use]
    pub fn events(mut self, value: Vec<ProjectEventType>) -> Self {
        self.events = Some(value);
        self
    }

    /// Sets `format`.
    #[must_use]
    pub fn format(mut self, value: WebhookFormat) -> Self {
        self.format = Some(value);
        self
    }

    /// Sets `description`.
    #[must_use]
    pub fn description(mut self, value: impl Into<String>) -> Self {
        self.description = Some(value.into());
        self
    }

    /// Sets `enabled`.
    #[must_use]
    pub fn enabled(mut self, value: bool) -> Self {
        self.enabled = Some(value);
        self
    }
}
