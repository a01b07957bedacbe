//! The client against an agent that each test plays itself, line by line.

mod hostile;
mod opening;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Connection, Limits, Policy, SessionRequest, Streams, Update, connect};

/// More than any agent here sends, but one.
const TOTAL_BYTES: u64 = 64 * LINE_BYTES as u64;

const LINE_BYTES: usize = 16 * 1024;

fn limits() -> Limits {
    Limits {
        line_bytes: LINE_BYTES,
        total_bytes: TOTAL_BYTES,
        initialize_timeout: Duration::from_secs(5),
        start_timeout: Duration::from_secs(5),
        cancel_grace: Duration::from_millis(300),
    }
}

/// The agent's side of the streams.
struct FakeAgent {
    stdin: Lines<BufReader<DuplexStream>>,
    stdout: DuplexStream,
}

impl FakeAgent {
    async fn raw(&mut self, bytes: &[u8]) {
        self.stdout.write_all(bytes).await.unwrap();
    }

    async fn say(&mut self, message: Value) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    /// The next message, or `None` once the client has closed the stream.
    async fn hear(&mut self) -> Option<Value> {
        let line = self.stdin.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn hear_method(&mut self, method: &str) -> Value {
        let message = self.hear().await.unwrap();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    async fn refuse(&mut self, request: &Value, code: i32, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    async fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s1", "update": update });
        self.say(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).await;
    }

    async fn message(&mut self, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": content })).await;
    }

    async fn shake_hands(&mut self, capabilities: Value) {
        let request = self.hear_method("initialize").await;
        self.answer(&request, json!({ "protocolVersion": 1, "agentCapabilities": capabilities })).await;
    }

    /// Everything up to the first prompt, which is returned.
    async fn prompted(&mut self) -> Value {
        self.shake_hands(json!({})).await;
        let request = self.hear_method("session/new").await;
        self.answer(&request, json!({ "sessionId": "s1" })).await;
        self.hear_method("session/prompt").await
    }

    /// Keeps the streams open until the client closes them.
    async fn linger(mut self) {
        while self.hear().await.is_some() {}
    }
}

/// Runs an agent. Its assertions count only if the handle is awaited.
fn play<F, Fut>(script: F) -> (Streams, JoinHandle<()>)
where
    F: FnOnce(FakeAgent) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (stdin, heard) = tokio::io::duplex(64 * 1024);
    let (stdout, said) = tokio::io::duplex(64 * 1024);
    let agent = FakeAgent { stdin: BufReader::new(heard).lines(), stdout: said };
    let streams = Streams { stdin: Box::new(stdin), stdout: Box::new(stdout), tap: None };
    (streams, tokio::spawn(script(agent)))
}

async fn connected(streams: Streams, policy: Policy) -> (Connection, mpsc::Receiver<Update>) {
    let (sender, updates) = mpsc::channel(64);
    let connection = connect(streams, limits(), policy, sender).await.unwrap();
    (connection, updates)
}

/// Connects, opens a new session and returns its id too.
async fn opened(streams: Streams, policy: Policy) -> (Connection, mpsc::Receiver<Update>, String) {
    let (connection, updates) = connected(streams, policy).await;
    let (session, _) = connection.open(&wanted()).await.unwrap();
    (connection, updates, session)
}

/// A new session without wishes.
fn wanted() -> SessionRequest {
    SessionRequest {
        cwd: PathBuf::from("/workspace"),
        previous: None,
        mode: None,
        mode_is_required: false,
        auth_method: None,
        model: None,
    }
}

/// What is in the channel now, without waiting.
fn told(updates: &mut mpsc::Receiver<Update>) -> Vec<Update> {
    std::iter::from_fn(|| updates.try_recv().ok()).collect()
}

fn message(text: &str) -> Update {
    Update::Message(text.to_owned())
}
