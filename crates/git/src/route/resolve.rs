//! Resolves a remote to a route: to a repository on this machine, which it checks, or to a server.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journeyman_core::ports::Remote;
use rustix::process::geteuid;

use super::Route;
use super::repository::{UsableRepository, find, has_hooks};
use crate::command::{Git, server_settings};
use crate::failure::GitError;
use crate::shell::quoted;

impl Git {
    /// Refuses remotes whose path leads into one of these folders.
    #[must_use]
    pub fn with_own_folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.own_folders = folders.into_iter().collect::<Arc<[PathBuf]>>();
        self
    }

    /// Decides how to reach a remote.
    ///
    /// # Errors
    /// Returns [`GitError::NotUsed`] with the reason if the service does not use the repository at a path, and an error if
    /// the connection to a server cannot be prepared.
    pub async fn route(&self, remote: &Remote) -> Result<Route, GitError> {
        if remote.is_ours {
            let server = self.as_service(&[("safe.directory", "*")]);
            return Ok(Route::to_path(remote, remote.url.clone(), server));
        }
        let Some(path) = path_of(&remote.url) else {
            let (connection, address) = self.connection(remote).await?;
            let connection = Some(Arc::new(connection));
            return Ok(Route { address, server: None, connection, remote: remote.clone() });
        };
        let (own, me) = (Arc::clone(&self.own_folders), geteuid().as_raw());
        let found = tokio::task::spawn_blocking(move || find(&path, &own, me)).await;
        let found = found.map_err(|error| GitError::NotUsed(error.to_string()))??;
        let UsableRepository { git_dir, owner } = found;
        let address = git_dir.to_str().map(str::to_owned).ok_or_else(|| {
            GitError::NotUsed(format!("The path of the repository {} is not UTF-8.", git_dir.display()))
        })?;
        let server = if owner == me {
            self.check_configuration(&git_dir).await?;
            self.as_service(&[])
        } else {
            self.as_owner(owner)
        };
        Ok(Route::to_path(remote, address, server))
    }

    /// Returns the shell command for git run by the service, with the repository's own commands disabled.
    pub(super) fn as_service(&self, more: &[(&'static str, &'static str)]) -> String {
        // Overrides the repository's hooks and commands; the last setting with a name wins.
        let off = [
            ("core.alternateRefsCommand", "true"),
            ("receive.autogc", "false"),
            // Otherwise git would check out files with the repository's filters.
            ("receive.denyCurrentBranch", "refuse"),
        ];
        let settings: String = (server_settings().chain(off).chain(more.iter().copied()))
            .map(|(key, value)| format!(" -c {}", quoted(&format!("{key}={value}"))))
            .collect();
        // Git must not fetch missing objects, because the repository would choose the source and the program.
        let only = "GIT_ALLOW_PROTOCOL= GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1";
        format!("exec {} {only} {}{settings}", self.clean_environment(), self.quoted_program())
    }

    /// Returns the shell command for git run by the repository's owner, with everything that this user has configured
    /// there. Git gets a new session, so that it shares no terminal with the service.
    fn as_owner(&self, owner: u32) -> String {
        // Uses the group of the user, not that of the folder, which may come from a parent folder.
        let identity = format!(
            "setpriv --reuid={owner} --regid=\"$(id -g {owner} 2>/dev/null || echo 65534)\" --clear-groups --no-new-privs"
        );
        format!("cd / && exec setsid {} {identity} {}", self.clean_environment(), self.quoted_program())
    }

    fn clean_environment(&self) -> String {
        let path = quoted(&self.runner.path.to_string_lossy());
        format!(
            "env -i PATH={path} HOME=/nonexistent LC_ALL=C GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
             GIT_ATTR_NOSYSTEM=1 GIT_PROTOCOL=\"$GIT_PROTOCOL\""
        )
    }

    fn quoted_program(&self) -> String {
        quoted(&self.runner.program.to_string_lossy())
    }

    /// Refuses a repository of the service's user that has hooks in its configuration: they may enforce rules, which
    /// must not be skipped silently.
    async fn check_configuration(&self, git_dir: &Path) -> Result<(), GitError> {
        for file in ["config", "config.worktree"].map(|name| git_dir.join(name)) {
            if !file.exists() {
                continue;
            }
            let file = file.to_string_lossy().into_owned();
            let ask = ["config", "--file", &file, "--includes", "--name-only", "--get-regexp"];
            let ask = ask.into_iter().chain([r"^(core\.hookspath|hook\..*)$"]);
            match self.command(ask).run().await {
                Ok(found) => {
                    let name = found.text()?.lines().next().unwrap_or_default().to_owned();
                    return Err(has_hooks(git_dir, &name));
                }
                // The file has no such setting.
                Err(GitError::Failed { code: Some(1), .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the path in an address, if it is a path, with the escapes of a URL decoded as git does.
fn path_of(address: &str) -> Option<PathBuf> {
    if address.starts_with('/') {
        return Some(address.into());
    }
    let escaped = address.strip_prefix("file://")?.as_bytes();
    let (mut bytes, mut at) = (Vec::new(), 0);
    while let Some(&byte) = escaped.get(at) {
        let digits = escaped.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                at += 3;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Some(OsString::from_vec(bytes).into())
}
