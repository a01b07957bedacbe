//! The port that sends events to endpoints.

use async_trait::async_trait;

use crate::feed::FeedEntry;
use crate::time::Timestamp;
use crate::webhook::{AttemptResult, Webhook, WebhookSecrets};

/// Sends events to endpoints.
#[async_trait]
pub trait WebhookSender: Send + Sync {
    /// Sends an event once, signed with the secrets that are valid at `now`, and returns the result.
    async fn send(
        &self,
        webhook: &Webhook,
        secrets: &WebhookSecrets,
        event: &FeedEntry,
        now: Timestamp,
    ) -> AttemptResult;
}
