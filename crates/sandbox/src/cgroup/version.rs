//! The differences between the two versions: the location of groups, and the names of their files.

use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::project::Resources;

use super::controller::Controller;

/// The period of the limit on processor time in microseconds (the kernel's default).
const PERIOD: u64 = 100_000;

/// A version of the kernel's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// Returns this process's group for a controller, and the version of the hierarchy that has it.
pub(super) fn parent_of(controller: Controller) -> Option<(Version, PathBuf)> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    find(controller, &mounts, &groups)
}

fn find(controller: Controller, mounts: &str, groups: &str) -> Option<(Version, PathBuf)> {
    let name = controller.name();
    let mut versions = [(Version::One, "cgroup"), (Version::Two, "cgroup2")];
    if controller == Controller::Freezer {
        // Version 2 can freeze any group, even if the controllers are on version 1, and a process that it has frozen
        // can be killed: by an operator, and by bubblewrap when the service dies. A machine with both versions pays for
        // that with 20 ms for each new sandbox ([`super::Cgroup::entries`]).
        versions.reverse();
    }
    for (version, kind) in versions {
        let own = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_it = match version {
                Version::One => names.split(',').any(|has| has == name),
                Version::Two => number == "0" && names.is_empty(),
            };
            is_it.then_some(path)
        });
        let Some(own) = own else { continue };
        let mount = mounts.lines().find_map(|line| Mount::parse(line).filter(|mount| mount.has(kind, version, name)));
        let Some(Mount { root, point, .. }) = mount else { continue };
        // In a container, only a part of the hierarchy may be mounted.
        let below = own.strip_prefix(root).unwrap_or(own).trim_start_matches('/');
        return Some((version, Path::new(point).join(below)));
    }
    None
}

/// A line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        let (root, point, kind) = (before.next()?, before.next()?, after.next()?);
        Some(Self { root: root.trim_end_matches('/'), point, kind, options: after.nth(1).unwrap_or_default() })
    }

    fn has(&self, kind: &str, version: Version, controller: &str) -> bool {
        self.kind == kind && (version == Version::Two || self.options.split(',').any(|option| option == controller))
    }
}

impl Version {
    /// Makes the folder that will contain the groups of sandboxes, and enables the controller in it.
    pub(super) fn make(self, folder: &Path, controller: Controller) -> io::Result<()> {
        if self == Self::Two && controller == Controller::Freezer {
            make_dir(folder)?;
            // The freezer is not a controller that a parent delegates, and it does not exist before Linux 5.2.
            return folder.join("cgroup.freeze").metadata().map(|_| ());
        }
        if self == Self::Two {
            let parent = folder.parent().unwrap_or(folder);
            let there = std::fs::read_to_string(parent.join("cgroup.controllers"))?;
            if !there.split_ascii_whitespace().any(|has| has == controller.name()) {
                return Err(io::ErrorKind::Unsupported.into());
            }
            enable(parent, controller).or_else(|_| {
                // Only a group without processes can enable controllers for its children, so this process moves one
                // level down.
                let own = parent.join("service");
                make_dir(&own)?;
                std::fs::write(own.join("cgroup.procs"), "0")?;
                enable(parent, controller)
            })?;
        }
        make_dir(folder)?;
        if self == Self::Two { enable(folder, controller) } else { Ok(()) }
    }

    /// Returns whether this process may create groups with this controller in a group.
    pub(super) fn may_make(self, group: &Path, controller: Controller) -> bool {
        let is_ours = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
        match self {
            Self::One => is_ours(group),
            Self::Two => {
                let there = std::fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
                there.split_ascii_whitespace().any(|has| has == controller.name())
                    && is_ours(group)
                    && is_ours(&group.join("cgroup.subtree_control"))
            }
        }
    }

