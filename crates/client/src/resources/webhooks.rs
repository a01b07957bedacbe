//! Webhooks of projects. For the verification of their requests, see [`crate::webhook`].

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::Call;
use crate::client::Client;
use crate::models::{Attempt, ChangeWebhook, CreateWebhook, CreatedWebhook, DeliveryStatus, Webhook, WebhookDelivery};
use crate::pager::Pager;

/// The operations on webhooks.
#[derive(Debug, Clone)]
pub struct Webhooks {
    pub(crate) client: Client,
}

impl Webhooks {
    /// Lists the webhooks of a project, oldest first.
    pub fn list(&self, project: &str) -> Pager<Webhook> {
        self.client.list(&["v2", "projects", project, "webhooks"], "webhooks")
    }

    /// Creates a webhook. Only the result contains its secret.
    pub fn create(&self, project: &str, webhook: &CreateWebhook) -> Call<CreatedWebhook> {
        self.client.post(&["v2", "projects", project, "webhooks"]).json(webhook)
    }

    /// Returns a webhook without its secret.
    pub fn get(&self, project: &str, webhook: &str) -> Call<Webhook> {
        self.client.get(&["v2", "projects", project, "webhooks", webhook])
    }

    /// Changes, enables or disables a webhook.
    pub fn change(&self, project: &str, webhook: &str, changes: &ChangeWebhook) -> Call<Webhook> {
        let path = ["v2", "projects", project, "webhooks", webhook];
        self.client.call(Method::PATCH, &path).harmless().json(changes)
    }

    /// Deletes a webhook with its deliveries.
    pub fn delete(&self, project: &str, webhook: &str) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &["v2", "projects", project, "webhooks", webhook]).harmless()
    }

    /// Gives a webhook a new secret, which only the result contains. Requests are signed with the old one too for
    /// `keep_old`, up to 7 days.
    pub fn rotate(&self, project: &str, webhook: &str, keep_old: Duration) -> Call<CreatedWebhook> {
        let body = json!({ "keepOldSeconds": keep_old.as_secs() });
        self.client.post(&["v2", "projects", project, "webhooks", webhook, "rotate"]).json(&body)
    }

    /// Sends an example event to the endpoint, and returns what it answered.
    pub fn test(&self, project: &str, webhook: &str) -> Call<Attempt> {
        let path = ["v2", "projects", project, "webhooks", webhook, "test"];
        // The server waits up to 10 seconds for the endpoint.
        self.client.call(Method::POST, &path).harmless().extra_time(10)
    }

    /// Lists the deliveries of a webhook, newest first. They are stored for 30 days.
    pub fn deliveries(&self, project: &str, webhook: &str, state: Option<DeliveryStatus>) -> Pager<WebhookDelivery> {
        let path = ["v2", "projects", project, "webhooks", webhook, "deliveries"];
        let state = state.map(|state| ("state", state.to_string()));
        self.client.list(&path, "deliveries").pairs(state.into_iter().collect())
    }

    /// Delivers an event again.
    pub fn redeliver(&self, project: &str, webhook: &str, delivery: &str) -> Call<()> {
        let path = ["v2", "projects", project, "webhooks", webhook, "deliveries", delivery, "redeliver"];
        self.client.call_nothing(Method::POST, &path)
    }

    /// Delivers all events since a time (ISO 8601) again, and returns their number.
    pub fn replay(&self, project: &str, webhook: &str, since: &str) -> Call<u64> {
        #[derive(Deserialize)]
        struct Replayed {
            deliveries: u64,
        }
        let path = ["v2", "projects", project, "webhooks", webhook, "replay"];
        let call: Call<Value> = self.client.call(Method::POST, &path).json(&json!({ "since": since }));
        call.read_with(|response| Ok(response.json::<Replayed>()?.deliveries))
    }
}
