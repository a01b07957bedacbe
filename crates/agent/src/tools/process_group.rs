//! The process group of a command.
//!
//! Invariant: when a [`ProcessGroup`] is dropped, for whatever reason, no process of the group is left.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// A process group that dies with this value.
pub(crate) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group that `child` leads; it must have been started with `process_group(0)`.
    pub(crate) fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It fails if no process is left, which is what is wanted.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}
