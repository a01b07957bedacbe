//! A test client of the agent: JSON lines over an in-memory pipe.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use journeyman_agent::{Options, ServeError, serve};
use journeyman_testkit::within;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// A running agent and its client.
pub(crate) struct Agent {
    writer: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    next_id: u64,
    /// Set when the agent called the hook that ends the process.
    pub(crate) died: Arc<AtomicBool>,
    /// The updates received so far, without their envelopes.
    pub(crate) updates: Vec<Value>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Agent {
    /// Starts an agent that stores its sessions in `state_dir`, and initializes it.
    pub(crate) async fn start(state_dir: &Path) -> Self {
        Self::start_with(state_dir, |_| {}).await
    }

    /// Starts an agent like [`Self::start`], with permission requests enabled.
    pub(crate) async fn start_asking(state_dir: &Path) -> Self {
        Self::start_with(state_dir, |options| options.asks = true).await
    }

    /// Starts an agent like [`Self::start`], with changed options.
    pub(crate) async fn start_with(state_dir: &Path, change: impl FnOnce(&mut Options)) -> Self {
        let died = Arc::new(AtomicBool::new(false));
        let mut options = options(state_dir, Arc::clone(&died));
        change(&mut options);
        let (client, agent) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(agent);
        let (reader, writer) = tokio::io::split(client);
        let task = tokio::spawn(serve(options, input, output));
        let mut agent =
            Self { writer, lines: BufReader::new(reader).lines(), next_id: 0, died, updates: Vec::new(), task };
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let answer = agent.request("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        assert_eq!(answer["result"]["agentCapabilities"]["loadSession"], true, "{answer}");
        agent
    }

    /// Creates a session in `cwd` and returns its id.
    pub(crate) async fn session(&mut self, cwd: &Path) -> String {
        let answer = self.request("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt and returns the whole answer.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.send_prompt(session, text).await;
        self.answer(id).await
    }

    /// Sends a prompt and returns the id of the request.
    pub(crate) async fn send_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send_request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Sends a request and returns the whole answer.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params).await;
        self.answer(id).await
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Sends `session/cancel`.
    pub(crate) async fn cancel(&mut self, session: &str) {
        let params = json!({"sessionId": session});
        self.send(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params})).await;
    }

    /// Sends any message.
    pub(crate) async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.flush().await.unwrap();
    }

    /// Waits for the answer to a request; collects the updates that arrive before it.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.message().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Waits for a request of the agent; collects the updates that arrive before it.
    pub(crate) async fn request_of_agent(&mut self, method: &str) -> Value {
        loop {
            let message = self.message().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Waits until an update has arrived that `is_match` accepts.
    pub(crate) async fn update_where(&mut self, is_match: impl Fn(&Value) -> bool) {
        while !self.updates.iter().any(&is_match) {
            self.message().await;
        }
    }

    /// Returns the joined texts of all messages of the agent so far.
    pub(crate) fn said(&self) -> String {
        self.texts("agent_message_chunk").concat()
    }

    /// Returns the texts of all updates of a kind.
    pub(crate) fn texts(&self, kind: &str) -> Vec<String> {
        self.updates
            .iter()
            .filter(|update| update["sessionUpdate"] == kind)
            .filter_map(|update| update["content"]["text"].as_str().map(str::to_owned))
            .collect()
    }

    /// Closes the input and waits for the end of the agent.
    pub(crate) async fn stop(mut self) {
        self.writer.shutdown().await.unwrap();
        let result = within("the agent ends", self.task).await;
        assert!(result.unwrap().is_ok());
    }

    async fn message(&mut self) -> Value {
        let line = within("the agent sends a message", self.lines.next_line()).await;
        let message: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        if message["method"] == "session/update" {
            self.updates.push(message["params"]["update"].clone());
        }
        message
    }
}

fn options(state_dir: &Path, died: Arc<AtomicBool>) -> Options {
    let sessions = AtomicU64::new(0);
    Options {
        model: "test/scripted".to_owned(),
        base_url: None,
        api_key: None,
        effort: None,
        state_dir: state_dir.to_path_buf(),
        home: state_dir.to_path_buf(),
        version: "0.0.0".to_owned(),
        new_session_id: Box::new(move || format!("sess-{}", sessions.fetch_add(1, Ordering::Relaxed))),
        context_tokens: None,
        model_calls: 200,
        asks: false,
        die: Box::new(move || died.store(true, Ordering::Relaxed)),
    }
}
