//! The client side of the Agent Client Protocol, version 1, on a pair of byte streams.
//!
//! Every agent, the built-in one included, is spoken to through this module. Who starts and kills the process is not
//! known here: the module sees its stdin and stdout only.
//!
//! How a line from the agent travels: `lines` cuts it out and limits its length; `inbound` reads it as JSON, reports
//! updates and permission requests to the caller and hands requests and answers on to the protocol crate; the crate
//! pairs answers with our requests.
//!
//! Invariants:
//! - What an agent sends can end its own connection, and nothing else: no panic, no unbounded memory, no endless wait
//!   except the turn itself, which the caller limits.
//! - The caller sees updates in the order in which the agent sent them, and all that came before the answer to a prompt
//!   before [`Connection::prompt`] returns.
//! - Answers are read leniently, as JSON values: agents add fields and values faster than the crate's types do.

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

pub use connection::{About, Connection, connect};
pub use error::AcpError;
pub use permission::{Answer, Policy};
pub use session::{Opened, SessionRequest};
pub use translate::{Stop, TurnEnd, Update, Usage};

/// What an agent may use before its connection is ended. The turn as a whole has no limit here: the caller sets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line that the agent may send, in bytes, without its newline.
    pub line_bytes: usize,
    /// All that the agent may send before its first turn, and in each with what follows, in bytes: an agent that goes
    /// on for ever must not fill our log.
    pub total_bytes: u64,
    /// The time that the agent may take to answer `initialize`. It includes the start of its program.
    pub initialize_timeout: Duration,
    /// The time that the agent may take for each other answer outside a turn.
    pub start_timeout: Duration,
    /// How long the agent may take to end a turn after it was told to cancel it.
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
    /// This program.
    Client,
    /// The agent.
    Agent,
}

/// A callback that gets each line of the protocol, without its newline, before the line is processed.
pub type Tap = Arc<dyn Fn(Sender, &str) + Send + Sync>;

/// The two ends of a running agent. Both are dropped, and so closed, with the [`Connection`].
pub struct Streams {
    /// Where the agent reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Where the agent writes.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The callback that gets the lines of the protocol.
    pub tap: Option<Tap>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Streams").finish_non_exhaustive()
    }
}
