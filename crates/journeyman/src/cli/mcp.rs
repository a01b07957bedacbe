//! `journeyman mcp`: connects a local program that speaks the Model Context Protocol on stdin and stdout with a server.
//!
//! Each line of stdin is a message of JSON-RPC, which is sent to `/mcp`; each answer is a line of stdout. Requests are
//! not repeated, except if no connection could be opened: a call may have an effect although its answer was lost.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use journeyman_client::{Client, Error, Method};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Stdout};
use tokio::task::{AbortHandle, JoinSet};

use super::connect::{connect, describe, no_reason};
use super::connection::{Connection, ConnectionArgs};
use super::exit::HELP;
use crate::config::client_environment;

/// The number of attempts to open a connection, one second apart: the server may be starting.
const ATTEMPTS: u32 = 5;

/// The timeout of an answer. The server waits at most 50 seconds for a job.
const ANSWER_TIME: Duration = Duration::from_secs(90);

/// The error code of JSON-RPC for failures of the server.
const SERVER_ERROR: i64 = -32000;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) fn run(arguments: McpArgs) -> anyhow::Result<ExitCode> {
    let Connection { url, key, .. } = match arguments.connection.resolve(client_environment()) {
        Ok(connection) => connection,
        Err(failure) => bail!("{}", failure.text()),
    };
    let client = connect(&url, &key).map_err(|error| anyhow!(describe(&error)))?;
    let bridge = Bridge { client, version: Mutex::default(), output: tokio::sync::Mutex::new(tokio::io::stdout()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime could not be started")?.block_on(Arc::new(bridge).run())?;
    Ok(ExitCode::SUCCESS)
}

struct Bridge {
    client: Client,
    /// The version of the protocol that `initialize` agreed on.
    version: Mutex<Option<String>>,
    output: tokio::sync::Mutex<Stdout>,
}

impl Bridge {
    /// Passes messages on until stdin ends, and then waits for the answers under way. Ends at once if stdout is closed.
    async fn run(self: Arc<Self>) -> std::io::Result<()> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let mut calls: JoinSet<std::io::Result<()>> = JoinSet::new();
        let mut under_way: HashMap<String, AbortHandle> = HashMap::new();
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line?,
                Some(done) = calls.join_next() => {
                    // A call that was canceled has no answer.
                    done.unwrap_or(Ok(()))?;
                    continue;
                }
            };
            let Some(line) = line else { break };
            under_way.retain(|_, call| !call.is_finished());
            let message: Value = match serde_json::from_str(&line) {
                _ if line.trim().is_empty() => continue,
                Ok(message) => message,
                Err(error) => {
                    let text = format!("the message is not JSON: {error}");
                    self.print(&failure(&Value::Null, -32700, &text)).await?;
                    continue;
                }
            };
            // The server learns of a cancellation when the connection of the request is closed.
            if message["method"] == "notifications/cancelled" {
                if let Some(call) = under_way.remove(&message["params"]["requestId"].to_string()) {
                    call.abort();
                }
                continue;
            }
            let (own, id) = (Arc::clone(&self), message["id"].clone());
            let call = calls.spawn(async move { own.pass_on(message).await });
            if !id.is_null() {
                under_way.insert(id.to_string(), call);
            }
        }
        while let Some(done) = calls.join_next().await {
            done.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    async fn print(&self, answer: &Value) -> std::io::Result<()> {
        let mut output = self.output.lock().await;
        output.write_all(format!("{answer}\n").as_bytes()).await?;
        output.flush().await
    }

    async fn pass_on(&self, message: Value) -> std::io::Result<()> {
        let (id, is_initialize) = (message["id"].clone(), message["method"] == "initialize");
        let answer = match self.send(&message).await {
            Ok(answer) => answer,
            Err(error) if id.is_null() => {
                // If stderr is closed, the error cannot be reported.
                let _ = writeln!(std::io::stderr(), "journeyman mcp: {}", describe(&error));
                None
            }
            Err(error) => Some(failure(&id, SERVER_ERROR, &describe(&error))),
        };
        let Some(answer) = answer else { return Ok(()) };
        if is_initialize && let Some(version) = answer["result"]["protocolVersion"].as_str() {
            *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(version.to_owned());
        }
        self.print(&answer).await
    }

    async fn send(&self, message: &Value) -> Result<Option<Value>, Error> {
        let headers = self.headers(message);
        let mut attempt = 1;
        loop {
            match self.attempt(message, &headers).await {
                Err(Error::Connection { is_unsent: true, .. }) if attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Sends a message once, and returns the answer, if there is one.
    async fn attempt(&self, message: &Value, headers: &McpHeaders) -> Result<Option<Value>, Error> {
        let mut call = self.client.request(Method::POST, "/mcp").json(message).max_retries(0).timeout(ANSWER_TIME);
        call = call.header("accept", "application/json, text/event-stream");
        let named =
            [("mcp-protocol-version", &headers.version), ("mcp-method", &headers.method), ("mcp-name", &headers.name)];
        for (name, value) in named {
            if let Some(value) = value {
                call = call.header(name, &header_value(value));
            }
        }
        match call.await {
            Ok(response) if response.body.is_empty() => Ok(None),
            Ok(response) => match response.json::<Value>() {
                Ok(answer) if answer["jsonrpc"] == "2.0" => Ok(Some(answer)),
                _ => Err(Error::InvalidResponse(no_reason(response.status))),
            },
            // Errors of the protocol may have an error status.
            Err(Error::Api(refusal)) if refusal.body["jsonrpc"] == "2.0" => Ok(Some(refusal.body)),
            Err(error) => Err(error),
        }
    }

    fn headers(&self, message: &Value) -> McpHeaders {
        let params = &message["params"];
        let own = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str().map(str::to_owned);
        // Since the version 2026-07-28, headers repeat what a request is about.
        let is_new = own.is_some();
        let named = ["name", "uri", "taskId"].iter().find_map(|field| params[*field].as_str());
        McpHeaders {
            version: own.or_else(|| self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            method: message["method"].as_str().filter(|_| is_new).map(str::to_owned),
            name: named.filter(|_| is_new).map(str::to_owned),
        }
    }
}

/// The headers of a message.
#[derive(Debug, Default)]
struct McpHeaders {
    /// The version of the protocol.
    version: Option<String>,
    /// The method of the message.
    method: Option<String>,
    /// The tool, resource or task that the message is about.
    name: Option<String>,
}

/// Encodes a value of a header as the protocol says: in base64 if it is not plain ASCII.
fn header_value(text: &str) -> String {
    let is_plain = text.chars().all(|character| matches!(character, '!'..='~' | ' ')) && text.trim() == text;
    if is_plain && !text.starts_with("=?") { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

fn failure(id: &Value, code: i64, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
}
