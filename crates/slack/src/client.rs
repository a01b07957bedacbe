//! Requests to the interface of Slack.

mod answer;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, request};
use journeyman_core::ports::{
    SignedRequest, Slack, SlackDelivery, SlackError, SlackIdentity, SlackMessage, SlackSocket,
};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use journeyman_net::{Error, Limits, Policy, Settings, is_loopback};
use serde_json::{Value, json};
use url::Url;

use crate::{events, sign, socket};

/// The URL of Slack's interface.
pub const DEFAULT_URL: &str = "https://slack.com/api/";

/// The limits of a request.
const LIMITS: Limits = Limits { time: Duration::from_secs(15), bytes: 4 << 20 };

/// The type of the metadata by which posted messages are found again.
const EVENT_TYPE: &str = "journeyman_post";

/// The maximum number of pages of a thread that are searched.
const PAGES: usize = 10;

/// Reads requests of Slack, and sends requests to it. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: journeyman_net::Client,
    base: Arc<Url>,
}

impl Client {
    /// Returns a client of the interface at `base`, which ends with a slash.
    ///
    /// # Errors
    /// The URL is not valid, or it is neither https nor on the loopback interface.
    pub fn new(base: &str) -> Result<Self, Error> {
        let base = Url::parse(base).map_err(|error| Error::Malformed(format!("the URL of Slack: {error}")))?;
        // Tokens must not cross a network in plain text.
        if base.scheme() != "https" && !is_loopback(&base) {
            return Err(Error::Scheme(base.scheme().to_owned()));
        }
        Ok(Self { http: journeyman_net::Client::new(Settings::default()), base: Arc::new(base) })
    }

    /// Calls a method, and returns its answer.
    async fn call(&self, token: &SecretValue, method: &str, body: Value) -> Result<Value, SlackError> {
        let request = Request::post(self.url(method, &[])?.as_str());
        let request = request.header(CONTENT_TYPE, "application/json; charset=utf-8");
        self.send(token, method, request, Bytes::from(body.to_string())).await
    }

    /// Calls a method that reads. Such methods take their arguments in the query.
    async fn get(&self, token: &SecretValue, method: &str, query: &[(&str, &str)]) -> Result<Value, SlackError> {
        self.send(token, method, Request::get(self.url(method, query)?.as_str()), Bytes::new()).await
    }

    fn url(&self, method: &str, query: &[(&str, &str)]) -> Result<Url, SlackError> {
        let mut url = self.base.join(method).map_err(|error| unavailable(method, error))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    /// Sends a request with a token, and reads the answer.
    async fn send(
        &self,
        token: &SecretValue,
        method: &str,
        request: request::Builder,
        body: Bytes,
    ) -> Result<Value, SlackError> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.0)).map_err(|_| {
            SlackError::Repairable("the token has characters that a token cannot have; set it again".to_owned())
        })?;
        bearer.set_sensitive(true);
        let request = request.header(AUTHORIZATION, bearer).body(body).map_err(|error| unavailable(method, error))?;
        let answer = self.http.send(request, LIMITS).await.map_err(|error| unavailable(method, error))?;
        answer::read(method, &answer)
    }
}

fn unavailable(method: &str, error: impl Display) -> SlackError {
    SlackError::Unavailable(format!("{method}: {error}"))
}

/// Returns a time in the form of a timestamp of Slack: seconds and six digits.
fn slack_time(time: Timestamp) -> String {
    let micros = time.as_micros().max(0);
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn text_of(body: &Value, pointer: &str) -> Result<String, SlackError> {
    let text = body.pointer(pointer).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| SlackError::Unavailable(format!("the answer of Slack has no {pointer}")))
}

fn metadata(marker: &str) -> Value {
    json!({ "event_type": EVENT_TYPE, "event_payload": { "key": marker } })
}

#[async_trait]
impl Slack for Client {
    fn may_be_signed(&self, timestamp: &str, signature: &str, now: Timestamp) -> bool {
        sign::may_be_signed(timestamp, signature, now)
    }

    fn is_signed(&self, secret: &SecretValue, request: &SignedRequest, now: Timestamp) -> bool {
        sign::is_signed(secret, request, now)
    }

    fn read(&self, body: &[u8]) -> Result<SlackDelivery, String> {
        events::read(body)
    }

