//! Passes a credential to git.
//!
//! The secret is in a file without a name (memfd_create(2)), which only git and the programs that it starts have open. It
//! is in no command line, no environment and no folder, so nothing that lists processes or files shows it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use command_fds::CommandFdExt as _;
use command_fds::FdMapping;
use journeyman_core::ports::Credential;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::process::Command;

/// The number of the file in git's process.
const NUMBER: i32 = 3;

/// The name of the file for git and its child processes. Each opens it for itself, and reads it from the beginning.
const PATH: &str = "/dev/fd/3";

/// The program that answers git's prompts. A redirect to another server gets no answer.
pub(super) const ASKPASS: &str = "#!/bin/sh\n\
    # Answers git's prompts for the user name and the password. The password is in a file that git has open.\n\
    case \"$1\" in\n\
    \"Username for '$JOURNEYMAN_GIT_SERVER': \")\n\
      printf '%s\\n' \"$JOURNEYMAN_GIT_USERNAME\" ;;\n\
    \"Password for '${JOURNEYMAN_GIT_SERVER%%://*}://\"*\"@${JOURNEYMAN_GIT_SERVER#*://}': \")\n\
      cat /dev/fd/3 ;;\n\
    *) exit 1 ;;\n\
    esac\n";

/// A credential for one server.
#[derive(Clone)]
pub(super) struct ServerCredential {
    /// The scheme and the authority, such as `https://example.com:8443`.
    server: String,
    /// Empty if the password is a token that is sent as it is.
    username: String,
    password: String,
}

impl std::fmt::Debug for ServerCredential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "a credential for {}", self.server)
    }
}

impl ServerCredential {
    /// Returns the credential for the server of a URL; `None` if the URL is not an http or https URL.
    pub(super) fn new(url: &str, credential: &Credential) -> Option<Self> {
        let (scheme @ ("http" | "https"), rest) = url.split_once("://")? else { return None };
        let host = rest.split('/').next().unwrap_or_default().to_lowercase();
        let Credential { username, password } = credential.clone();
        Some(Self { server: format!("{scheme}://{host}"), username, password })
    }

    /// Removes the password from a text.
    pub(super) fn redact(&self, text: &str) -> String {
        if self.password.is_empty() { text.to_owned() } else { text.replace(&self.password, "***") }
    }

    /// Gives the credential to a git process that has not started.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub(super) fn give_to(&self, command: &mut Command) -> io::Result<()> {
        let content = if self.username.is_empty() {
            command.env("GIT_CONFIG_GLOBAL", PATH);
            self.header()
        } else {
            command.env("JOURNEYMAN_GIT_SERVER", &self.server).env("JOURNEYMAN_GIT_USERNAME", &self.username);
            format!("{}\n", self.password)
        };
        let mut file = File::from(memfd_create("credential", MemfdFlags::CLOEXEC)?);
        file.write_all(content.as_bytes())?;
        let mapping = FdMapping { parent_fd: OwnedFd::from(file), child_fd: NUMBER };
        command.fd_mappings(vec![mapping]).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(())
    }

    /// Returns the settings that send the token to the server. Git would send the header to the target of a redirect
    /// too, so it follows none.
    fn header(&self) -> String {
        let token = self.password.replace('\\', "\\\\").replace('"', "\\\"");
        format!(
            "[http \"{}/\"]\n\textraHeader = \"Authorization: Bearer {token}\"\n[http]\n\tfollowRedirects = false\n",
            self.server
        )
    }
}
