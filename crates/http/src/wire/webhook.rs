//! The wire format of webhooks and their deliveries.

use journeyman_app::CreatedWebhook as Created;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{self, AttemptResult, DeliveryState, Disabled, Response, WebhookSettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::feed::FeedEventType;

/// The form of the requests to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WebhookFormat {
    /// The event as JSON, signed as Standard Webhooks says.
    #[default]
    Standard,
    /// A message for an incoming webhook of Slack.
    Slack,
    /// A message for an incoming webhook of Microsoft Teams.
    Teams,
    /// A message for a webhook of Discord.
    Discord,
}

impl From<WebhookFormat> for webhook::WebhookFormat {
    fn from(format: WebhookFormat) -> Self {
        match format {
            WebhookFormat::Standard => Self::Standard,
            WebhookFormat::Slack => Self::Slack,
            WebhookFormat::Teams => Self::Teams,
            WebhookFormat::Discord => Self::Discord,
        }
    }
}

impl From<webhook::WebhookFormat> for WebhookFormat {
    fn from(format: webhook::WebhookFormat) -> Self {
        match format {
            webhook::WebhookFormat::Standard => Self::Standard,
            webhook::WebhookFormat::Slack => Self::Slack,
            webhook::WebhookFormat::Teams => Self::Teams,
            webhook::WebhookFormat::Discord => Self::Discord,
        }
    }
}

/// The reason why a webhook receives no events. New reasons may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DisabledReason {
    /// A person disabled it.
    OnRequest,
    /// The endpoint answered 410.
    Gone,
    /// All attempts have failed for five days.
    Failing,
}

/// A webhook.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Webhook {
    #[schema(example = "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    pub(crate) id: String,
    /// The URL of the endpoint.
    url: String,
    /// The types of events to deliver; empty means all types.
    #[schema(value_type = Vec<FeedEventType>)]
    events: Vec<String>,
    format: WebhookFormat,
    description: String,
    /// `true` if the webhook receives events.
    enabled: bool,
    /// The reason why it does not; `null` if it does.
    #[schema(required)]
    disabled_reason: Option<DisabledReason>,
    /// The time of the first of the failed attempts since the last success; `null` if the last attempt succeeded.
    #[schema(required, format = DateTime)]
    failing_since: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    /// The time until which requests are signed with the secret before the last rotation too.
    #[schema(required, format = DateTime)]
    old_secret_until: Option<String>,
}

impl Webhook {
    /// Returns the webhook as clients see it now.
    pub(crate) fn at(now: Timestamp, webhook: webhook::Webhook) -> Self {
        let WebhookSettings { url, kinds, format, description } = webhook.settings;
        Self {
            id: webhook.id.to_string(),
            url,
            events: kinds,
            format: format.into(),
            description,
            enabled: webhook.disabled.is_none(),
            disabled_reason: webhook.disabled.map(|reason| match reason {
                Disabled::OnRequest => DisabledReason::OnRequest,
                Disabled::Gone => DisabledReason::Gone,
                Disabled::Failing => DisabledReason::Failing,
            }),
            failing_since: webhook.failing_since.map(|at| at.to_string()),
            created_at: webhook.created_at.to_string(),
            old_secret_until: webhook.old_secret_until.filter(|until| *until > now).map(|at| at.to_string()),
        }
    }
}

/// A webhook with its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CreatedWebhook {
    #[serde(flatten)]
    webhook: Webhook,
    /// The secret with which requests are signed. Only this response contains it.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: String,
}

impl CreatedWebhook {
    /// Returns the webhook as clients see it now.
    pub(crate) fn at(now: Timestamp, created: Created) -> Self {
        Self { webhook: Webhook::at(now, created.webhook), secret: created.secret.reveal() }
    }
}

/// A page of webhooks.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookList {
    /// The webhooks, oldest first.
    pub(crate) webhooks: Vec<Webhook>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// A webhook to create.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CreateWebhook {
    /// The URL of the endpoint. The server connects only to public addresses, and to networks that its operator has
    /// allowed.
    #[schema(max_length = 2000, example = "https://hooks.example.com/journeyman")]
    url: String,
    /// The types of events to deliver; by default, all types.
    #[serde(default)]
    #[schema(value_type = Vec<FeedEventType>, example = json!(["job.completed", "job.failed"]))]
    events: Vec<String>,
    /// The form of the requests; by default, `standard`.
    #[serde(default)]
    format: WebhookFormat,
    /// A note for people.
    #[serde(default)]
    #[schema(max_length = 200)]
    description: String,
}

impl From<CreateWebhook> for WebhookSettings {
    fn from(new: CreateWebhook) -> Self {
        let CreateWebhook { url, events, format, description } = new;
        Self { url, kinds: events, format: format.into(), description }
    }
}

