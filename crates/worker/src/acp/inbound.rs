//! All that the agent says, in the order in which it says it.
//!
//! The lines pass through here before the protocol crate sees them, for three reasons. The crate queues without a bound
//! what it has not dispatched yet, so only here can a slow reader of the updates slow the agent down. The crate drops
//! updates that it does not know, and with them what newer agents tell. And a crate's handler runs later than the line
//! was read, so that what it reports could overtake, or be overtaken by, other updates.
//!
//! Invariants:
//! - An update is in the caller's channel before anything that the agent sent after it is handed on.
//! - What the crate is given is small or awaited by us: answers, and requests stripped of their params. No more than
//!   [`UNANSWERED`] requests are in the crate at a time.

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

/// The one request of an agent that is answered with a result.
pub(super) const ASK_PERMISSION: &str = "session/request_permission";

/// How many requests of the agent may wait until their answers are written. An agent that asks and does not read the
/// answers is not read any further.
pub(super) const UNANSWERED: usize = 64;

/// The most of a line or a name that is logged, in characters.
const LOGGED_CHARS: usize = 200;

/// JSON-RPC's "internal error", for errors without a code.
const INTERNAL_ERROR: i32 = -32603;

/// JSON-RPC's "parse error".
const PARSE_ERROR: i32 = -32700;

/// What the conversation is at, and so what happens to an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No turn is going on. The caller may not be reading yet, so nothing may wait for it: what does not fit is
    /// dropped.
    Idle,
    /// An earlier session is being restored, and no turn has begun since. Updates are old ones, repeated: dropped.
    Restoring,
    /// A turn is going on. The caller reads; nothing is lost.
    Turn,
    /// The same, and the turn is to end: permissions are no longer given.
    Cancelling,
}

/// The reader of the agent's stdout.
pub(super) struct Inbound {
    pub(super) lines: LineReader,
    /// As [`super::Limits::total_bytes`].
    pub(super) total_bytes: u64,
    pub(super) updates: mpsc::Sender<Update>,
    pub(super) tap: Option<Tap>,
    pub(super) policy: Policy,
    pub(super) calls: Calls,
    pub(super) refusals: Refusals,
    pub(super) phase: watch::Receiver<Phase>,
    /// A permit for each request that may still be handed on; given back by [`super::lines::write_lines`].
    pub(super) unanswered: Arc<Semaphore>,
    /// Set, before the stream ends, to the rule that the agent broke.
    pub(super) broken: Arc<OnceLock<AcpError>>,
}

