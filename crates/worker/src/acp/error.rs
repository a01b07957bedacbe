//! Errors of connections to agents.
//!
//! Invariant: an error shows which side caused it. [`AcpError::Agent`] is the agent's own answer, and the connection is
//! still usable; after any other error, the connection must not be used any more.

use std::time::Duration;

use agent_client_protocol as acp;
use serde_json::Value;

use super::lines::head;

/// The maximum number of characters that are kept of an agent's error message.
const MESSAGE_CHARS: usize = 2_000;

/// An error of a connection to an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcpError {
    /// The agent's streams ended before it answered. Its exit status and its stderr give the reason.
    #[error("the agent ended before it answered")]
    Exited,
    /// The agent did not answer in time.
    #[error("the agent did not answer {what} within {seconds} s")]
    Timeout {
        /// The method that the agent did not answer.
        what: String,
        /// The time limit in seconds, rounded up.
        seconds: u64,
    },
    /// The agent violated the protocol. The text says how.
    #[error("{0}")]
    Protocol(String),
    /// The agent sent more than its limit.
    #[error("the agent sent more than {bytes} bytes in one turn")]
    TooMuch {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The agent answered with a JSON-RPC error. The connection is still usable.
    #[error("the agent answered with the error {code}: {message}")]
    Agent {
        /// The JSON-RPC code.
        code: i64,
        /// The agent's message, cut to 2,000 characters.
        message: String,
    },
    /// The agent speaks another version of the protocol.
    #[error("the agent speaks version {0} of the protocol, but only version 1 is supported")]
    Version(u64),
}

impl AcpError {
    /// Returns the error of an agent that did not answer `what` within `limit`.
    pub(super) fn timeout(what: &str, limit: Duration) -> Self {
        Self::Timeout { what: what.to_owned(), seconds: limit.as_secs() + u64::from(limit.subsec_nanos() > 0) }
    }

    /// Returns the error of an agent that answered with a JSON-RPC error.
    pub(super) fn answered(error: &acp::Error) -> Self {
        let text = match &error.data {
            None | Some(Value::Null) => error.message.clone(),
            // Many agents put the details into `data`, and only "Internal error" into the message.
            Some(Value::String(data)) => format!("{}: {data}", error.message),
            Some(data) => format!("{}: {data}", error.message),
        };
        Self::Agent { code: i64::from(error.code.value()), message: head(&text, MESSAGE_CHARS).to_owned() }
    }

    /// Returns the error of a message from us that cannot be serialized. This cannot happen with the types that are
    /// used here.
    pub(super) fn unwritable(error: &acp::Error) -> Self {
        Self::Protocol(format!("a message to the agent could not be written: {error}"))
    }
}
