//! Tests the client against an agent whose side each test scripts, line by line. The streams are in memory and the clocks
//! are paused: a time limit is reached only when nothing else can happen.

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

/// The limit for one turn. Only one agent in these tests exceeds it.
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
    async fn send_raw(&mut self, bytes: &[u8]) {
        self.stdout.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.send_raw(format!("{message}\n").as_bytes()).await;
    }

    /// Receives the next message; `None` once the client has closed the stream.
    async fn receive(&mut self) -> Option<Value> {
        let line = self.stdin.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn receive_method(&mut self, method: &str) -> Value {
        let message = self.receive().await.unwrap();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    async fn refuse(&mut self, request: &Value, code: i32, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    async fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s1", "update": update });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).await;
    }

    async fn message(&mut self, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": content })).await;
    }

    async fn handshake(&mut self, capabilities: Value) {
        let request = self.receive_method("initialize").await;
        self.answer(&request, json!({ "protocolVersion": 1, "agentCapabilities": capabilities })).await;
    }

    /// Answers everything up to the first prompt, and returns the prompt.
    async fn prompted(&mut self) -> Value {
        self.handshake(json!({})).await;
        let request = self.receive_method("session/new").await;
        self.answer(&request, json!({ "sessionId": "s1" })).await;
        self.receive_method("session/prompt").await
    }

    /// Keeps the streams open until the client closes them.
    async fn stay_open(mut self) {
        while self.receive().await.is_some() {}
    }
}

/// Runs the script of an agent. Its assertions count only if the handle is awaited.
fn run_agent<F, Fut>(script: F) -> (Streams, JoinHandle<()>)
where
    F: FnOnce(FakeAgent) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (stdin, agent_stdin) = tokio::io::duplex(64 * 1024);
    let (stdout, agent_stdout) = tokio::io::duplex(64 * 1024);
    let agent = FakeAgent { stdin: BufReader::new(agent_stdin).lines(), stdout: agent_stdout };
    let streams = Streams { stdin: Box::new(stdin), stdout: Box::new(stdout), tap: None };
    (streams, tokio::spawn(script(agent)))
}

async fn connected(streams: Streams, policy: Policy) -> (Connection, mpsc::Receiver<Update>) {
    let (sender, updates) = mpsc::channel(64);
    let connection = connect(streams, limits(), policy, sender).await.unwrap();
    (connection, updates)
}

/// Connects, opens a new session, and returns its ID too.
async fn opened(streams: Streams, policy: Policy) -> (Connection, mpsc::Receiver<Update>, String) {
    let (connection, updates) = connected(streams, policy).await;
    let session = connection.open(&new_session()).await.unwrap().id;
    (connection, updates, session)
}

/// Returns the parameters of a new session without a mode, a model or an effort.
fn new_session() -> SessionRequest {
    SessionRequest {
        cwd: PathBuf::from("/workspace"),
        previous: None,
        mode: None,
        mode_is_required: false,
        auth_method: None,
        model: None,
        effort: None,
    }
}

/// Returns the updates that are in the channel now, without waiting.
fn received(updates: &mut mpsc::Receiver<Update>) -> Vec<Update> {
    std::iter::from_fn(|| updates.try_recv().ok()).collect()
}

fn message(text: &str) -> Update {
    Update::Message(text.to_owned())
}