impl Inbound {
    /// The lines that are for the protocol crate: valid requests and answers.
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
                    return Some(Err(self.break_off(AcpError::Protocol(rule))));
                }
                Ok(Read::TooMuch) => {
                    return Some(Err(self.break_off(AcpError::TooMuch { bytes: self.total_bytes })));
                }
                Err(error) => return Some(Err(error)),
            };
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim();
            if let Some(tap) = &self.tap {
                tap(Sender::Agent, line);
            }
            match Said::read(line) {
                Said::Nothing => {}
                Said::Dropped { reason, instead } => {
                    self.report(Update::Dropped { reason, beginning: head(line, LOGGED_CHARS).to_owned() }).await;
                    match instead {
                        Instead::Nothing => {}
                        Instead::Refusal { id, method } => {
                            return Some(Ok(self.asked(&id, &method, &Value::Null).await));
                        }
                        Instead::Failure(answer) => return Some(Ok(answer)),
                        Instead::End(error) => return Some(Err(self.break_off(AcpError::Protocol(error)))),
                    }
                }
                Said::Notification { method, params } => self.told(&method, params).await,
                Said::Request { id, method, params } => {
                    return Some(Ok(self.asked(&id, &method, &params).await));
                }
                Said::Answer(line) => return Some(Ok(line)),
            }
        }
    }

    /// Notes the rule that the agent broke; the stream ends with it.
    fn break_off(&self, why: AcpError) -> io::Error {
        let text = why.to_string();
        // It is set once only.
        drop(self.broken.set(why));
        io::Error::new(io::ErrorKind::InvalidData, text)
    }

    async fn told(&mut self, method: &str, params: Value) {
        if method != "session/update" {
            // Extensions, and cancellations of requests that were answered at once.
            tracing::debug!(method = head(method, LOGGED_CHARS), "ignored a notification");
            return;
        }
        if let Some(update) = translate::update(params) {
            self.calls.note(&update);
            self.refusals.note(&update);
            self.report(update).await;
        }
    }

    /// Decides and reports on a request, and makes it into the one that the crate is given. For a permission, the
    /// params become the answer, which the crate's handler sends back as it is; other requests need no params to be
    /// refused.
    async fn asked(&mut self, id: &Value, method: &str, params: &Value) -> String {
        if let Ok(permit) = self.unanswered.acquire().await {
            permit.forget();
        }
        let mut stripped = json!({});
        if method == ASK_PERMISSION {
            let cancelling = *self.phase.borrow() == Phase::Cancelling;
            // The protocol wants "cancelled" for all that is asked in a turn that is being cancelled.
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

    /// Puts an update into the caller's channel. In a turn this waits while the channel is full, and the agent is not
    /// read meanwhile; that cannot lock anything up, because the other direction and the time-outs do not pass here.
    async fn report(&mut self, update: Update) {
        let phase = *self.phase.borrow();
        match phase {
            Phase::Restoring => {}
            Phase::Idle => {
                if let Err(TrySendError::Full(_)) = self.updates.try_send(update) {
                    tracing::debug!("dropped an update outside a turn: nobody reads");
                }
            }
            Phase::Turn | Phase::Cancelling => {
                if self.updates.send(update).await.is_err() {
                    tracing::trace!("the caller is no longer interested in updates");
                }
            }
        }
    }
}

/// The reason for dropping a line that is neither a request, a notification, nor an answer.
const NO_MESSAGE: &str = "not a JSON-RPC message";

/// The replacement for a dropped line.
#[derive(Debug, PartialEq)]
enum Instead {
    /// Nothing: neither side waits.
    Nothing,
    /// The agent's request is refused.
    Refusal { id: Value, method: String },
    /// An answer to our request: an error.
    Failure(String),
    /// The connection ends: one side waits, and the line does not say for which request.
    End(String),
}

impl Instead {
    /// For a JSON object that is not a message: it may be an answer with neither a result nor an error.
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

/// The members of a JSON-RPC message that stand before the place where its JSON breaks.
#[derive(Debug, Default)]
struct Beginning {
    id: Option<Value>,
    method: Option<String>,
    is_answer: bool,
}

impl Beginning {
    fn read(line: &str) -> Self {
        let mut beginning = Self::default();
        // It ends with the error that is known already.
        drop(serde_json::Deserializer::from_str(line).deserialize_map(BeginningVisitor(&mut beginning)));
        beginning
    }

    fn instead(self, reason: &str) -> Instead {
        match self {
            Self { id: Some(id), method: Some(method), .. } => Instead::Refusal { id, method },
            Self { id: Some(id), is_answer: true, .. } => Instead::failure(&id, reason),
            Self { method: None, is_answer: true, .. } => {
                Instead::End(format!("the agent sent an answer that could not be read: {reason}"))
            }
            Self { method: Some(method), .. } if method == ASK_PERMISSION => {
                Instead::End(format!("the agent asked for a permission, and the request could not be read: {reason}"))
            }
            _ => Instead::Nothing,
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

/// A line, understood.
#[derive(Debug, PartialEq)]
enum Said {
    /// An empty line.
    Nothing,
    /// A line that is not a message: agents print banners, warnings, and logs, and some write broken JSON.
    Dropped {
        /// The problem with the line.
        reason: String,
        /// The replacement that keeps both sides from waiting.
        instead: Instead,
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
    /// An answer to a request of ours, tidied.
    Answer(String),
}

impl Said {
    /// Reads a line without white space around it.
    fn read(line: &str) -> Self {
        if line.is_empty() {
            return Self::Nothing;
        }
        let repaired = replace_lone_surrogates(line);
        match serde_json::from_str(&repaired) {
            Ok(Value::Object(message)) => {
                let instead = Instead::of(&message);
                Self::understand(message).unwrap_or_else(|| Self::Dropped { reason: NO_MESSAGE.to_owned(), instead })
            }
            // Arrays too: the protocol has no batches.
            Ok(_) => Self::Dropped { reason: NO_MESSAGE.to_owned(), instead: Instead::Nothing },
            Err(_) if !line.starts_with('{') => {
                Self::Dropped { reason: NO_MESSAGE.to_owned(), instead: Instead::Nothing }
            }
            Err(error) => {
                let reason = format!("not valid JSON: {error}");
                let instead = Beginning::read(&repaired).instead(&reason);
                Self::Dropped { reason, instead }
            }
        }
    }

    fn understand(mut message: Map<String, Value>) -> Option<Self> {
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

/// Makes an answer into what the crate accepts. The crate drops an answer with both a result and a null error, or with
/// an error that has no message or a code that is not a number, and we would wait for that answer for ever.
fn answer(id: &Value, mut message: Map<String, Value>) -> Option<Value> {
    match (message.remove("error"), message.remove("result")) {
        (None | Some(Value::Null), Some(result)) => Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        (None, None) => None,
        (Some(error), _) => Some(json!({ "jsonrpc": "2.0", "id": id, "error": tidied(&error) })),
    }
}

fn tidied(error: &Value) -> Value {
    let code =
        error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()).unwrap_or(INTERNAL_ERROR);
    let message = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
    let mut tidied = json!({ "code": code, "message": message });
    if let (Some(fields), Some(data)) = (tidied.as_object_mut(), error.get("data")) {
        fields.insert("data".to_owned(), data.clone());
    }
    tidied
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_answer(line: &str) -> Option<Value> {
        match Said::read(line) {
            Said::Answer(answer) => serde_json::from_str(&answer).ok(),
            _ => None,
        }
    }

    fn dropped(line: &str) -> Option<Instead> {
        match Said::read(line) {
            Said::Dropped { instead, .. } => Some(instead),
            _ => None,
        }
    }

    #[test]
    fn a_lone_surrogate_drops_nothing() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"text":"a\ud83d"}}"#;
        let params = json!({ "text": "a\u{fffd}" });
        assert_eq!(Said::read(update), Said::Notification { method: "session/update".to_owned(), params });
        let request = r#"{"jsonrpc":"2.0","id":4,"method":"m","params":["\ude00"]}"#;
        assert_eq!(
            Said::read(request),
            Said::Request { id: json!(4), method: "m".to_owned(), params: json!(["\u{fffd}"]) }
        );
        assert!(read_answer(r#"{"jsonrpc":"2.0","id":5,"result":{"text":"\ud83d"}}"#).is_some());
    }

    #[test]
    fn nobody_waits_for_a_line_that_was_dropped() {
        let refusal = |id: Value| Instead::Refusal { id, method: ASK_PERMISSION.to_owned() };
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","method":"session/update","params":{"x":NaN}}"#, Instead::Nothing),
            (r#"{"jsonrpc":"2.0","id":3,"method":"session/request_permission","params":{"x":NaN}}"#, refusal(json!(3))),
        ] {
            assert_eq!(dropped(line), Some(expected), "{line}");
        }
        for line in [r#"{"jsonrpc":"2.0","id":3,"result":{"x":NaN}}"#, r#"{"jsonrpc":"2.0","id":3}"#] {
            let Some(Instead::Failure(answer)) = dropped(line) else { panic!("{line}") };
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(PARSE_ERROR)), "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","result":{"x":NaN},"id":3}"#,
            r#"{"jsonrpc":"2.0","method":"session/request_permission","params":{"x":NaN},"id":3}"#,
        ] {
            assert!(matches!(dropped(line), Some(Instead::End(_))), "{line}");
        }
    }

    #[test]
    fn what_is_not_a_message_is_dropped() {
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
            assert_eq!(dropped(line), Some(Instead::Nothing), "{line}");
        }
        assert_eq!(Said::read(""), Said::Nothing);
    }

    #[test]
    fn requests_and_notifications_are_told_apart_by_the_id() {
        assert_eq!(
            Said::read(r#"{"method":"m","params":[1]}"#),
            Said::Notification { method: "m".to_owned(), params: json!([1]) }
        );
        assert_eq!(
            Said::read(r#"{"jsonrpc":"2.0","id":0,"method":"m"}"#),
            Said::Request { id: json!(0), method: "m".to_owned(), params: Value::Null }
        );
    }

    #[test]
    fn answers_become_what_the_crate_accepts() {
        for (line, tidy) in [
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
            assert_eq!(read_answer(line), Some(tidy), "{line}");
        }
    }
}