/// The changes of a webhook. Fields that are not given stay.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct ChangeWebhook {
    /// The URL of the endpoint.
    #[schema(nullable = false, max_length = 2000)]
    url: Option<String>,
    /// The types of events to deliver; an empty list means all types.
    #[schema(nullable = false, value_type = Vec<FeedEventType>, required = false)]
    events: Option<Vec<String>>,
    /// The form of the requests.
    #[schema(nullable = false)]
    format: Option<WebhookFormat>,
    /// A note for people.
    #[schema(nullable = false, max_length = 200)]
    description: Option<String>,
    /// `false` to disable the webhook. When it is enabled again, it receives the deliveries that are still pending, and
    /// the events from then on.
    #[schema(nullable = false)]
    pub(crate) enabled: Option<bool>,
}

impl ChangeWebhook {
    /// Returns the settings after the changes.
    pub(crate) fn apply(&self, known: &WebhookSettings) -> WebhookSettings {
        let known = known.clone();
        WebhookSettings {
            url: self.url.clone().unwrap_or(known.url),
            kinds: self.events.clone().unwrap_or(known.kinds),
            format: self.format.map_or(known.format, Into::into),
            description: self.description.clone().unwrap_or(known.description),
        }
    }
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeliveryStatus {
    /// The event is sent when the delivery is due and no earlier delivery about the same job is pending.
    Pending,
    /// The endpoint has accepted it.
    Delivered,
    /// The attempts are used up, the endpoint is gone, or the event is no longer stored.
    Failed,
}

impl From<DeliveryState> for DeliveryStatus {
    fn from(state: DeliveryState) -> Self {
        match state {
            DeliveryState::Pending => Self::Pending,
            DeliveryState::Delivered => Self::Delivered,
            DeliveryState::Failed => Self::Failed,
        }
    }
}

impl From<DeliveryStatus> for DeliveryState {
    fn from(status: DeliveryStatus) -> Self {
        match status {
            DeliveryStatus::Pending => Self::Pending,
            DeliveryStatus::Delivered => Self::Delivered,
            DeliveryStatus::Failed => Self::Failed,
        }
    }
}

/// An event for an endpoint, and the attempts to deliver it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookDelivery {
    #[schema(example = "17")]
    id: String,
    /// The ID of the event in the feed.
    event_id: String,
    #[serde(rename = "type")]
    #[schema(value_type = FeedEventType)]
    kind: String,
    /// The job of the event.
    job: String,
    state: DeliveryStatus,
    /// The number of attempts so far.
    attempts: u32,
    #[schema(format = DateTime)]
    created_at: String,
    /// The time of the next attempt; `null` if there is none.
    #[schema(required, format = DateTime)]
    next_attempt_at: Option<String>,
    /// The result of the last attempt; `null` before the first one.
    #[schema(required)]
    last_attempt: Option<Attempt>,
}

/// The result of an attempt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    #[schema(format = DateTime)]
    at: String,
    /// The duration of the request, in milliseconds.
    duration_ms: u64,
    /// The status that the endpoint answered; `null` if there was no answer.
    #[schema(required)]
    status: Option<u16>,
    /// The first KiB of the answer.
    #[schema(required)]
    response: Option<String>,
    /// Why there was no answer.
    #[schema(required)]
    error: Option<String>,
}

impl From<AttemptResult> for Attempt {
    fn from(result: AttemptResult) -> Self {
        let (status, response, error) = match result.response {
            Response::Status(status, text) => (Some(status), Some(text), None),
            Response::Failed(text) => (None, None, Some(text)),
        };
        let duration_ms = u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX);
        Self { at: result.at.to_string(), duration_ms, status, response, error }
    }
}

impl From<webhook::Delivery> for WebhookDelivery {
    fn from(delivery: webhook::Delivery) -> Self {
        Self {
            id: delivery.number.to_string(),
            event_id: delivery.position.to_string(),
            kind: delivery.kind,
            job: delivery.job.to_string(),
            state: delivery.state.into(),
            attempts: delivery.attempts,
            created_at: delivery.created_at.to_string(),
            next_attempt_at: delivery.due_at.map(|at| at.to_string()),
            last_attempt: delivery.last.map(Attempt::from),
        }
    }
}

/// A page of deliveries.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryPage {
    /// The deliveries, newest first.
    pub(crate) deliveries: Vec<WebhookDelivery>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// The events to deliver again.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ReplayWebhook {
    /// Delivers the events since this time (ISO 8601).
    #[schema(format = DateTime)]
    pub(crate) since: String,
}

/// The number of events that are delivered again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Replayed {
    /// The number of deliveries that are pending now.
    pub(crate) deliveries: u64,
}
