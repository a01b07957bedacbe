//! A connection to an agent: the handshake, and requests with a timeout.
//!
//! Invariant: the task that drives the connection, and with it the streams, is dropped with the [`Connection`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{ClientCapabilities, Implementation, InitializeRequest};
use agent_client_protocol::{
    self as acp, Agent, Builder, Client, ConnectTo, ConnectionTo, JsonRpcMessage, Lines, Responder, UntypedMessage,
};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use super::error::AcpError;
use super::inbound::{ASK_PERMISSION, Inbound, Phase, UNANSWERED};
use super::lines::{Allowance, LineReader, write_lines};
use super::permission::{Calls, Policy, Refusals};
use super::translate::Update;
use super::{Limits, Streams};

/// The version of the protocol that this client speaks.
const VERSION: u64 = 1;

/// The maximum number of characters that are kept of an agent's name and version, and of the ID of an authentication
/// method.
const NAME_CHARS: usize = 200;

/// An initialized agent. Dropping it closes the agent's streams; the caller ends the process.
///
/// Only one operation may run at a time: [`Connection::open`] and [`Connection::prompt`] take `&self` so that the
/// caller can drop their futures, not so that the operations can run concurrently.
#[derive(Debug)]
pub struct Connection {
    pub(super) link: ConnectionTo<Agent>,
    pub(super) limits: Limits,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) can: Capabilities,
    /// The agent's name and version, as it reports them.
    pub(super) who: String,
    /// The IDs of the authentication methods that do not need a person at a terminal.
    pub(super) auth_methods: Vec<String>,
    pub(super) allowance: Allowance,
    pub(super) refusals: Refusals,
    broken: Arc<OnceLock<AcpError>>,
    /// The task that drives the connection. It is aborted when this handle is dropped.
    driver: AbortOnDropHandle<()>,
}

/// The capabilities of an agent that this client uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// True if the agent answers `session/resume`.
    pub(super) resume: bool,
    /// True if the agent answers `session/load`.
    pub(super) load: bool,
    /// True if the agent accepts images in prompts.
    pub(super) image: bool,
}

impl Capabilities {
    fn read(initialized: &Value) -> Self {
        let has =
            |path: &str| initialized.pointer(path).is_some_and(|flag| flag.is_object() || flag.as_bool() == Some(true));
        Self {
            resume: has("/agentCapabilities/sessionCapabilities/resume"),
            load: has("/agentCapabilities/loadSession"),
            image: has("/agentCapabilities/promptCapabilities/image"),
        }
    }
}

/// An agent's name and capabilities, as it reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// The agent's name and version; empty if it reports none.
    pub who: String,
    /// True if the agent can resume sessions.
    pub resumes: bool,
    /// True if the agent can load sessions.
    pub loads: bool,
}

/// Returns the agent's name and version from its answer to `initialize`, cut to [`NAME_CHARS`].
fn name_and_version(initialized: &Value) -> String {
    let fields = ["name", "version"].map(|field| initialized["agentInfo"][field].as_str().unwrap_or_default());
    fields.join(" ").trim().chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect()
}

/// Returns the authentication methods in an answer to `initialize`, except those that need a person at a terminal.
fn auth_methods(initialized: &Value) -> Vec<String> {
    let methods = initialized["authMethods"].as_array().map(Vec::as_slice).unwrap_or_default();
    let usable = methods.iter().filter(|method| method["type"] != "terminal");
    usable.filter_map(|method| Some(method["id"].as_str()?.chars().take(NAME_CHARS).collect())).collect()
}

