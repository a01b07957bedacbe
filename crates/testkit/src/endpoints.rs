//! Endpoints of webhooks that record what they receive.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::feed::FeedEntry;
use journeyman_core::ids::WebhookId;
use journeyman_core::ports::WebhookSender;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{AttemptResult, Response, Webhook, WebhookSecrets};

/// The endpoints of all webhooks. They answer 204 unless another answer is set.
#[derive(Debug, Default)]
pub struct FakeEndpoints {
    received: Mutex<Vec<(WebhookId, FeedEntry, usize)>>,
    answers: Mutex<HashMap<WebhookId, u16>>,
}

impl FakeEndpoints {
    /// Returns what the endpoint of a webhook has received: the events, each with the number of its signatures.
    pub fn received(&self, webhook: WebhookId) -> Vec<(FeedEntry, usize)> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let own = received.iter().filter(|(of, ..)| *of == webhook);
        own.map(|(_, event, signatures)| (event.clone(), *signatures)).collect()
    }

    /// Sets the status that the endpoint of a webhook answers.
    pub fn answer(&self, webhook: WebhookId, status: u16) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(webhook, status);
    }
}

#[async_trait]
impl WebhookSender for FakeEndpoints {
    async fn send(
        &self,
        webhook: &Webhook,
        secrets: &WebhookSecrets,
        event: &FeedEntry,
        now: Timestamp,
    ) -> AttemptResult {
        let signatures = secrets.valid(now).count();
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.push((webhook.id, event.clone(), signatures));
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let status = answers.get(&webhook.id).copied().unwrap_or(204);
        AttemptResult { at: now, duration: Duration::from_millis(5), response: Response::Status(status, String::new()) }
    }
}
