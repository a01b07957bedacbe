//! Webhooks: endpoints of a project that receive the events of the feed as HTTP requests.
//!
//! Requests and signatures follow Standard Webhooks (<https://github.com/standard-webhooks/standard-webhooks>). Each event
//! that a webhook selects becomes a delivery, which is attempted until the endpoint accepts it or the attempts are used
//! up. The deliveries about one job are attempted in the order of the feed: a later one waits until the earlier one has
//! ended. Every delivery is attempted at least once; the ID of its message is the same in all attempts.

mod delivery;
mod secret;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::feed::FeedKind;
use crate::ids::{ProjectId, WebhookId};
use crate::refusal::ResourceKind;
use crate::resource::Resource;
use crate::time::Timestamp;

pub use delivery::{
    AttemptResult, Claim, ClaimedDelivery, DELIVERY_LEASE, Delivery, DeliveryState, EVENT_REMOVED, Finished,
    GIVE_UP_AFTER, MAX_ATTEMPTS, Replay, Replayed, Response, batch_end, finish,
};
pub use secret::{InvalidSecret, WebhookSecret, WebhookSecrets};

/// The maximum number of webhooks of a project.
pub const MAX_WEBHOOKS: usize = 1000;

/// The maximum length of a URL, in bytes.
pub const MAX_URL_BYTES: usize = 2000;

/// The number of requests to one endpoint at a time.
pub const CONCURRENT: usize = 8;

/// The form of the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormat {
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

impl WebhookFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Standard, Self::Slack, Self::Teams, Self::Discord];

    /// Returns the name that clients see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::Discord => "discord",
        }
    }
}

/// The reason why a webhook receives no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disabled {
    /// A person disabled it.
    OnRequest,
    /// The endpoint answered 410 Gone.
    Gone,
    /// All attempts have failed for [`GIVE_UP_AFTER`].
    Failing,
}

/// A webhook, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The ID.
    pub id: WebhookId,
    /// The project whose events the endpoint receives.
    pub project: ProjectId,
    /// The settings.
    pub settings: WebhookSettings,
    /// The reason why the webhook receives no events; `None` if it does. Events while it is disabled are not delivered
    /// later.
    pub disabled: Option<Disabled>,
    /// The time of the first of the failed attempts since the last success; `None` if the last attempt succeeded.
    pub failing_since: Option<Timestamp>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time at which the secret before the last rotation ends.
    pub old_secret_until: Option<Timestamp>,
    /// The number of the current version, which every change of the settings increases.
    pub version: u64,
}

impl Resource for Webhook {
    const KIND: ResourceKind = ResourceKind::Webhook;
    const LIMIT: usize = MAX_WEBHOOKS;
    const IN_PROJECT: bool = true;
    type Id = WebhookId;
    type Secrets = SecretChange;
    type Related = ();

    fn id(&self) -> &WebhookId {
        &self.id
    }

    fn project(&self) -> Option<&ProjectId> {
        Some(&self.project)
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn with_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    fn check(&self) -> Result<(), String> {
        self.settings.check().map_err(|error| error.to_string())
    }
}

impl Webhook {
    /// Returns the webhook with other settings, and enabled or disabled. A webhook that is enabled again receives the events
    /// from then on.
    #[must_use]
    pub fn edited(&self, settings: WebhookSettings, enable: Option<bool>) -> Self {
        let (disabled, failing_since) = match enable {
            Some(true) if self.disabled.is_some() => (None, None),
            Some(false) if self.disabled.is_none() => (Some(Disabled::OnRequest), self.failing_since),
            _ => (self.disabled, self.failing_since),
        };
        Self { settings, disabled, failing_since, ..self.clone() }
    }

    /// Returns the webhook after its secret was replaced at `now`. The old secret is used for `overlap`.
    #[must_use]
    pub fn rotated(&self, overlap: Duration, now: Timestamp) -> Self {
        Self { old_secret_until: Some(now + overlap), version: self.version + 1, ..self.clone() }
    }
}

/// The settings of a webhook, which clients choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSettings {
    /// The URL of the endpoint.
    pub url: String,
    /// The names of the types of events to deliver; empty means all types.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The form of the requests.
    #[serde(default)]
    pub format: WebhookFormat,
    /// A note for people.
    #[serde(default)]
    pub description: String,
}

/// An error in the settings of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebhook {
    /// The URL is not an HTTP URL.
    #[error("url: must be an http or https URL of at most {MAX_URL_BYTES} bytes, without a user, password or fragment")]
    Url,
    /// An event type does not exist.
    #[error("events: there is no event {0:?}; choose from {names}", names = names())]
    Kind(String),
    /// The description is too long.
    #[error("description: can have up to 200 characters, and no control characters")]
    Description,
}

fn names() -> String {
    FeedKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

impl WebhookSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// Returns an error that names the field.
    pub fn check(&self) -> Result<(), InvalidWebhook> {
        if !is_endpoint(&self.url) {
            return Err(InvalidWebhook::Url);
        }
        if let Some(unknown) = self.kinds.iter().find(|name| FeedKind::from_name(name).is_none()) {
            return Err(InvalidWebhook::Kind(unknown.chars().take(80).collect()));
        }
        if self.description.chars().count() > 200 || self.description.chars().any(char::is_control) {
            return Err(InvalidWebhook::Description);
        }
        Ok(())
    }

    /// Returns whether the webhook selects a type of event.
    #[must_use]
    pub fn selects(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|name| name == kind)
    }
}

fn is_endpoint(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    text.len() <= MAX_URL_BYTES
        && matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
        && !text.chars().any(|character| character.is_control() || character.is_whitespace())
}

/// The change of the secrets of a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SecretChange {
    /// The secrets stay.
    #[default]
    Keep,
    /// The secret of a new webhook.
    New(WebhookSecret),
    /// A new secret. The current one becomes the old one.
    Rotate(WebhookSecret),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> WebhookSettings {
        WebhookSettings {
            url: url.to_owned(),
            kinds: Vec::new(),
            format: WebhookFormat::Standard,
            description: String::new(),
        }
    }

    #[test]
    fn an_endpoint_is_an_http_url_without_credentials() {
        for url in ["https://example.com/hook?a=b", "http://10.0.0.7:8080/", "https://[2001:db8::1]/x"] {
            assert_eq!(settings(url).check(), Ok(()), "{url}");
        }
        let long = format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES));
        let wrong = [
            "",
            "example.com",
            "ftp://example.com/",
            "https://",
            "https://user@example.com/",
            "https://user:secret@example.com/",
            "https://example.com/#part",
            "https://example.com/a b",
            "https://example.com/\n",
            "file:///etc/passwd",
            &long,
        ];
        for url in wrong {
            assert_eq!(settings(url).check(), Err(InvalidWebhook::Url), "{url:?}");
        }
    }

    #[test]
    fn a_webhook_selects_known_events() {
        let all = settings("https://example.com/");
        assert!(all.selects("job.completed") && all.selects("job.of_a_newer_version"));
        let one = WebhookSettings { kinds: vec!["job.failed".to_owned()], ..all.clone() };
        assert!(one.selects("job.failed") && !one.selects("job.completed"));
        assert_eq!(one.check(), Ok(()));
        let unknown = WebhookSettings { kinds: vec!["job.exploded".to_owned()], ..all.clone() };
        let error = unknown.check().unwrap_err().to_string();
        assert!(error.contains("\"job.exploded\"") && error.contains("job.created, job.completed"), "{error}");
        let wordy = WebhookSettings { description: "x".repeat(201), ..all };
        assert_eq!(wordy.check(), Err(InvalidWebhook::Description));
    }
}
