//! Routes to remotes: by their URL, or by a path on this machine.
//!
//! Git serves a path by starting `git upload-pack` or `git receive-pack` on it, and these run the commands from the
//! repository's own hooks and configuration. Invariants:
//!
//! - No program of a repository runs as the service. A repository of the service's user is served with settings that
//!   disable hooks and commands. A repository of another user is served as that user, which only root can do, and is
//!   refused otherwise.
//! - The git process that serves a path inherits no environment variable of the service.
//! - No path leads into the folders of the service.

mod repository;
mod resolve;

use std::path::Path;

use journeyman_core::ports::Remote;
use rustix::fs::{Access, access};

use crate::connection::Shared;

/// The address of a remote and the way to it: the program that serves a path, or the connection to a server, which is open
/// as long as the route exists. Created by [`Git::route`](crate::Git::route).
#[derive(Debug, Clone)]
pub struct Route {
    address: String,
    /// The shell command that precedes the name of the program that serves a path.
    server: Option<String>,
    /// The connection to a server.
    pub(crate) connection: Option<Shared>,
    /// The remote.
    pub(crate) remote: Remote,
}

impl Route {
    fn to_path(remote: &Remote, address: String, server: String) -> Self {
        Self { address, server: Some(server), connection: None, remote: remote.clone() }
    }

    /// Returns the address to pass to git.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the option that a command needs to read from the remote, if any.
    #[must_use]
    pub fn reading(&self) -> Option<String> {
        self.server.as_ref().map(|server| format!("--upload-pack={server} upload-pack --strict"))
    }

    /// Returns whether the remote is a repository on this machine that the service cannot write to.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let objects = Path::new(&self.address).join("objects");
        self.server.is_some() && access(&objects, Access::WRITE_OK).is_err()
    }

    /// Returns the option that a push needs, if any.
    #[must_use]
    pub fn pushing(&self) -> Option<String> {
        self.server.as_ref().map(|server| format!("--receive-pack={server} receive-pack"))
    }
}

#[cfg(test)]
mod tests;
