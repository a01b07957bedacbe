//! The settings that the back ends with isolation share.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cgroup::{Cgroups, RECORD};
use crate::users::{UserRange, Users};

/// The settings that the back ends `bubblewrap` and `container` share.
#[derive(Debug, Clone)]
pub struct CommonSettings {
    /// Additional files and folders of the host that programs may read, such as toolchains.
    pub readable: Vec<PathBuf>,
    /// The folder with all files of the service.
    pub data: PathBuf,
    /// A folder that only this back end uses, and whose parents all users may traverse.
    pub folder: PathBuf,
    /// `true` if no other process uses this folder for its sandboxes. The back end then updates the folder, and removes
    /// what processes that have ended left behind.
    pub renew: bool,
    /// The folders that contain workspaces.
    pub roots: Vec<PathBuf>,
    /// The user IDs for sandboxes, if the service runs as root.
    pub users: UserRange,
    /// The name that distinguishes the control groups of this service from others on the machine.
    pub name: String,
}

impl CommonSettings {
    /// Returns the users of workspaces, if the service runs as root.
    pub(crate) fn workspace_users(&self) -> Option<Arc<Users>> {
        let is_root = rustix::process::geteuid().is_root();
        is_root.then(|| Arc::new(Users::new(self.users, self.roots.clone())))
    }

    /// Finds the control groups for sandboxes.
    pub(crate) fn cgroups(&self) -> Cgroups {
        let record = self.folder.join(RECORD);
        Cgroups::find(&self.name, self.renew.then_some(record.as_path()))
    }
}
