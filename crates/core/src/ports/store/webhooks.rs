//! The store of webhooks and their deliveries.

use async_trait::async_trait;

use super::error::StoreError;
use super::resources::ResourceStore;
use crate::ids::{ProjectId, WebhookId};
use crate::time::Timestamp;
use crate::webhook::{
    Claim, ClaimedDelivery, Delivery, DeliveryState, Finished, Replay, Replayed, Webhook, WebhookSecrets,
};

/// A selection of the deliveries of a webhook, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// The webhook.
    pub webhook: WebhookId,
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Only deliveries with a smaller number.
    pub before: Option<u64>,
    /// The maximum number of deliveries.
    pub limit: usize,
}

/// The deliveries that were not ended yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryBacklog {
    /// The number of pending deliveries of enabled webhooks.
    pub pending: u64,
    /// The time since which the oldest of them has been due.
    pub oldest: Option<Timestamp>,
    /// The number of enabled webhooks whose last attempt failed.
    pub failing: u64,
}

/// Stores webhooks and their deliveries. [`super::AdminStore`] changes the webhooks.
#[async_trait]
pub trait WebhookStore: ResourceStore<Webhook> {
    /// Returns the webhooks of a project after the webhook `after`, oldest first, at most `limit`. If there is no such
    /// webhook, there are none after it.
    async fn webhooks_after(
        &self,
        project: ProjectId,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, StoreError>;

    /// Returns whether there is an enabled webhook.
    async fn has_webhooks(&self) -> Result<bool, StoreError>;

    /// Decrypts and returns the secrets of a webhook.
    async fn webhook_secrets(&self, id: WebhookId) -> Result<Option<WebhookSecrets>, StoreError>;

    /// Makes deliveries of the next events that enabled webhooks select: at most `limit`, but at least those of one event.
    /// Returns the number of events; 0 means that there are deliveries of all events.
    async fn make_deliveries(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Claims deliveries of enabled webhooks that are due. Of the pending deliveries about a job, only the first one is
    /// claimed; of a webhook at most [`crate::webhook::CONCURRENT`] at a time, and of a webhook whose last attempt failed
    /// at most one. A delivery whose event is no longer stored fails instead.
    async fn claim_deliveries(&self, claim: Claim) -> Result<Vec<ClaimedDelivery>, StoreError>;

    /// Stores the results of attempts. Those of deliveries that another process has claimed since are ignored.
    async fn finish_deliveries(&self, finished: Vec<Finished>) -> Result<(), StoreError>;

    /// Returns deliveries of a webhook.
    async fn deliveries(&self, filter: DeliveryFilter) -> Result<Vec<Delivery>, StoreError>;

    /// Makes a delivery of a webhook pending and due again, and returns whether it exists and its event is still stored.
    /// If an attempt is under way, the next one follows it, whatever its result.
    async fn redeliver(&self, webhook: WebhookId, number: u64, now: Timestamp) -> Result<bool, StoreError>;

    /// Makes deliveries of the next events since a time that the webhook selects, also of those that it has received.
    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError>;

    /// Counts the deliveries that were not ended yet.
    async fn delivery_backlog(&self) -> Result<DeliveryBacklog, StoreError>;
}
