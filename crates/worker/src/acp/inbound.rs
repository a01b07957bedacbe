//! Reads everything that the agent sends, in order.
//!
//! Each line passes through this module before the protocol crate sees it, for three reasons:
//! - The crate's queue of lines that it has not dispatched yet is unbounded, so only this module can make a slow reader
//!   of the updates slow down the agent.
//! - The crate drops updates that it does not know, and newer agents send such updates.
//! - The crate calls its handlers some time after it has read a line, so updates that a handler reports could overtake
//!   other updates, or be overtaken by them.
//!
//! Invariants:
//! - An update is in the caller's channel before anything that the agent sent after it is forwarded.
//! - Everything that is forwarded to the crate is small or awaited by us: answers, and requests without their own
//!   params. At most [`UNANSWERED`] requests are in the crate at a time.

use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use futures::Stream;
use journeyman_core::json::replace_lone_surrogates;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, watch};

use super::error::AcpError;
use super::lines::{LineReader, Read, head};
use super::permission::{self, Answer, Calls, Policy, Refusals};
use super::translate::{self, Update};
use super::{Sender, Tap};

/// The only request of an agent that is answered with a result.
pub(super) const ASK_PERMISSION: &str = "session/request_permission";

/// The maximum number of requests of the agent whose answers have not been written yet. At this limit, nothing more is
/// read: the agent may send requests without reading the answers.
pub(super) const UNANSWERED: usize = 64;

/// The maximum number of characters of a line or a name that are logged.
const LOGGED_CHARS: usize = 200;

/// JSON-RPC's "internal error", for errors without a code.
const INTERNAL_ERROR: i32 = -32603;

/// JSON-RPC's "parse error".
const PARSE_ERROR: i32 = -32700;

/// The phase of the conversation, which determines what happens to an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No turn is running. The caller might not be reading updates, so the client must not wait for it: updates that do
    /// not fit into the channel are dropped.
    Idle,
    /// An earlier session is being restored, and no turn has begun since. Updates repeat that session, and are dropped.
    Restoring,
    /// A turn is running. The caller reads the updates, and none are dropped.
    Turn,
    /// A turn is being cancelled. Updates are handled as in a turn, but no more permissions are given.
    Cancelling,
}

/// The reader of the agent's stdout.
pub(super) struct Inbound {
    pub(super) lines: LineReader,
    /// The value of [`super::Limits::total_bytes`], for the error.
    pub(super) total_bytes: u64,
    pub(super) updates: mpsc::Sender<Update>,
    pub(super) tap: Option<Tap>,
    pub(super) policy: Policy,
    pub(super) calls: Calls,
    pub(super) refusals: Refusals,
    pub(super) phase: watch::Receiver<Phase>,
    /// Permits for requests that may still be forwarded; [`super::lines::write_lines`] returns them.
    pub(super) unanswered: Arc<Semaphore>,
    /// The rule that the agent broke. It is set before the stream ends.
    pub(super) broken: Arc<OnceLock<AcpError>>,
}

