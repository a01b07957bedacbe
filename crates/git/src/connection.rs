//! Connections of git to the servers of remotes.
//!
//! Git and ssh connect to nothing but a relay of this process on the loopback interface ([`relay`]). The relay resolves
//! the name of the server, checks the addresses, and connects to one of them, so the checked address is the one that is
//! reached. Invariants:
//!
//! - A command reaches one host and port: those of the remote's URL. The relay refuses every other destination.
//! - Git follows no redirect. [`Git::ask`](crate::Git::ask) follows one within the host.
//! - A command without a connection may only use repositories on this machine.
//!
//! Two kinds of connections are made without the relay, because the operator has chosen what makes them: http and https
//! through a proxy of the environment, and ssh with `ProxyCommand` or `ProxyJump` in the configuration of the service's
//! user.

mod open;
mod redirect;
mod relay;
mod ssh;

use std::sync::Arc;

use relay::Relay;

/// The service of a server that a command uses, as git names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Reading: `ls-remote` and `fetch`.
    Read,
    /// Writing: `push`.
    Write,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "git-upload-pack",
            Self::Write => "git-receive-pack",
        }
    }
}

/// The way of a git process to a server, which is open until this value is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The host of the remote's URL, for logs.
    pub(crate) host: String,
    /// The scheme, as in `GIT_ALLOW_PROTOCOL`.
    pub(crate) protocol: &'static str,
    /// Settings of git.
    pub(crate) settings: Vec<(String, String)>,
    /// Environment variables of git.
    pub(crate) environment: Vec<(String, String)>,
    relay: Option<Relay>,
}

impl Connection {
    /// Returns the failure of the last attempt to connect, if the relay made one and it failed.
    pub(crate) fn error(&self) -> Option<journeyman_net::Error> {
        self.relay.as_ref().and_then(Relay::error)
    }
}

/// A shared way to a server.
pub(crate) type Shared = Arc<Connection>;

#[cfg(test)]
mod tests;
