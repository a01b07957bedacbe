//! A fake of Slack that records what is posted, and fails on request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{
    SignedRequest, Slack, SlackDelivery, SlackEnvelope, SlackError, SlackIdentity, SlackMessage, SlackSocket,
};
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{SlackAuthor, SlackContent, SlackEvent, SlackInstallation, SlackText};
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

/// A message in the fake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakePost {
    /// The channel.
    pub channel: String,
    /// The timestamp of the first message of the thread.
    pub thread: String,
    /// The timestamp.
    pub ts: String,
    /// The text.
    pub text: String,
    /// The marker in the metadata.
    pub marker: String,
}

/// A scripted failure of the next request that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackFault {
    /// The request has no effect.
    Before(SlackError),
    /// The request has its effect, but its answer is lost.
    After(SlackError),
}

#[derive(Debug, Default)]
struct State {
    posts: Vec<FakePost>,
    reactions: Vec<(String, String)>,
    faults: VecDeque<SlackFault>,
    requests: usize,
    /// The envelopes of Socket Mode: the ID, the body, how often it was sent, and whether it is acknowledged.
    envelopes: Vec<(String, Vec<u8>, usize, bool)>,
    opened: usize,
}

/// A fake of Slack. Its workspace is `T1`, and its bot `UBOT`. Requests are signed with the word `valid`.
#[derive(Debug, Default)]
pub struct FakeSlack(Arc<Mutex<State>>);

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeSlack {
    /// Returns the body of an event about a message that mentions the bot, unless it is a reply.
    pub fn message(id: &str, user: &str, ts: &str, thread: Option<&str>, text: &str) -> Vec<u8> {
        let thread = thread.unwrap_or(ts);
        let body = json!({ "id": id, "user": user, "channel": "C1", "ts": ts, "thread": thread, "text": text });
        body.to_string().into_bytes()
    }

    /// Returns the body of an event as [`FakeSlack::message`] does, with more fields: `edited`, `bot`, `files` (a number),
    /// `team`, `author_team`, and `installations`, each with `team` or `enterprise`.
    pub fn message_with(id: &str, user: &str, ts: &str, thread: Option<&str>, text: &str, more: &Value) -> Vec<u8> {
        let mut body: Value = serde_json::from_slice(&Self::message(id, user, ts, thread, text)).unwrap_or_default();
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.extend(more.clone());
        }
        body.to_string().into_bytes()
    }

    /// Returns the body of an event about a direct message.
    pub fn direct(id: &str, user: &str, ts: &str, text: &str) -> Vec<u8> {
        let body = json!({ "id": id, "user": user, "channel": "D1", "ts": ts, "thread": ts, "text": text });
        body.to_string().into_bytes()
    }

    /// Returns the body of an event about a deleted message.
    pub fn deleted(id: &str, ts: &str, thread: &str) -> Vec<u8> {
        json!({ "id": id, "channel": "C1", "ts": ts, "thread": thread, "deleted": true }).to_string().into_bytes()
    }

    /// Returns the posted messages.
    pub fn posts(&self) -> Vec<FakePost> {
        self.state().posts.clone()
    }

    /// Returns the reactions: the timestamp of the message, and the name.
    pub fn reactions(&self) -> Vec<(String, String)> {
        self.state().reactions.clone()
    }

    /// Returns the number of requests that write.
    pub fn requests(&self) -> usize {
        self.state().requests
    }

    /// Makes a later request that writes fail.
    pub fn fail(&self, fault: SlackFault) {
        self.state().faults.push_back(fault);
    }

    /// Sends an event over Socket Mode: once on each connection, until it is acknowledged.
    pub fn send(&self, envelope: &str, body: Vec<u8>) {
        self.state().envelopes.push((envelope.to_owned(), body, 0, false));
    }

    /// Returns how often an envelope was sent, and whether it was acknowledged.
    pub fn envelope(&self, id: &str) -> (usize, bool) {
        let state = self.state();
        let found = state.envelopes.iter().find(|(known, ..)| known == id);
        found.map_or((0, false), |(_, _, times, is_acknowledged)| (*times, *is_acknowledged))
    }

    /// Returns the number of connections that were opened.
    pub fn opened(&self) -> usize {
        self.state().opened
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    fn write<T>(&self, effect: impl FnOnce(&mut State) -> T) -> Result<T, SlackError> {
        let mut state = self.state();
        state.requests += 1;
        match state.faults.pop_front() {
            Some(SlackFault::Before(error)) => Err(error),
            Some(SlackFault::After(error)) => {
                effect(&mut state);
                Err(error)
            }
            None => Ok(effect(&mut state)),
        }
    }
}

