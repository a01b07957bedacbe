//! Ends the processes in control groups, and removes groups.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::version::Version;

/// The time that the processes of a dead service may take to exit after a KILL, and the pause between checks.
const END_TIME: Duration = Duration::from_secs(5);
const END_PAUSE: Duration = Duration::from_millis(10);

/// Kills the remaining processes in the groups of a service, waits for them to exit, and removes the groups.
pub(super) fn remove(folders: &[PathBuf]) {
    for folder in folders {
        remove_groups(folder);
        match std::fs::remove_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let group = folder.display();
                tracing::warn!(%group, %error, "a control group could not be removed; the next start tries again");
            }
            _ => {}
        }
    }
}

/// Kills the processes in all groups of a folder and removes the groups. The wait for the processes is bounded.
pub(super) fn remove_groups(folder: &Path) {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let groups: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    let pauses = END_TIME.as_millis() / END_PAUSE.as_millis();
    for pause in 0..=pauses {
        // Kill all processes in every round: one may have started another before it was killed.
        let mut left = false;
        for group in &groups {
            left |= !members(group).is_empty();
            kill_members(group);
            // In version 1, a frozen process cannot exit until it is thawed.
            for version in [Version::One, Version::Two] {
                let _ = version.set_frozen(group, false);
            }
        }
        if !left {
            break;
        }
        if pause == pauses {
            tracing::warn!(
                group = %folder.display(),
                "processes of a dead sandbox have not exited after they were killed"
            );
        }
        std::thread::sleep(END_PAUSE);
    }
    for group in groups {
        // A group that is not empty keeps the folder above it, for which `remove` logs a warning.
        let _ = std::fs::remove_dir(group);
    }
}

/// Returns true if a group has no processes.
pub(super) fn is_empty(group: &Path) -> bool {
    std::fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
}

/// Returns the processes of a group.
pub(super) fn members(group: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// Sends KILL to every process of a group, frozen or not.
pub(super) fn kill_members(group: &Path) {
    for pid in members(group) {
        // The process may have exited already.
        let _ = kill_process(pid, Signal::KILL);
    }
}
