//! Protects the default branches of repositories: a push cannot remove commits from them.

use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::project::Project;
use journeyman_git::write_program;

use super::LocalHost;

/// The hook that git runs before it accepts a push. It is the service's own: git runs no hooks of repositories.
const PRE_RECEIVE: &str = include_str!("pre-receive.sh");

/// Writes the hook into a folder for hooks in `dir`, and returns that folder.
///
/// # Errors
/// The hook cannot be written.
pub fn write_hooks(dir: &Path) -> io::Result<PathBuf> {
    let hooks = dir.join("hooks");
    std::fs::create_dir_all(&hooks)?;
    write_program(&hooks.join("pre-receive"), PRE_RECEIVE)?;
    Ok(hooks)
}

impl LocalHost {
    /// Returns the setting of git with the hooks for pushes to the repository of a project.
    pub(super) fn hooks_setting(&self, project: &Project) -> Option<String> {
        let is_protected = !project.settings.code_host.allow_force_push;
        is_protected.then(|| format!("core.hooksPath={}", self.hooks.display()))
    }
}
