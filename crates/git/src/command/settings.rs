//! Settings for the far end of a remote that is a path.
//!
//! Git takes `GIT_CONFIG_COUNT` away from the git that it starts at a path remote, so what [`Git`] sets for every
//! command is not seen there, and a repository of another user is refused ("dubious ownership"). A file named by
//! `GIT_CONFIG_GLOBAL` is seen.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Git;

impl Git {
    /// Writes a configuration into `dir`, to be given as `GIT_CONFIG_GLOBAL` in [`super::Runner::environment`]: with it
    /// the far end of a path remote syncs what it stores. It does not turn off the hooks of a path remote: they are its owner's rules, as they are at a remote over ssh.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_settings(dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join("gitconfig");
        let (fsync, method) = (super::FSYNC, super::FSYNC_METHOD);
        let text = format!("[safe]\n\tdirectory = *\n[core]\n\tfsync = {fsync}\n\tfsyncMethod = {method}\n");
        replace(&path, &text, 0o600)?;
        Ok(path)
    }
}

/// Puts a file in its place whole: another process may be reading or running it.
pub(super) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    std::fs::write(&draft, text)?;
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use crate::{Git, Runner};

    #[tokio::test]
    async fn the_far_end_of_a_path_remote_sees_the_settings() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Git::write_settings(dir.path()).unwrap();
        let environment = vec![("GIT_CONFIG_GLOBAL".into(), settings.into_os_string())];
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment, askpass: None });
        let repository = dir.path().join("r.git");
        git.at(&repository, ["init", "--quiet", "--bare"]).run().await.unwrap();
        // Only root can give a repository to somebody else; anybody can ask for what is in the file.
        let read = git.command(["config", "--global", "safe.directory"]).run().await.unwrap().text();
        assert_eq!(read.unwrap(), "*");
        if std::os::unix::fs::chown(&repository, Some(65_534), None).is_ok() {
            git.command([OsStr::new("ls-remote"), repository.as_os_str()]).run().await.unwrap();
        }
    }
}
