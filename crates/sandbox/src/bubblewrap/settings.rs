//! The settings of the back end `bubblewrap`.

use std::path::PathBuf;

use crate::settings::CommonSettings;

/// The settings of the back end `bubblewrap`.
#[derive(Debug, Clone)]
pub struct BubblewrapSettings {
    /// The name or the path of the program bwrap.
    pub program: PathBuf,
    /// The search path for bwrap and setpriv.
    pub path: String,
    /// The path of this program, or of a copy that all users may run. It is the first process of a sandbox.
    pub shim: PathBuf,
    /// The path of this program in the commands of agents. If programs may read this path, they find `shim` there.
    pub own_program: PathBuf,
    /// The settings that both back ends with isolation have.
    pub common: CommonSettings,
}