    /// Returns the name of the file through which a thread enters a group; in version 2, through which a whole process
    /// does.
    pub(super) const fn entry(self) -> &'static str {
        match self {
            Self::One => "tasks",
            Self::Two => "cgroup.procs",
        }
    }

    pub(super) fn limit(self, group: &Path, controller: Controller, resources: Resources) -> io::Result<()> {
        let write = |name: &str, value: String| std::fs::write(group.join(name), value);
        let or = |limit: Option<u64>, none: &str| limit.map_or_else(|| none.to_owned(), |limit| limit.to_string());
        let quota = resources.cpu_millis.map(|millis| u64::from(millis) * PERIOD / 1000);
        match (self, controller) {
            (Self::One, Controller::Memory) => {
                let most = or(resources.memory_bytes, "-1");
                // The file is missing if the kernel does not count swap. Its limit must never be below the memory
                // limit.
                let has_swap = group.join("memory.memsw.limit_in_bytes").exists();
                if has_swap {
                    write("memory.memsw.limit_in_bytes", "-1".to_owned())?;
                }
                write("memory.limit_in_bytes", most.clone())?;
                if has_swap { write("memory.memsw.limit_in_bytes", most) } else { Ok(()) }
            }
            (Self::Two, Controller::Memory) => {
                write("memory.max", or(resources.memory_bytes, "max"))?;
                if group.join("memory.swap.max").exists() { write("memory.swap.max", "0".to_owned()) } else { Ok(()) }
            }
            (_, Controller::Processes) => write("pids.max", or(resources.processes.map(u64::from), "max")),
            (Self::One, Controller::Cpu) => {
                write("cpu.cfs_period_us", PERIOD.to_string())?;
                match (quota, write("cpu.cfs_quota_us", or(quota, "-1"))) {
                    // Version 1 refuses a limit above that of an outer group, which applies in any case.
                    (Some(quota), Err(_)) if outer_quota(group).is_some_and(|outer| outer < quota) => {
                        write("cpu.cfs_quota_us", "-1".to_owned())
                    }
                    (_, written) => written,
                }
            }
            (_, Controller::Freezer) => self.set_frozen(group, false),
            (Self::Two, Controller::Cpu) => write("cpu.max", format!("{} {PERIOD}", or(quota, "max"))),
        }
    }

    /// Freezes or thaws a group.
    pub(super) fn set_frozen(self, group: &Path, frozen: bool) -> io::Result<()> {
        match self {
            Self::One => std::fs::write(group.join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" }),
            Self::Two => std::fs::write(group.join("cgroup.freeze"), if frozen { "1" } else { "0" }),
        }
    }

    /// Returns whether every process of a group is frozen.
    pub(super) fn is_frozen(self, group: &Path) -> bool {
        let text = |file: &str| std::fs::read_to_string(group.join(file)).unwrap_or_default();
        match self {
            Self::One => text("freezer.state").trim() == "FROZEN",
            Self::Two => text("cgroup.events").lines().any(|line| line == "frozen 1"),
        }
    }

    /// Returns how often the controller has enforced its limit by killing a process (memory) or refusing one
    /// (processes).
    pub(super) fn refusals(self, group: &Path, controller: Controller) -> Option<u64> {
        let (file, field) = match (self, controller) {
            (Self::One, Controller::Memory) => ("memory.oom_control", "oom_kill "),
            (Self::Two, Controller::Memory) => ("memory.events", "oom_kill "),
            (_, Controller::Processes) => ("pids.events", "max "),
            (_, Controller::Cpu | Controller::Freezer) => return None,
        };
        let text = std::fs::read_to_string(group.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
    }
}

/// Returns the lowest limit of the processor time of the groups around a group of version 1, in microseconds per
/// [`PERIOD`].
fn outer_quota(group: &Path) -> Option<u64> {
    let read = |group: &Path, file: &str| std::fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let quota = |group: &Path| {
        // A group without a limit has a negative one.
        let (quota, period) = (read(group, "cpu.cfs_quota_us")?, read(group, "cpu.cfs_period_us")?);
        quota.saturating_mul(PERIOD).checked_div(period)
    };
    group.ancestors().skip(1).filter_map(quota).min()
}

fn enable(group: &Path, controller: Controller) -> io::Result<()> {
    std::fs::write(group.join("cgroup.subtree_control"), format!("+{}", controller.name()))
}

pub(super) fn make_dir(folder: &Path) -> io::Result<()> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_above_that_of_an_outer_group_of_version_one_is_no_error() {
        let outer = Path::new("/sys/fs/cgroup/cpu").join(format!("journeyman-unittest-{}", std::process::id()));
        let inner = outer.join("inner");
        // With version 2, or for a user who may make no groups, there is nothing to test.
        if std::fs::create_dir(&outer).is_err() || !outer.join("cpu.cfs_quota_us").exists() {
            let _ = std::fs::remove_dir(&outer);
            return;
        }
        std::fs::create_dir_all(&inner).unwrap();
        let limit = |group: &Path, cpu_millis| {
            let resources = Resources { cpu_millis: Some(cpu_millis), ..Resources::default() };
            Version::One.limit(group, Controller::Cpu, resources)
        };
        let quota = || std::fs::read_to_string(inner.join("cpu.cfs_quota_us")).unwrap().trim().to_owned();
        limit(&outer, 700).unwrap();
        limit(&inner, 2000).unwrap();
        assert_eq!(quota(), "-1", "the limit of the outer group applies");
        limit(&inner, 500).unwrap();
        assert_eq!(quota(), "50000");
        // A limit that is too low for the kernel is an error, and not no limit.
        assert!(limit(&inner, 1).is_err());
        for group in [&inner, &outer] {
            std::fs::remove_dir(group).unwrap();
        }
    }

    #[test]
    fn the_group_of_this_process_is_found_in_both_versions_and_in_a_container() {
        let one = "36 31 0:33 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory\n\
                   37 31 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let groups = "4:memory:/api/x\n0::/api";
        let found = find(Controller::Memory, one, groups);
        assert_eq!(found, Some((Version::One, "/sys/fs/cgroup/memory/api/x".into())));
        // A controller that version 1 lacks may be in the hierarchy of version 2.
        assert_eq!(find(Controller::Processes, one, groups), Some((Version::Two, "/sys/fs/cgroup/unified/api".into())));
        let two = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let groups = "0::/system.slice/journeyman.service";
        let path = PathBuf::from("/sys/fs/cgroup/system.slice/journeyman.service");
        assert_eq!(find(Controller::Cpu, two, groups), Some((Version::Two, path)));
        let container = "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup cgroup rw,pids";
        let found = find(Controller::Processes, container, "5:pids:/docker/abc/sub");
        assert_eq!(found, Some((Version::One, "/sys/fs/cgroup/sub".into())));
        assert_eq!(find(Controller::Cpu, "", groups), None);
        // For the freezer, version 2 takes precedence.
        let both = format!("{one}\n38 31 0:35 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer");
        let groups = "6:freezer:/\n0::/api";
        let found = find(Controller::Freezer, &both, groups);
        assert_eq!(found, Some((Version::Two, "/sys/fs/cgroup/unified/api".into())));
        let found = find(Controller::Freezer, &both.replace("cgroup2", "none"), groups);
        assert_eq!(found, Some((Version::One, "/sys/fs/cgroup/freezer/".into())));
    }
}