impl Inbound {
    /// Returns the lines for the protocol crate: valid requests and answers.
    pub(super) fn into_lines(self) -> impl Stream<Item = io::Result<String>> + Send + 'static {
        futures::stream::unfold(self, |mut inbound| async move {
            let line = inbound.next_line().await?;
            Some((line, inbound))
        })
    }

    async fn next_line(&mut self) -> Option<io::Result<String>> {
        loop {
            let bytes = match self.lines.read().await {
                Ok(Read::Line(bytes)) => bytes,
                Ok(Read::End) => return None,
                Ok(Read::TooLong) => {
                    let rule = format!("the agent sent a line of more than {} bytes", self.lines.limit());
                    return Some(Err(self.end_stream(AcpError::Protocol(rule))));
                }
                Ok(Read::TooMuch) => {
                    return Some(Err(self.end_stream(AcpError::TooMuch { bytes: self.total_bytes })));
                }
                Err(error) => return Some(Err(error)),
            };
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim();
            if let Some(tap) = &self.tap {
                tap(Sender::Agent, line);
            }
            let (before, line) = split_message(line);
            if !before.is_empty() {
                let beginning = head(&visible(before), LOGGED_CHARS).to_owned();
                self.report(Update::Dropped { reason: BEFORE_MESSAGE.to_owned(), beginning }).await;
            }
            match Incoming::read(line) {
                Incoming::Nothing => {}
                Incoming::Dropped { reason, replacement } => {
                    self.report(Update::Dropped { reason, beginning: head(line, LOGGED_CHARS).to_owned() }).await;
                    match replacement {
                        Replacement::Nothing => {}
                        Replacement::Refusal { id, method } => {
                            return Some(Ok(self.request(&id, &method, &Value::Null).await));
                        }
                        Replacement::Failure(answer) => return Some(Ok(answer)),
                        Replacement::End(error) => return Some(Err(self.end_stream(AcpError::Protocol(error)))),
                    }
                }
                Incoming::Notification { method, params } => self.notification(&method, params).await,
                Incoming::Request { id, method, params } => {
                    return Some(Ok(self.request(&id, &method, &params).await));
                }
                Incoming::Answer(line) => return Some(Ok(line)),
            }
        }
    }

    /// Records the rule that the agent broke, and returns the error that ends the stream.
    fn end_stream(&self, why: AcpError) -> io::Error {
        let text = why.to_string();
        // The stream ends with the first error, so the value is set only once.
        drop(self.broken.set(why));
        io::Error::new(io::ErrorKind::InvalidData, text)
    }

    async fn notification(&mut self, method: &str, params: Value) {
        if method != "session/update" {
            // These are extensions, and cancellations of requests that were answered immediately.
            tracing::debug!(method = head(method, LOGGED_CHARS), "ignored a notification");
            return;
        }
        if let Some(update) = translate::update(params) {
            self.calls.note(&update);
            self.refusals.note(&update);
            self.report(update).await;
        }
    }

    /// Decides on a request, reports the decision, and returns the request for the crate. The params of a permission
    /// request are replaced by the answer, which the crate's handler sends back unchanged; other requests are refused,
    /// and need no params.
    async fn request(&mut self, id: &Value, method: &str, params: &Value) -> String {
        if let Ok(permit) = self.unanswered.acquire().await {
            permit.forget();
        }
        let mut stripped = json!({});
        if method == ASK_PERMISSION {
            let cancelling = *self.phase.borrow() == Phase::Cancelling;
            // The protocol requires the outcome "cancelled" for all permission requests of a turn that is being
            // cancelled.
            let answer = self.policy.answer(params, &self.calls);
            let decision = permission::decide(params, if cancelling { &[] } else { answer.kinds() });
            if !cancelling && answer == Answer::Refuse {
                self.refusals.note(&decision.update);
            }
            self.report(decision.update).await;
            stripped = decision.answer;
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": stripped }).to_string()
    }

    /// Sends an update to the caller's channel. In a turn, this waits while the channel is full, and the agent is not
    /// read meanwhile. This cannot cause a deadlock, because neither the writing to the agent nor the timeouts depend
    /// on it.
    async fn report(&mut self, update: Update) {
        let phase = *self.phase.borrow();
        match phase {
            Phase::Restoring => {}
            Phase::Idle => {
                if let Err(TrySendError::Full(_)) = self.updates.try_send(update) {
                    tracing::debug!("dropped an update outside a turn: the channel is full");
                }
            }
            Phase::Turn | Phase::Cancelling => {
                if self.updates.send(update).await.is_err() {
                    tracing::trace!("dropped an update: the caller has closed the channel");
                }
            }
        }
    }
}

/// The reason for dropping a line that is neither a request, a notification, nor an answer.
const NO_MESSAGE: &str = "not a JSON-RPC message";

/// The reason for dropping what precedes a message in its line.
const BEFORE_MESSAGE: &str = "not a JSON-RPC message, before one in the same line";

/// Splits a line into a message and what precedes it: agents print the title of a terminal or a byte order mark before
/// their first message. A line without a message stays whole.
fn split_message(line: &str) -> (&str, &str) {
    let Some(start) = line.find('{').filter(|start| *start > 0) else { return ("", line) };
    let (before, message) = line.split_at(start);
    let is_message = serde_json::from_str::<Map<String, Value>>(&replace_lone_surrogates(message))
        .is_ok_and(|message| message.contains_key("jsonrpc"));
    if is_message { (before, message) } else { ("", line) }
}

/// Returns a text with its control characters and byte order marks in a form that people can read.
fn visible(text: &str) -> String {
    text.chars().flat_map(|c| c.escape_debug()).collect()
}

/// The replacement for a dropped line.
#[derive(Debug, PartialEq)]
enum Replacement {
    /// No replacement: neither side waits for one.
    Nothing,
    /// A refusal of the agent's request.
    Refusal { id: Value, method: String },
    /// An error as the answer to our request.
    Failure(String),
    /// The end of the connection: one side waits, and the line does not show for which request.
    End(String),
}

impl Replacement {
    /// Returns the replacement for a JSON object that is not a message: it may be an answer with neither a result nor
    /// an error.
    fn of(message: &Map<String, Value>) -> Self {
        match message.get("id") {
            Some(id) if message.contains_key("jsonrpc") && !message.contains_key("method") => {
                Self::failure(id, "it has neither a result nor an error")
            }
            _ => Self::Nothing,
        }
    }

