//! Requests to the interface of Slack.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use journeyman_core::ports::{
    SignedRequest, Slack, SlackDelivery, SlackError, SlackIdentity, SlackMessage, SlackSocket,
};
use journeyman_core::project::SecretValue;
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

/// The time to wait if Slack does not say how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

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
    /// The client cannot be built, the URL is not valid, or it is neither https nor on the loopback interface.
    pub fn new(base: &str) -> Result<Self, Error> {
        let base = Url::parse(base).map_err(|error| Error::Malformed(format!("the URL of Slack: {error}")))?;
        // Tokens must not cross a network in plain text.
        if base.scheme() != "https" && !is_loopback(&base) {
            return Err(Error::Scheme(base.scheme().to_owned()));
        }
        Ok(Self { http: journeyman_net::Client::new(&Settings::default())?, base: Arc::new(base) })
    }

    /// Calls a method, and returns its answer.
    async fn call(&self, token: &SecretValue, method: &str, body: Value) -> Result<Value, SlackError> {
        let unavailable = |error: &dyn std::fmt::Display| SlackError::Unavailable(format!("{method}: {error}"));
        let url = self.base.join(method).map_err(|error| unavailable(&error))?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.0))
            .map_err(|_| SlackError::Refused("the token has characters that a token cannot have".to_owned()))?;
        bearer.set_sensitive(true);
        let request = Request::builder()
            .method(Method::POST)
            .uri(url.as_str())
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, "application/json; charset=utf-8")
            .body(Bytes::from(body.to_string()))
            .map_err(|error| unavailable(&error))?;
        let answer = self.http.send(request, LIMITS).await.map_err(|error| unavailable(&error))?;
        read_answer(method, &answer)
    }

    /// Calls a method that reads. Such methods take their arguments in the query.
    async fn get(&self, token: &SecretValue, method: &str, query: &[(&str, &str)]) -> Result<Value, SlackError> {
        let unavailable = |error: &dyn std::fmt::Display| SlackError::Unavailable(format!("{method}: {error}"));
        let mut url = self.base.join(method).map_err(|error| unavailable(&error))?;
        url.query_pairs_mut().extend_pairs(query);
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.0))
            .map_err(|_| SlackError::Refused("the token has characters that a token cannot have".to_owned()))?;
        bearer.set_sensitive(true);
        let request = Request::builder().uri(url.as_str()).header(AUTHORIZATION, bearer).body(Bytes::new());
        let request = request.map_err(|error| unavailable(&error))?;
        let answer = self.http.send(request, LIMITS).await.map_err(|error| unavailable(&error))?;
        read_answer(method, &answer)
    }
}

/// Reads the answer to a call.
fn read_answer(method: &str, answer: &Response<Bytes>) -> Result<Value, SlackError> {
    let wait = || {
        let seconds = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        SlackError::RateLimited(seconds.map_or(DEFAULT_WAIT, Duration::from_secs))
    };
    if answer.status() == StatusCode::TOO_MANY_REQUESTS {
        return Err(wait());
    }
    let body: Option<Value> = serde_json::from_slice(answer.body()).ok();
    let Some(body) = body.filter(|_| answer.status().is_success()) else {
        return Err(SlackError::Unavailable(format!("{method}: Slack answered {}", answer.status())));
    };
    if body["ok"] == true {
        return Ok(body);
    }
    match body["error"].as_str().unwrap_or("unknown_error") {
        "ratelimited" | "rate_limited" => Err(wait()),
        "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" | "team_added_to_org" => {
            Err(SlackError::Unavailable(format!("{method}: {}", body["error"])))
        }
        code => Err(SlackError::Refused(explained(method, code))),
    }
}

/// Returns the explanation of an error code, with what to do.
fn explained(method: &str, code: &str) -> String {
    let code: String = code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect();
    let advice = match code.as_str() {
        "not_authed" | "invalid_auth" | "account_inactive" | "token_revoked" | "token_expired" => {
            "the token is no longer valid; install the app again, and set the new token"
        }
        "missing_scope" | "not_allowed_token_type" => {
            "the app lacks a scope; compare its scopes with the manifest, and install it again"
        }
        "channel_not_found" | "not_in_channel" => "the bot is not in the channel; invite it there",
        "is_archived" => "the channel is archived",
        "thread_not_found" | "message_not_found" => "the message was deleted",
        "restricted_action" => "a setting of the workspace forbids posts to this channel",
        _ => "see the description of the method at docs.slack.dev",
    };
    format!("Slack refused {method} ({code}): {advice}")
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
    fn is_signed(&self, secret: &SecretValue, request: &SignedRequest, now: Timestamp) -> bool {
        sign::is_signed(secret, request, now)
    }

    fn read(&self, body: &[u8]) -> Result<SlackDelivery, String> {
        events::read(body)
    }

    async fn identity(&self, token: &SecretValue) -> Result<SlackIdentity, SlackError> {
        let body = self.call(token, "auth.test", json!({})).await?;
        Ok(SlackIdentity {
            team: text_of(&body, "/team_id")?,
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
        });
        text_of(&self.call(token, "chat.postMessage", body).await?, "/ts")
    }

    async fn update(&self, token: &SecretValue, ts: &str, message: SlackMessage<'_>) -> Result<(), SlackError> {
        let body = json!({
            "channel": message.channel,
            "ts": ts,
            "text": message.text,
            "metadata": metadata(message.marker),
        });
        self.call(token, "chat.update", body).await.map(drop)
    }

    async fn find(
        &self,
        token: &SecretValue,
        channel: &str,
        thread: &str,
        marker: &str,
    ) -> Result<Option<String>, SlackError> {
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let query = [
                ("channel", channel),
                ("ts", thread),
                ("limit", "200"),
                ("include_all_metadata", "true"),
                ("cursor", cursor.as_str()),
            ];
            let body = self.get(token, "conversations.replies", &query).await?;
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
        Ok(None)
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

    fn answer(status: u16, body: &str) -> Response<Bytes> {
        let answer = Response::builder().status(status).header(RETRY_AFTER, "7");
        answer.body(Bytes::from(body.to_owned())).unwrap()
    }

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
    fn an_answer_says_whether_another_attempt_may_succeed() {
        let read = |status, body: &str| read_answer("chat.postMessage", &answer(status, body));
        assert!(read(200, r#"{"ok":true,"ts":"1.0"}"#).is_ok());
        let limited = Err(SlackError::RateLimited(Duration::from_secs(7)));
        assert_eq!(read(429, ""), limited);
        assert_eq!(read(200, r#"{"ok":false,"error":"ratelimited"}"#), limited);
        for (status, body) in [(500, ""), (200, "<html>"), (200, r#"{"ok":false,"error":"internal_error"}"#)] {
            assert!(matches!(read(status, body), Err(SlackError::Unavailable(_))), "{status} {body}");
        }
        for (code, advice) in [
            ("token_revoked", "install the app again"),
            ("channel_not_found", "invite it there"),
            ("not_in_channel", "invite it there"),
            ("missing_scope", "lacks a scope"),
        ] {
            let error = read(200, &format!(r#"{{"ok":false,"error":"{code}"}}"#)).unwrap_err();
            assert!(
                matches!(&error, SlackError::Refused(text) if text.contains(code) && text.contains(advice)),
                "{error}"
            );
        }
    }
}
