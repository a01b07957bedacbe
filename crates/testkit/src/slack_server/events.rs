//! The bodies of events, and their signatures.

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use super::{BOT, TEAM};

/// Returns the signature of a body that is sent at `timestamp`, in seconds since 1970.
#[must_use]
pub fn sign(secret: &str, timestamp: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{timestamp}:{body}").as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v0={digits}")
}

/// Wraps an event, as Slack sends it.
#[must_use]
pub fn callback(id: &str, event: Value) -> Value {
    json!({ "type": "event_callback", "team_id": TEAM, "api_app_id": "A0APP", "event_id": id, "event": event })
}

/// Returns an event about a message in a channel that mentions the bot.
#[must_use]
pub fn mention(id: &str, user: &str, channel: &str, ts: &str, text: &str) -> Value {
    let text = format!("<@{BOT}> {text}");
    callback(id, json!({ "type": "app_mention", "user": user, "channel": channel, "ts": ts, "text": text }))
}

/// Returns the second event that Slack sends about a message that mentions the bot.
#[must_use]
pub fn mention_as_message(id: &str, user: &str, channel: &str, ts: &str, text: &str) -> Value {
    let text = format!("<@{BOT}> {text}");
    let event = json!({
        "type": "message", "channel_type": "channel", "user": user, "channel": channel, "ts": ts, "text": text,
    });
    callback(id, event)
}

/// Returns an event about a reply in a thread.
#[must_use]
pub fn reply(id: &str, user: &str, channel: &str, thread: &str, ts: &str, text: &str) -> Value {
    let event = json!({
        "type": "message", "channel_type": "channel", "user": user, "channel": channel, "thread_ts": thread, "ts": ts,
        "text": text,
    });
    callback(id, event)
}

/// Returns an event about a direct message.
#[must_use]
pub fn direct(id: &str, user: &str, ts: &str, text: &str) -> Value {
    let event = json!({
        "type": "message", "channel_type": "im", "user": user, "channel": "D0DIRECT", "ts": ts, "text": text,
    });
    callback(id, event)
}