/// Connects to a started agent and performs the handshake. The client offers neither file access nor terminals: some
/// agents misbehave with them, and an agent has what it needs in its sandbox.
///
/// The caller must read `updates` while [`Connection::prompt`] runs: while the channel is full, the client reads
/// nothing more from the agent, not even the answer to the prompt. Outside a turn, the client does not wait for the
/// reader, and drops the updates for which the channel has no space.
///
/// # Errors
///
/// Returns [`AcpError::Exited`] if the agent ends, [`AcpError::Timeout`] after `limits.initialize_timeout`,
/// [`AcpError::Protocol`] or [`AcpError::TooMuch`] if the agent violates the protocol or sends too much,
/// [`AcpError::Agent`] if it answers with an error, and [`AcpError::Version`] if it answers with a version other than
/// 1.
pub async fn connect(
    streams: Streams,
    limits: Limits,
    policy: Policy,
    updates: mpsc::Sender<Update>,
) -> Result<Connection, AcpError> {
    let unanswered = Arc::new(Semaphore::new(UNANSWERED));
    let broken = Arc::new(OnceLock::new());
    let (phase, phase_seen) = watch::channel(Phase::Idle);
    let allowance = Allowance::default();
    allowance.renew(limits.total_bytes);
    let refusals = Refusals::default();
    let inbound = Inbound {
        lines: LineReader::new(streams.stdout, limits.line_bytes, allowance.clone()),
        total_bytes: limits.total_bytes,
        updates,
        tap: streams.tap.clone(),
        policy,
        calls: Calls::default(),
        refusals: refusals.clone(),
        phase: phase_seen,
        unanswered: Arc::clone(&unanswered),
        broken: Arc::clone(&broken),
    };
    let transport = Lines::new(write_lines(streams.stdin, unanswered, streams.tap), inbound.into_lines());
    let (ready, link) = oneshot::channel();
    let driver = AbortOnDropHandle::new(tokio::spawn(drive(transport, ready)));
    let link = link.await.map_err(|_| ended(&broken))?;
    let mut connection = Connection {
        link,
        limits,
        phase,
        can: Capabilities::default(),
        who: String::new(),
        auth_methods: Vec::new(),
        allowance,
        refusals,
        broken,
        driver,
    };
    let answer = connection.initialize().await?;
    (connection.can, connection.who) = (Capabilities::read(&answer), name_and_version(&answer));
    connection.auth_methods = auth_methods(&answer);
    Ok(connection)
}

/// Runs the protocol crate until the streams end or break, or until the task is aborted.
///
/// Uses the raw builder instead of the builder for version 1: that one reports a different version in the agent's
/// answer as an error that looks like the agent's own. [`Connection::initialize`] checks the version.
async fn drive(transport: impl ConnectTo<Client>, ready: oneshot::Sender<ConnectionTo<Agent>>) {
    let ended = Builder::new(Client)
        .name("agent")
        .on_receive_request(
            // This handler runs in the crate's dispatch loop, so it must not wait. It does not need to: `inbound` has
            // made the decision, and the params are the answer.
            async |request: UntypedMessage, responder: Responder<Value>, _link: ConnectionTo<Agent>| {
                if request.method == ASK_PERMISSION {
                    responder.respond(request.params)
                } else {
                    responder.respond_with_error(acp::Error::method_not_found().data(request.method))
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(transport, async move |link: ConnectionTo<Agent>| {
            if ready.send(link.clone()).is_ok() {
                link.incoming_closed().await;
            }
            Ok(())
        })
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "the connection to the agent broke");
    }
}

/// Returns the reason why a connection has ended.
fn ended(broken: &OnceLock<AcpError>) -> AcpError {
    broken.get().cloned().unwrap_or(AcpError::Exited)
}

impl Connection {
    /// Returns whether the agent's streams are still usable: they have neither ended nor failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    /// Returns the agent's name and capabilities.
    #[must_use]
    pub fn about(&self) -> AgentInfo {
        AgentInfo { who: self.who.clone(), resumes: self.can.resume, loads: self.can.load }
    }

    /// Sends `initialize`, and returns the answer if the agent speaks the same version of the protocol.
    async fn initialize(&self) -> Result<Value, AcpError> {
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new())
            .client_info(Implementation::new("journeyman", env!("CARGO_PKG_VERSION")));
        let answer = self.call_within(self.limits.initialize_timeout, request).await?;
        match answer.get("protocolVersion").and_then(Value::as_u64) {
            Some(VERSION) => Ok(answer),
            Some(other) => Err(AcpError::Version(other)),
            None => Err(AcpError::Protocol("the agent's answer to initialize names no protocol version".to_owned())),
        }
    }

    /// Sends a request and waits for its answer, for at most `limits.start_timeout`.
    pub(super) async fn call(&self, request: impl JsonRpcMessage) -> Result<Value, AcpError> {
        self.call_within(self.limits.start_timeout, request).await
    }

    async fn call_within(&self, limit: Duration, request: impl JsonRpcMessage) -> Result<Value, AcpError> {
        let message = request.to_untyped_message().map_err(|error| AcpError::unwritable(&error))?;
        let what = message.method.clone();
        let answer = self.link.send_request(message).block_task();
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.failure(&error)),
            Err(_) => Err(AcpError::timeout(&what, limit)),
        }
    }

    /// Returns the error of a failed request: the connection has ended, or the agent answered with an error.
    pub(super) fn failure(&self, error: &acp::Error) -> AcpError {
        if acp::is_incoming_transport_closed(error) || acp::is_connection_terminated(error) {
            return ended(&self.broken);
        }
        AcpError::answered(error)
    }
}