    fn failure(id: &Value, reason: &str) -> Self {
        let error =
            json!({ "code": PARSE_ERROR, "message": format!("the agent's answer could not be read: {reason}") });
        Self::Failure(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
    }
}

/// The members of a JSON-RPC message that precede the invalid part of its JSON.
#[derive(Debug, Default)]
struct Beginning {
    id: Option<Value>,
    method: Option<String>,
    is_answer: bool,
}

impl Beginning {
    fn read(line: &str) -> Self {
        let mut beginning = Self::default();
        // Parsing ends with the same error again, which the caller already knows.
        drop(serde_json::Deserializer::from_str(line).deserialize_map(BeginningVisitor(&mut beginning)));
        beginning
    }

    fn replacement(self, reason: &str) -> Replacement {
        match self {
            Self { id: Some(id), method: Some(method), .. } => Replacement::Refusal { id, method },
            Self { id: Some(id), is_answer: true, .. } => Replacement::failure(&id, reason),
            Self { method: None, is_answer: true, .. } => {
                Replacement::End(format!("the agent sent an answer that could not be read: {reason}"))
            }
            Self { method: Some(method), .. } if method == ASK_PERMISSION => {
                Replacement::End(format!("the agent asked for permission, but the request could not be read: {reason}"))
            }
            _ => Replacement::Nothing,
        }
    }
}

struct BeginningVisitor<'a>(&'a mut Beginning);

