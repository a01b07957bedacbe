//! Processes in sandboxes, as the host sees them.

use rustix::process::Pid;

/// A shell command that prints the ID of its parent process in the PID namespace of the sandbox, that namespace, and the
/// time at which the process started (proc_pid_stat(5)): a later namespace can have the same number.
pub(crate) const PRINT_PARENT: &str = "echo $PPID $(readlink /proc/self/ns/pid) $(cut -d ' ' -f 22 /proc/$PPID/stat)";

/// A process in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxProcess {
    number: String,
    namespace: String,
    started: String,
}

impl SandboxProcess {
    /// Parses the output of [`PRINT_PARENT`].
    pub(crate) fn parse(line: &str) -> Self {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let [number, namespace, started] = <[String; 3]>::try_from(words).unwrap();
        Self { number, namespace, started }
    }

    /// Returns the process ID on the host; `None` if there is no such process.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok()).find_map(|pid| {
            let namespace = std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
            let is_it = namespace.to_str() == Some(&self.namespace)
                && stat.split(' ').nth(21) == Some(&self.started)
                && numbers.split_ascii_whitespace().next_back() == Some(&self.number);
            is_it.then(|| Pid::from_raw(pid)).flatten()
        })
    }

    /// Returns the letter of the process state (proc_pid_stat(5)); `None` if there is no such process.
    pub(crate) fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?.as_raw_pid())).ok()?;
        stat.rsplit(") ").next()?.chars().next()
    }

    /// Returns whether the process cannot run: it is stopped, or its control group is frozen.
    pub(crate) fn is_held(&self) -> bool {
        let Some(pid) = self.pid() else { return false };
        let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_pid())).unwrap_or_default();
        let has_line = |file: String, wanted: &str| {
            std::fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == wanted))
        };
        let is_frozen = groups.lines().any(|line| match line.splitn(3, ':').collect::<Vec<_>>().as_slice() {
            [_, "", path] => ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
                .iter()
                .any(|mount| has_line(format!("{mount}{path}/cgroup.events"), "frozen 1")),
            [_, "freezer", path] => has_line(format!("/sys/fs/cgroup/freezer{path}/freezer.state"), "FROZEN"),
            _ => false,
        });
        is_frozen || self.state() == Some('T')
    }

    /// Returns whether the process exists and is not a zombie.
    pub(crate) fn runs(&self) -> bool {
        !matches!(self.state(), None | Some('Z'))
    }
}
