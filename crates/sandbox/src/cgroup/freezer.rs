//! Freezes all processes of a group. A stopped process can be continued by a signal that it has scheduled for itself
//! (timer_create(2)); a frozen process cannot.

use std::time::Duration;

use rustix::process::Pid;

use super::controller::Controller;
use super::removal::{kill_members, members};
use super::{Cgroup, ControllerFolder};

/// The number of checks of a group that is being frozen: a process freezes when it next runs on a processor, or returns
/// from disk I/O.
const CHECKS: usize = 500;

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(1);

impl Cgroup {
    /// Freezes the group, which must contain `first`, and waits until every process in it is frozen. Returns false if
    /// there is no freezer, or if the processes could not be frozen.
    pub(crate) async fn freeze(&self, first: Pid) -> bool {
        let Some(folder) = self.freezer() else { return false };
        // If the sandbox has not entered the group, freezing the group would not freeze the sandbox.
        if !members(&folder.path).contains(&first) || folder.version.set_frozen(&folder.path, true).is_err() {
            return false;
        }
        for check in 0..CHECKS {
            if folder.version.is_frozen(&folder.path) {
                return true;
            }
            if check > 1 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        self.thaw();
        false
    }

    /// Thaws the group, so that its processes continue.
    pub(crate) fn thaw(&self) {
        if let Some(folder) = self.freezer() {
            // A removed group has no frozen processes.
            let _ = folder.version.set_frozen(&folder.path, false);
        }
    }

    /// Kills every process of a frozen group, then thaws the group, which version 1 needs for a process to exit. No
    /// process runs again: the signal is already pending when the group is thawed.
    pub(crate) fn kill_frozen(&self) {
        let Some(folder) = self.freezer() else { return };
        kill_members(&folder.path);
        self.thaw();
    }

    /// Returns whether the group can be frozen.
    pub(crate) fn has_freezer(&self) -> bool {
        self.freezer().is_some()
    }

    fn freezer(&self) -> Option<&ControllerFolder> {
        self.folders.iter().find(|folder| folder.controller == Controller::Freezer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use journeyman_core::project::Resources;
    use journeyman_testkit::until_async;
    use rustix::process::{Signal, kill_process};

    use super::super::Cgroups;
    use super::*;

    /// Starts a shell in the group that appends lines to a file in a loop.
    fn counting(group: &Cgroup, file: &Path) -> Child {
        let script = r#"read -r go; while :; do echo x >> "$1"; sleep 0.01; done"#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(file).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        for folder in &group.folders {
            std::fs::write(folder.path.join("cgroup.procs"), shell.id().to_string()).unwrap();
        }
        shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
        shell
    }

    fn length(file: &Path) -> u64 {
        std::fs::metadata(file).map_or(0, |meta| meta.len())
    }

    async fn grows(file: &Path) {
        let before = length(file);
        until_async("the shell runs", async || (length(file) > before).then_some(())).await;
    }

    /// Freezes the group. One attempt may fail, because the time for a process to run next is limited.
    async fn freeze(group: &Cgroup, first: Pid) {
        until_async("the group is frozen", async || group.freeze(first).await.then_some(())).await;
    }

    #[tokio::test]
    async fn a_frozen_process_ignores_signals_to_continue_and_can_be_killed() {
        let cgroups = Cgroups::find("freezer-test", None);
        if !cgroups.has(Controller::Freezer) {
            let _ = writeln!(io::stderr(), "not tested: this user cannot create a control group with a freezer");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rounds");
        let group = cgroups.take(Resources::default()).unwrap();
        let mut shell = counting(&group, &file);
        let pid = Pid::from_child(&shell);
        grows(&file).await;
        freeze(&group, pid).await;
        let before = length(&file);
        kill_process(pid, Signal::CONT).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(length(&file), before, "it does not run");
        group.thaw();
        grows(&file).await;
        freeze(&group, pid).await;
        let before = length(&file);
        group.kill_frozen();
        shell.wait().unwrap();
        assert_eq!(length(&file), before, "it did not run before it was killed");
    }

    #[tokio::test]
    async fn a_group_without_the_sandbox_is_not_frozen() {
        let group = Cgroups::find("freezer-empty", None).take(Resources::default()).unwrap();
        assert!(!group.freeze(rustix::process::getpid()).await);
    }
}