impl<'de> Visitor<'de> for BeginningVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "id" => self.0.id = Some(members.next_value()?),
                "method" => self.0.method = Some(members.next_value()?),
                name => {
                    self.0.is_answer |= matches!(name, "result" | "error");
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A parsed line from the agent.
#[derive(Debug, PartialEq)]
enum Incoming {
    /// An empty line.
    Nothing,
    /// A line that is not a message: agents print banners, warnings and logs, and some write invalid JSON.
    Dropped {
        /// The problem with the line.
        reason: String,
        /// The replacement that keeps both sides from waiting.
        replacement: Replacement,
    },
    Notification {
        method: String,
        params: Value,
    },
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// An answer to our request, normalized.
    Answer(String),
}

impl Incoming {
    /// Parses a line without surrounding white space.
    fn read(line: &str) -> Self {
        if line.is_empty() {
            return Self::Nothing;
        }
        let repaired = replace_lone_surrogates(line);
        match serde_json::from_str(&repaired) {
            Ok(Value::Object(message)) => {
                let replacement = Replacement::of(&message);
                Self::message(message).unwrap_or_else(|| Self::Dropped { reason: NO_MESSAGE.to_owned(), replacement })
            }
            // This includes arrays, because the protocol has no batches.
            Ok(_) => Self::Dropped { reason: NO_MESSAGE.to_owned(), replacement: Replacement::Nothing },
            Err(_) if !line.starts_with('{') => {
                Self::Dropped { reason: NO_MESSAGE.to_owned(), replacement: Replacement::Nothing }
            }
            Err(error) => {
                let reason = format!("not valid JSON: {error}");
                let replacement = Beginning::read(&repaired).replacement(&reason);
                Self::Dropped { reason, replacement }
            }
        }
    }

    fn message(mut message: Map<String, Value>) -> Option<Self> {
        let id = message.remove("id");
        match (message.remove("method"), id) {
            (Some(Value::String(method)), None) => {
                Some(Self::Notification { method, params: message.remove("params").unwrap_or_default() })
            }
            (Some(Value::String(method)), Some(id)) => {
                Some(Self::Request { id, method, params: message.remove("params").unwrap_or_default() })
            }
            (None, Some(id)) => answer(&id, message).map(|answer| Self::Answer(answer.to_string())),
            _ => None,
        }
    }
}

/// Returns an answer in a form that the crate accepts. The crate drops an answer with both a result and a null error,
/// and one whose error has no message or a code that is not a number; we would then wait forever for the answer.
fn answer(id: &Value, mut message: Map<String, Value>) -> Option<Value> {
    match (message.remove("error"), message.remove("result")) {
        (None | Some(Value::Null), Some(result)) => Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        (None, None) => None,
        (Some(error), _) => Some(json!({ "jsonrpc": "2.0", "id": id, "error": normalized(&error) })),
    }
}

fn normalized(error: &Value) -> Value {
    let code =
        error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()).unwrap_or(INTERNAL_ERROR);
    let message = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
    let mut normalized = json!({ "code": code, "message": message });
    if let (Some(fields), Some(data)) = (normalized.as_object_mut(), error.get("data")) {
        fields.insert("data".to_owned(), data.clone());
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_answer(line: &str) -> Option<Value> {
        match Incoming::read(line) {
            Incoming::Answer(answer) => serde_json::from_str(&answer).ok(),
            _ => None,
        }
    }

    fn dropped(line: &str) -> Option<Replacement> {
        match Incoming::read(line) {
            Incoming::Dropped { replacement, .. } => Some(replacement),
            _ => None,
        }
    }

    #[test]
    fn a_message_is_found_behind_what_a_terminal_would_show() {
        let message = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for before in ["\u{feff}", "\u{1b}]0;title\u{7}", "> ", "a { b"] {
            let line = format!("{before}{message}");
            let expected = if before.contains('{') { ("", line.as_str()) } else { (before, message) };
            assert_eq!(split_message(&line), expected, "{before:?}");
        }
        for line in [message, "", "Welcome!", "log: {\"level\": 1}", "x {"] {
            assert_eq!(split_message(line), ("", line));
        }
        assert_eq!(visible("\u{feff}\u{1b}]é"), "\\u{feff}\\u{1b}]é");
    }

    #[test]
    fn a_line_with_a_lone_surrogate_is_not_dropped() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"text":"a\ud83d"}}"#;
        let params = json!({ "text": "a\u{fffd}" });
        assert_eq!(Incoming::read(update), Incoming::Notification { method: "session/update".to_owned(), params });
        let request = r#"{"jsonrpc":"2.0","id":4,"method":"m","params":["\ude00"]}"#;
        assert_eq!(
            Incoming::read(request),
            Incoming::Request { id: json!(4), method: "m".to_owned(), params: json!(["\u{fffd}"]) }
        );
        assert!(read_answer(r#"{"jsonrpc":"2.0","id":5,"result":{"text":"\ud83d"}}"#).is_some());
    }

    #[test]
    fn neither_side_waits_for_a_dropped_line() {
        let refusal = |id: Value| Replacement::Refusal { id, method: ASK_PERMISSION.to_owned() };
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","method":"session/update","params":{"x":NaN}}"#, Replacement::Nothing),
            (r#"{"jsonrpc":"2.0","id":3,"method":"session/request_permission","params":{"x":NaN}}"#, refusal(json!(3))),
        ] {
            assert_eq!(dropped(line), Some(expected), "{line}");
        }
        for line in [r#"{"jsonrpc":"2.0","id":3,"result":{"x":NaN}}"#, r#"{"jsonrpc":"2.0","id":3}"#] {
            let Some(Replacement::Failure(answer)) = dropped(line) else { panic!("{line}") };
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(PARSE_ERROR)), "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","result":{"x":NaN},"id":3}"#,
            r#"{"jsonrpc":"2.0","method":"session/request_permission","params":{"x":NaN},"id":3}"#,
        ] {
            assert!(matches!(dropped(line), Some(Replacement::End(_))), "{line}");
        }
    }

    #[test]
    fn lines_that_are_not_messages_are_dropped() {
        for line in [
            "Welcome!",
            "{",
            "[1]",
            "17",
            "null",
            "\"x\"",
            "{}",
            r#"{"level":30,"msg":"ready"}"#,
            r#"{"id":1}"#,
            r#"{"method":4,"id":1}"#,
            r#"[{"jsonrpc":"2.0","method":"session/update","params":{}}]"#,
        ] {
            assert_eq!(dropped(line), Some(Replacement::Nothing), "{line}");
        }
        assert_eq!(Incoming::read(""), Incoming::Nothing);
    }

    #[test]
    fn the_id_distinguishes_requests_from_notifications() {
        assert_eq!(
            Incoming::read(r#"{"method":"m","params":[1]}"#),
            Incoming::Notification { method: "m".to_owned(), params: json!([1]) }
        );
        assert_eq!(
            Incoming::read(r#"{"jsonrpc":"2.0","id":0,"method":"m"}"#),
            Incoming::Request { id: json!(0), method: "m".to_owned(), params: Value::Null }
        );
    }

    #[test]
    fn answers_are_normalized_for_the_crate() {
        for (line, expected) in [
            (r#"{"id":"a","result":null}"#, json!({ "jsonrpc": "2.0", "id": "a", "result": null })),
            (r#"{"id":"a","result":1,"error":null}"#, json!({ "jsonrpc": "2.0", "id": "a", "result": 1 })),
            (
                r#"{"id":"a","result":null,"error":"no"}"#,
                json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": -32603, "message": "\"no\"" } }),
            ),
            (
                r#"{"id":"a","error":{"code":"E","message":"m","data":[1]}}"#,
                json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": -32603, "message": "m", "data": [1] } }),
            ),
        ] {
            assert_eq!(read_answer(line), Some(expected), "{line}");
        }
    }
}