    async fn identity(&self, token: &SecretValue) -> Result<SlackIdentity, SlackError> {
        let body = self.call(token, "auth.test", json!({})).await?;
        let is_org_wide = body["is_enterprise_install"] == true;
        let enterprise = body["enterprise_id"].as_str().filter(|_| is_org_wide).map(str::to_owned);
        Ok(SlackIdentity {
            team: text_of(&body, "/team_id")?,
            enterprise,
            name: text_of(&body, "/team")?,
            bot_user: text_of(&body, "/user_id")?,
        })
    }

    async fn post(&self, token: &SecretValue, message: SlackMessage<'_>) -> Result<String, SlackError> {
        let body = json!({
            "channel": message.channel,
            "thread_ts": message.thread,
            "text": message.text,
            "metadata": metadata(message.marker),
            "unfurl_links": false,
            "unfurl_media": false,
            "parse": "none",
            "link_names": false,
        });
        text_of(&self.call(token, "chat.postMessage", body).await?, "/ts")
    }

    async fn update(&self, token: &SecretValue, ts: &str, message: SlackMessage<'_>) -> Result<(), SlackError> {
        let body = json!({
            "channel": message.channel,
            "ts": ts,
            "text": message.text,
            "metadata": metadata(message.marker),
            "parse": "none",
            "link_names": false,
        });
        // Slack shows previews only of links that a message has when it is posted.
        self.call(token, "chat.update", body).await.map(drop)
    }

    async fn find(
        &self,
        token: &SecretValue,
        channel: &str,
        thread: &str,
        marker: &str,
        since: Timestamp,
    ) -> Result<Option<String>, SlackError> {
        let method = "conversations.replies";
        let oldest = slack_time(since);
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let query = [
                ("channel", channel),
                ("ts", thread),
                ("oldest", oldest.as_str()),
                ("limit", "200"),
                ("include_all_metadata", "true"),
                ("cursor", cursor.as_str()),
            ];
            let body = self.get(token, method, &query).await?;
            let messages = body["messages"].as_array();
            let is_it = |message: &&Value| {
                let metadata = &message["metadata"];
                metadata["event_type"] == EVENT_TYPE && metadata["event_payload"]["key"] == marker
            };
            if let Some(found) = messages.into_iter().flatten().find(is_it) {
                return text_of(found, "/ts").map(Some);
            }
            let next = body.pointer("/response_metadata/next_cursor").and_then(Value::as_str).unwrap_or_default();
            if next.is_empty() {
                return Ok(None);
            }
            cursor = next.to_owned();
        }
        Err(unavailable(method, "the thread has too many new messages to find out whether the post is there"))
    }

    async fn react(&self, token: &SecretValue, channel: &str, ts: &str, name: &str) -> Result<(), SlackError> {
        let body = json!({ "channel": channel, "timestamp": ts, "name": name });
        match self.call(token, "reactions.add", body).await {
            Err(SlackError::Refused(text)) if text.contains("(already_reacted)") => Ok(()),
            done => done.map(drop),
        }
    }

    async fn open(&self, token: &SecretValue) -> Result<Box<dyn SlackSocket>, SlackError> {
        let body = self.call(token, "apps.connections.open", json!({})).await?;
        let url = text_of(&body, "/url")?;
        // The operator chose the URL of the interface, but not this one. So only an interface on this machine can lead to a
        // private address, and only without TLS to this machine.
        let is_here = is_loopback(&self.base);
        let policy = if is_here { Policy::Any } else { Policy::Public(Arc::default()) };
        socket::open(&url, &policy, is_here).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sent_without_tls_only_to_this_machine() {
        for url in ["https://slack.com/api/", "http://127.0.0.1:8080/api/", "http://[::1]/api/", "http://localhost/"] {
            assert!(Client::new(url).is_ok(), "{url}");
        }
        for url in ["http://slack.com/api/", "http://10.0.0.1/api/", "ftp://slack.com/", "slack.com"] {
            assert!(Client::new(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_time_has_the_form_of_a_timestamp_of_slack() {
        for (micros, text) in [(1_700_000_000_000_100, "1700000000.000100"), (0, "0.000000"), (-5, "0.000000")] {
            assert_eq!(slack_time(Timestamp::from_micros(micros)), text);
        }
    }
}
