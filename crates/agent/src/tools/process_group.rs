//! The process group of a command.
//!
//! Invariant: dropping a [`ProcessGroup`] kills all processes of the group.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// A process group that is killed when this value is dropped.
pub(crate) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Returns the group that `child` leads; the child must have been started with `process_group(0)`.
    pub(crate) fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // The call fails if no process is left, which is the desired state.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}
