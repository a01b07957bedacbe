//! The ways out of a sandbox.

use std::io;
use std::os::fd::OwnedFd;

use crate::egress::Allowlist;

/// Opens ways out of sandboxes.
pub trait Gateway: Send + Sync {
    /// A proxy for the destinations of `allowed`, on a socket that listens on the loopback of a sandbox; `told` hears of
    /// each decision. It is closed, with all its connections, when the gate is dropped.
    ///
    /// # Errors
    /// The socket cannot be used.
    fn open_egress(&self, listener: OwnedFd, allowed: Allowlist, told: EgressLog) -> io::Result<Gate>;
}

/// Hears of decisions.
pub type EgressLog = Box<dyn Fn(EgressDecision) + Send + Sync>;

/// Closes what it stands for when it is dropped.
pub struct Gate(
    /// What is dropped.
    pub Box<dyn Send + Sync>,
);

/// What a proxy has done about a wish to reach something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressDecision {
    /// What was asked for, as it was written, cut to a length.
    pub destination: String,
    /// Whether it was reached.
    pub allowed: bool,
    /// Why not.
    pub reason: Option<String>,
}
