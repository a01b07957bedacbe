//! Holds all processes of a group where they are, whatever they do: a stopped process can be continued by a signal that it
//! has arranged for itself (timer_create(2)), a frozen one cannot.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::version::Version;
use super::{Cgroup, Controller, Place, members};

/// Looks at a group that freezes: a process is held when it is on a processor next, or comes back from the disk.
const LOOKS: usize = 500;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

impl Cgroup {
    /// Freezes the group, which must hold `first`, and returns when every process in it is held. False if there is no
    /// freezer, or they could not be held.
    pub(crate) async fn freeze(&self, first: Pid) -> bool {
        let Some(place) = self.freezer() else { return false };
        // Where the sandbox has not entered the group, freezing it would hold nobody.
        if !members(&place.folder).contains(&first) || place.version.set_frozen(&place.folder, true).is_err() {
            return false;
        }
        for look in 0..LOOKS {
            if place.version.is_frozen(&place.folder) {
                return true;
            }
            if look > 1 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        self.thaw();
        false
    }

    /// Lets the processes go on.
    pub(crate) fn thaw(&self) {
        if let Some(place) = self.freezer() {
            // A group that is gone has nothing frozen.
            let _ = place.version.set_frozen(&place.folder, false);
        }
    }

    /// Kills every process of a frozen group. None of them runs any more: the signal is pending when the group is thawed,
    /// which version 1 needs for a process to die.
    pub(crate) fn kill_frozen(&self) {
        let Some(place) = self.freezer() else { return };
        kill_members(&place.folder);
        self.thaw();
    }

    /// Whether the group can be frozen.
    pub(crate) fn has_freezer(&self) -> bool {
        self.freezer().is_some()
    }

    fn freezer(&self) -> Option<&Place> {
        self.places.iter().find(|place| place.controller == Controller::Freezer)
    }
}

/// Sends KILL to every process of a group, frozen or not.
pub(super) fn kill_members(group: &Path) {
    for pid in members(group) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

impl Version {
    /// Freezes or thaws a group.
    pub(super) fn set_frozen(self, group: &Path, frozen: bool) -> io::Result<()> {
        match self {
            Self::One => std::fs::write(group.join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" }),
            Self::Two => std::fs::write(group.join("cgroup.freeze"), if frozen { "1" } else { "0" }),
        }
    }

    fn is_frozen(self, group: &Path) -> bool {
        let text = |file: &str| std::fs::read_to_string(group.join(file)).unwrap_or_default();
        match self {
            Self::One => text("freezer.state").trim() == "FROZEN",
            Self::Two => text("cgroup.events").lines().any(|line| line == "frozen 1"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    use journeyman_core::ports::Resources;

    use super::super::Cgroups;
    use super::*;

    /// A shell in the group that counts its rounds in a file.
    fn counting(group: &Cgroup, file: &Path) -> Child {
        let script = r#"read -r go; while :; do echo x >> "$1"; sleep 0.01; done"#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(file).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        for place in &group.places {
            std::fs::write(place.folder.join("cgroup.procs"), shell.id().to_string()).unwrap();
        }
        shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
        shell
    }

    fn length(file: &Path) -> u64 {
        std::fs::metadata(file).map_or(0, |note| note.len())
    }

    async fn grows(file: &Path) -> bool {
        let before = length(file);
        for _ in 0..1000 {
            if length(file) > before {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    #[tokio::test]
    async fn what_is_frozen_cannot_be_continued_by_a_signal_and_can_be_killed() {
        let cgroups = Cgroups::find("freezer-test", None);
        if !cgroups.has(Controller::Freezer) {
            let _ = writeln!(io::stderr(), "not tested: this user may make no group that can be frozen");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rounds");
        let group = cgroups.take(Resources::default()).unwrap();
        let mut shell = counting(&group, &file);
        let pid = Pid::from_child(&shell);
        assert!(grows(&file).await, "it runs");
        assert!(group.freeze(pid).await);
        let before = length(&file);
        kill_process(pid, Signal::CONT).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(length(&file), before, "it does not run");
        group.thaw();
        assert!(grows(&file).await, "it runs again");
        assert!(group.freeze(pid).await);
        let before = length(&file);
        group.kill_frozen();
        shell.wait().unwrap();
        assert_eq!(length(&file), before, "it died where it was");
    }

    #[tokio::test]
    async fn a_group_without_the_sandbox_is_not_frozen() {
        let group = Cgroups::find("freezer-empty", None).take(Resources::default()).unwrap();
        assert!(!group.freeze(rustix::process::getpid()).await);
    }
}
