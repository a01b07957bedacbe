//! Sends events to endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use ipnet::IpNet;
use journeyman_core::feed::FeedEntry;
use journeyman_core::ports::WebhookSender;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{AttemptResult, Response, Webhook, WebhookSecrets};
use journeyman_net::{Client, Error, Policy, Resolver, Settings};

use crate::body::body;
use crate::sign::signatures;

/// The time for a request until the status of its answer.
const TIME: Duration = Duration::from_secs(10);

/// The time for the part of an answer that is kept.
const BODY_TIME: Duration = Duration::from_secs(2);

/// The part of an answer that is read and stored, in bytes. The rest is ignored.
const KEPT_BYTES: usize = 1024;

/// Sends events. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    client: Client,
    public_url: Arc<str>,
    time: Duration,
}

impl Sender {
    /// Returns a sender that connects to public addresses, and to the networks `allowed`. Messages for chats have links to
    /// the dashboard at `public_url`.
    #[must_use]
    pub fn new(allowed: &[IpNet], resolver: Arc<dyn Resolver>, public_url: &str) -> Self {
        let client = Client::new(Settings {
            policy: Policy::Public(allowed.into()),
            resolver,
            connect_time: TIME,
            // An answer that is not read to its end must not block other requests.
            http1_only: true,
            ..Settings::default()
        });
        Self { client, public_url: public_url.into(), time: TIME }
    }

    /// Sets the time for a request until the status of its answer; by default, 10 s.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    async fn request(&self, request: Request<Bytes>) -> Result<(u16, String), Error> {
        let started = tokio::time::timeout(self.time, self.client.start(request)).await;
        let mut answer = started.map_err(|_| Error::Slow(self.time))??;
        let status = answer.status().as_u16();
        let mut kept = Vec::new();
        // The status decides, so a body that is slow or breaks off changes nothing.
        let body = async {
            while kept.len() < KEPT_BYTES {
                let Ok(Some(piece)) = answer.chunk().await else { break };
                kept.extend_from_slice(&piece);
            }
        };
        drop(tokio::time::timeout(self.time.min(BODY_TIME), body).await);
        kept.truncate(KEPT_BYTES);
        let text = String::from_utf8_lossy(&kept).replace('\0', "\u{fffd}");
        Ok((status, text))
    }
}

#[async_trait]
impl WebhookSender for Sender {
    async fn send(
        &self,
        webhook: &Webhook,
        secrets: &WebhookSecrets,
        event: &FeedEntry,
        now: Timestamp,
    ) -> AttemptResult {
        let begun = Instant::now();
        let body = body(webhook.settings.format, event, &self.public_url);
        let (id, seconds) = (message_id(event), now.as_micros().div_euclid(1_000_000));
        let request = Request::builder()
            .method(Method::POST)
            .uri(&webhook.settings.url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("Journeyman/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signatures(secrets.valid(now), &id, seconds, &body))
            .body(Bytes::from(body));
        let response = match request {
            Err(error) => Response::Failed(format!("the request could not be made: {error}")),
            Ok(request) => match self.request(request).await {
                Ok((status, text)) => Response::Status(status, text),
                Err(Error::NotPermitted(host)) => Response::Failed(format!(
                    "{host} is not a public address; an operator can allow its network with webhook-networks"
                )),
                Err(error) => Response::Failed(error.to_string()),
            },
        };
        let duration = begun.elapsed();
        AttemptResult { at: now + duration, duration, response }
    }
}

/// Returns the ID of the message about an event, the same in all attempts and for all endpoints.
fn message_id(event: &FeedEntry) -> String {
    format!("evt_{}_{}", event.position, event.job.uuid().simple())
}
