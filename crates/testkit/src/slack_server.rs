//! A stand-in for Slack on the loopback interface: its Web API with faults, signed events, and Socket Mode, which sends an
//! event again on the next connection until it is acknowledged.

mod api;
pub mod events;
mod socket;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use url::form_urlencoded;

/// The ID of the workspace.
pub const TEAM: &str = "T0ACME";

/// The ID of the bot's user.
pub const BOT: &str = "U0BOT";

/// The token of the bot.
pub const BOT_TOKEN: &str = "xoxb-1-stand-in";

/// The token of the app, which opens connections.
pub const APP_TOKEN: &str = "xapp-1-stand-in";

/// The secret with which events are signed.
pub const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

/// A fault of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Status 429 with this number in `Retry-After`, without an effect.
    RateLimited(u64),
    /// Status 500 without an effect.
    Fails,
    /// The connection is closed after the effect.
    AnswerLost,
    /// There is no answer after the effect; the connection stays open.
    Silent,
    /// An error code, without an effect.
    Refused(&'static str),
}

/// A posted message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// The channel.
    pub channel: String,
    /// The timestamp of the first message of the thread.
    pub thread: String,
    /// The timestamp.
    pub ts: String,
    /// The text as it is now.
    pub text: String,
    /// The texts that it had before.
    pub before: Vec<String>,
    metadata: Value,
}

/// A reply of a person.
struct Reply {
    channel: String,
    thread: String,
    ts: String,
}

/// An event of Socket Mode.
struct Envelope {
    id: String,
    payload: Value,
    /// The connections on which it was sent.
    sent_on: Vec<u64>,
    is_acknowledged: bool,
}

/// An open connection of Socket Mode.
#[derive(Default)]
struct Connection {
    /// `true` if its end is to be announced.
    announces: bool,
    /// `true` if it gets no more events.
    ends: bool,
    /// `true` if it is to be closed without an announcement.
    breaks: bool,
}

#[derive(Default)]
struct State {
    posts: Vec<Post>,
    /// The replies of people, which [`SlackServer::add_replies`] has added.
    replies: Vec<Reply>,
    reactions: Vec<(String, String, String)>,
    calls: BTreeMap<String, usize>,
    faults: Vec<(Fault, String, u32)>,
    revoked: BTreeSet<String>,
    envelopes: Vec<Envelope>,
    connections: BTreeMap<u64, Connection>,
    connected: u64,
    most_connections: usize,
}

struct Shared {
    socket_url: String,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The stand-in, which runs until it is dropped.
pub struct SlackServer {
    /// The URL of the interface, for the setting `slack-api-url`.
    pub url: String,
    shared: Arc<Shared>,
    serving: [JoinHandle<()>; 2],
}

impl Drop for SlackServer {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

impl SlackServer {
    /// Starts a stand-in with one workspace.
    pub async fn start() -> Self {
        let (api, sockets) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let url = format!("http://{}/api/", api.local_addr().unwrap());
        let socket_url = format!("ws://{}/link/?ticket=one-time", sockets.local_addr().unwrap());
        let shared = Arc::new(Shared { socket_url, state: Mutex::default() });
        let serving = [
            tokio::spawn(serve_api(api, Arc::clone(&shared))),
            tokio::spawn(socket::serve(sockets, Arc::clone(&shared))),
        ];
        Self { url, shared, serving }
    }

    /// Returns the messages that the bot has posted, oldest first.
    #[must_use]
    pub fn posts(&self) -> Vec<Post> {
        self.shared.state().posts.clone()
    }

    /// Returns the texts of the bot in a thread, oldest first.
    #[must_use]
    pub fn thread(&self, channel: &str, ts: &str) -> Vec<String> {
        let posts = self.posts().into_iter().filter(|post| post.channel == channel && post.thread == ts);
        posts.map(|post| post.text).collect()
    }

    /// Returns the reactions: the channel, the timestamp of the message, and the name.
    #[must_use]
    pub fn reactions(&self) -> Vec<(String, String, String)> {
        self.shared.state().reactions.clone()
    }

    /// Returns the number of calls of a method.
    #[must_use]
    pub fn calls(&self, method: &str) -> usize {
        self.shared.state().calls.get(method).copied().unwrap_or_default()
    }

    /// Plans a fault of the next `times` calls of a method.
    pub fn fault(&self, fault: Fault, method: &str, times: u32) {
        self.shared.state().faults.push((fault, method.to_owned(), times));
    }

    /// Revokes a token.
    pub fn revoke(&self, token: &str) {
        self.shared.state().revoked.insert(token.to_owned());
    }

    /// Accepts a token again that was revoked.
    pub fn restore(&self, token: &str) {
        self.shared.state().revoked.remove(token);
    }