/// Reads the body of an event of the fake.
fn read(body: &[u8]) -> Result<SlackDelivery, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if let Some(challenge) = body["challenge"].as_str() {
        return Ok(SlackDelivery::Challenge(challenge.to_owned()));
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let said = SlackText {
        user: text("user"),
        text: text("text"),
        is_mention: text("text").contains("<@UBOT>") && body["plain"].is_null(),
        is_direct: text("channel").starts_with('D'),
        author: if body["bot"] == true { SlackAuthor::Bot } else { SlackAuthor::Member },
        files: body["files"].as_u64().and_then(|files| files.try_into().ok()).unwrap_or_default(),
        code: None,
    };
    let optional = |name: &str| body[name].as_str().map(str::to_owned);
    let installation = |one: &Value| SlackInstallation {
        team: one["team"].as_str().map(str::to_owned),
        enterprise: one["enterprise"].as_str().map(str::to_owned),
        is_org_wide: one["enterprise"].is_string(),
    };
    let installations = body["installations"].as_array().into_iter().flatten().map(installation).collect();
    let is_deleted = body["deleted"] == true;
    Ok(SlackDelivery::Event(Box::new(SlackEvent {
        event_id: text("id"),
        team: optional("team").unwrap_or_else(|| "T1".to_owned()),
        installations,
        author_team: optional("author_team"),
        channel: text("channel"),
        thread: text("thread"),
        ts: text("ts"),
        content: match (is_deleted, body["edited"] == true) {
            (true, _) => SlackContent::Deleted,
            (_, true) => SlackContent::Edited(said),
            _ => SlackContent::Sent(said),
        },
    })))
}

/// A connection of Socket Mode.
struct FakeSocket {
    state: Arc<Mutex<State>>,
    has_begun: bool,
    sent: Vec<String>,
}

#[async_trait]
impl SlackSocket for FakeSocket {
    async fn next(&mut self) -> Result<SlackEnvelope, SlackError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Ok(SlackEnvelope::Hello);
        }
        loop {
            let next = {
                let mut state = lock(&self.state);
                let is_due = |id: &String, is_acknowledged: bool| !is_acknowledged && !self.sent.contains(id);
                let found = state.envelopes.iter_mut().find(|(id, _, _, acknowledged)| is_due(id, *acknowledged));
                found.map(|(id, body, times, _)| {
                    *times += 1;
                    (id.clone(), body.clone())
                })
            };
            if let Some((id, body)) = next {
                self.sent.push(id.clone());
                return Ok(SlackEnvelope::Delivery(id, read(&body).unwrap_or(SlackDelivery::Other)));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn acknowledge(&mut self, envelope: &str) -> Result<(), SlackError> {
        for (id, _, _, is_acknowledged) in &mut lock(&self.state).envelopes {
            *is_acknowledged |= id.as_str() == envelope;
        }
        Ok(())
    }
}

#[async_trait]
impl Slack for FakeSlack {
    fn may_be_signed(&self, _timestamp: &str, signature: &str, _now: Timestamp) -> bool {
        !signature.is_empty()
    }

    fn is_signed(&self, _secret: &SecretValue, request: &SignedRequest, _now: Timestamp) -> bool {
        request.signature == "valid"
    }

    fn read(&self, body: &[u8]) -> Result<SlackDelivery, String> {
        read(body)
    }

    async fn identity(&self, token: &SecretValue) -> Result<SlackIdentity, SlackError> {
        if token.0.ends_with("revoked") {
            return Err(SlackError::Repairable("Slack refused auth.test (token_revoked)".to_owned()));
        }
        let team = if token.0.ends_with("other") { "T2" } else { "T1" };
        let enterprise = token.0.ends_with("org").then(|| "E1".to_owned());
        let (name, bot_user) = ("Acme".to_owned(), "UBOT".to_owned());
        Ok(SlackIdentity { team: team.to_owned(), enterprise, name, bot_user })
    }

    async fn post(&self, _token: &SecretValue, message: SlackMessage<'_>) -> Result<String, SlackError> {
        self.write(|state| {
            let ts = format!("2000000000.{:06}", state.posts.len() + 1);
            state.posts.push(FakePost {
                channel: message.channel.to_owned(),
                thread: message.thread.to_owned(),
                ts: ts.clone(),
                text: message.text.to_owned(),
                marker: message.marker.to_owned(),
            });
            ts
        })
    }

    async fn update(&self, _token: &SecretValue, ts: &str, message: SlackMessage<'_>) -> Result<(), SlackError> {
        self.write(|state| {
            for post in state.posts.iter_mut().filter(|post| post.ts == ts && post.channel == message.channel) {
                message.text.clone_into(&mut post.text);
            }
        })
    }

    async fn find(
        &self,
        _token: &SecretValue,
        channel: &str,
        thread: &str,
        marker: &str,
        since: Timestamp,
    ) -> Result<Option<String>, SlackError> {
        let state = self.state();
        let oldest = (since.as_micros() / 1_000_000).to_string();
        let is_it = |post: &&FakePost| {
            post.channel == channel && post.thread == thread && post.marker == marker && post.ts > oldest
        };
        Ok(state.posts.iter().find(is_it).map(|post| post.ts.clone()))
    }

    async fn react(&self, _token: &SecretValue, _channel: &str, ts: &str, name: &str) -> Result<(), SlackError> {
        self.write(|state| {
            let reaction = (ts.to_owned(), name.to_owned());
            if !state.reactions.contains(&reaction) {
                state.reactions.push(reaction);
            }
        })
    }

    async fn open(&self, _token: &SecretValue) -> Result<Box<dyn SlackSocket>, SlackError> {
        self.state().opened += 1;
        Ok(Box::new(FakeSocket { state: Arc::clone(&self.0), has_begun: false, sent: Vec::new() }))
    }
}
