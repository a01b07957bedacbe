//! What can go wrong between us and an agent.
//!
//! Invariant: an error names its culprit. The agent's own refusals are [`AcpError::Agent`]; all the others mean that
//! the connection is of no further use.

use std::time::Duration;

use agent_client_protocol as acp;
use serde_json::Value;

use super::lines::head;

/// The most of an agent's error message that is kept, in characters.
const MESSAGE_CHARS: usize = 2_000;

/// Why an agent could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcpError {
    /// The agent's streams ended before its answer came. Its exit status and its stderr say more.
    #[error("the agent ended before it answered")]
    Exited,
    /// The agent did not answer in time.
    #[error("the agent did not answer {what} within {seconds} s")]
    Timeout {
        /// The method that was not answered.
        what: String,
        /// How long was waited, in seconds, rounded up.
        seconds: u64,
    },
    /// The agent broke the rules of the protocol. The text says which.
    #[error("{0}")]
    Protocol(String),
    /// The agent said more in one turn than it may.
    #[error("the agent sent more than {bytes} bytes in one turn")]
    TooMuch {
        /// What it may.
        bytes: u64,
    },
    /// The agent answered with a JSON-RPC error. The connection is still good.
    #[error("the agent answered with the error {code}: {message}")]
    Agent {
        /// The JSON-RPC code.
        code: i64,
        /// The agent's words, at most 2,000 characters of them.
        message: String,
    },
    /// The agent speaks another version of the protocol.
    #[error("the agent speaks version {0} of the protocol, and not version 1")]
    Version(u64),
}

impl AcpError {
    /// The agent took longer than `limit` for `what`.
    pub(super) fn timeout(what: &str, limit: Duration) -> Self {
        Self::Timeout { what: what.to_owned(), seconds: limit.as_secs() + u64::from(limit.subsec_nanos() > 0) }
    }

    /// The error that an agent answered with.
    pub(super) fn answered(error: &acp::Error) -> Self {
        let text = match &error.data {
            None | Some(Value::Null) => error.message.clone(),
            // Many agents put what happened into `data` and only "Internal error" into the message.
            Some(Value::String(data)) => format!("{}: {data}", error.message),
            Some(data) => format!("{}: {data}", error.message),
        };
        Self::Agent { code: i64::from(error.code.value()), message: head(&text, MESSAGE_CHARS).to_owned() }
    }

    /// A message of ours that does not become JSON. It cannot happen with the types that are used here.
    pub(super) fn unwritable(error: &acp::Error) -> Self {
        Self::Protocol(format!("a message to the agent could not be written: {error}"))
    }
}