    /// Adds replies of people to a thread, without events. The first one has the timestamp `second`; each of the others is
    /// a microsecond later.
    pub fn add_replies(&self, channel: &str, thread: &str, second: u64, count: u32) {
        let reply = |number| Reply {
            channel: channel.to_owned(),
            thread: thread.to_owned(),
            ts: format!("{second}.{number:06}"),
        };
        self.shared.state().replies.extend((0..count).map(reply));
    }

    /// Sends an event over Socket Mode, on a connection that is open or opened later, and returns the ID of its envelope.
    pub fn send(&self, payload: Value) -> String {
        let mut state = self.shared.state();
        let id = format!("envelope-{}", state.envelopes.len() + 1);
        state.envelopes.push(Envelope { id: id.clone(), payload, sent_on: Vec::new(), is_acknowledged: false });
        id
    }

    /// Returns whether an envelope was acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self, id: &str) -> bool {
        self.shared.state().envelopes.iter().any(|envelope| envelope.id == id && envelope.is_acknowledged)
    }

    /// Returns how often an envelope was sent.
    #[must_use]
    pub fn times_sent(&self, id: &str) -> usize {
        let state = self.shared.state();
        state.envelopes.iter().find(|envelope| envelope.id == id).map_or(0, |envelope| envelope.sent_on.len())
    }

    /// Returns the number of open connections, and the largest number that were open at the same time.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        let state = self.shared.state();
        (state.connections.len(), state.most_connections)
    }

    /// Returns the number of connections that were opened so far.
    #[must_use]
    pub fn connected(&self) -> u64 {
        self.shared.state().connected
    }

    /// Announces the end of all open connections, as Slack does every few hours.
    pub fn announce_end(&self) {
        self.shared.state().connections.values_mut().for_each(|connection| connection.announces = true);
    }

    /// Closes all open connections without an announcement.
    pub fn break_connections(&self) {
        self.shared.state().connections.values_mut().for_each(|connection| connection.breaks = true);
    }
}

/// Ends a connection without an answer.
#[derive(Debug)]
struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is lost")
    }
}

impl std::error::Error for Lost {}

async fn serve_api(listener: TcpListener, shared: Arc<Shared>) {
    // Dropping the set closes the connections.
    let mut clients = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(Arc::clone(&shared), request));
        clients.spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
        });
    }
}

/// A call of a method.
struct MethodCall {
    method: String,
    token: String,
    arguments: Value,
}

impl MethodCall {
    async fn read(request: Request<Incoming>) -> Self {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let arguments = match head.method {
            Method::GET => {
                let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned();
                Value::Object(query.map(|(name, value)| (name, Value::String(value))).collect())
            }
            _ => serde_json::from_slice(&body).unwrap_or_default(),
        };
        let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        Self {
            method: head.uri.path().trim_start_matches("/api/").to_owned(),
            token: token.unwrap_or_default().to_owned(),
            arguments,
        }
    }

    fn text(&self, name: &str) -> String {
        self.arguments[name].as_str().unwrap_or_default().to_owned()
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Lost> {
    let call = MethodCall::read(request).await;
    match carry_out(&shared, &call) {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}

/// Carries out a call, with its fault. `None` means that it is never answered.
fn carry_out(shared: &Shared, call: &MethodCall) -> Option<Result<Response<Full<Bytes>>, Lost>> {
    let mut state = shared.state();
    *state.calls.entry(call.method.clone()).or_default() += 1;
    let planned = state.faults.iter_mut().find(|(_, method, times)| *times > 0 && *method == call.method);
    let fault = planned.map(|(fault, _, times)| {
        *times -= 1;
        fault.clone()
    });
    let json = |status: u16, body: &Value| {
        let answer = Response::builder().status(status).header(CONTENT_TYPE, "application/json; charset=utf-8");
        answer.body(Full::from(body.to_string())).unwrap()
    };
    Some(match fault {
        Some(Fault::RateLimited(seconds)) => {
            let mut answer = json(429, &json!({ "ok": false, "error": "ratelimited" }));
            answer.headers_mut().insert(RETRY_AFTER, seconds.into());
            Ok(answer)
        }
        Some(Fault::Fails) => Ok(json(500, &json!({ "ok": false, "error": "internal_error" }))),
        Some(Fault::Refused(code)) => Ok(json(200, &api::refused(code))),
        Some(Fault::AnswerLost) => {
            api::answer(&mut state, call, &shared.socket_url);
            Err(Lost)
        }
        Some(Fault::Silent) => {
            api::answer(&mut state, call, &shared.socket_url);
            return None;
        }
        None => Ok(json(200, &api::answer(&mut state, call, &shared.socket_url))),
    })
}
