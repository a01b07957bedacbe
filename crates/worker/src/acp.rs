//! The client side of the Agent Client Protocol, version 1, on a pair of byte streams.
//!
//! The worker talks to every agent, including the built-in one, through this module. The module sees only the stdin and
//! stdout of an agent's process; its callers start and end the process.
//!
//! A line from the agent passes through these stages: `lines` reads it and limits its length; `inbound` parses it as
//! JSON, reports updates and permission requests to the caller, and forwards requests and answers to the protocol crate
//! (`agent-client-protocol`); the crate matches answers with our requests.
//!
//! Invariants:
//! - Output of an agent can end the agent's connection, and has no other effect on the worker: it causes no panic, no
//!   unbounded memory use, and no endless wait except the turn itself, which the caller limits.
//! - The caller receives updates in the order in which the agent sent them. All updates that the agent sent before its
//!   answer to a prompt are in the caller's channel before [`Connection::prompt`] returns.
//! - Answers are parsed leniently, as JSON values, because agents add fields and values that the crate's types do not
//!   have yet.

mod connection;
mod error;
mod inbound;
mod lines;
mod permission;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod translate;
mod turn;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

pub use connection::{AgentInfo, Connection, connect};
pub use error::AcpError;
pub use permission::{Answer, Policy};
pub use session::{OpenSession, Opened, SessionRequest};
pub use translate::{Stop, TurnEnd, Update, Usage};
pub use turn::Image;

/// The limits of a connection to an agent. A turn as a whole has no time limit here: the caller sets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum length of a line from the agent in bytes, without its newline.
    pub line_bytes: usize,
    /// The maximum number of bytes that the agent may send before its first turn, and from the start of each turn to
    /// the start of the next: an agent that never stops sending must not fill our log.
    pub total_bytes: u64,
    /// The time limit for the agent's answer to `initialize`. It includes the start of the agent's program.
    pub initialize_timeout: Duration,
    /// The time limit for each other answer outside a turn.
    pub start_timeout: Duration,
    /// The time limit for ending a turn after the worker has cancelled it.
    pub cancel_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 8 * 1024 * 1024,
            total_bytes: 512 * 1024 * 1024,
            initialize_timeout: Duration::from_secs(15),
            start_timeout: Duration::from_secs(60),
            cancel_grace: Duration::from_secs(5),
        }
    }
}

/// The sender of a line of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The worker, which is the client of the protocol.
    Client,
    /// The agent.
    Agent,
}

/// A callback that gets each line of the protocol, without its newline, before the line is processed.
pub type Tap = Arc<dyn Fn(Sender, &str) + Send + Sync>;

/// The streams of a running agent. Dropping the [`Connection`] drops both, which closes them.
pub struct Streams {
    /// The stream to the agent's stdin.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// The stream from the agent's stdout.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The callback that gets the lines of the protocol.
    pub tap: Option<Tap>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Streams").finish_non_exhaustive()
    }
}
