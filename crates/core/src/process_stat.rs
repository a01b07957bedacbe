//! The state of a process as Linux reports it in `/proc/<pid>/stat` (proc_pid_stat(5)).

/// What the service reads of the state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// The ID of the process group.
    pub group: i32,
    /// The processor time of the process and of the children for which it has waited, in clock ticks: `utime`, `stime`,
    /// `cutime` and `cstime`.
    pub ticks: u64,
}

impl ProcessStat {
    /// Parses the file; `None` if it has another format.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The name of the program, in parentheses, may contain anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok());
        Some(Self { group: fields.get(2)?.parse().ok()?, ticks: times.sum::<Option<u64>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_and_the_times_are_read() {
        let stat = |name: &str| format!("41 ({name}) S 1 40 40 0 -1 4194560 100 200 0 0 7 5 30 2 20 0 1 0 99 1 2\n");
        for name in ["git", "a b", "x) S 1 9 9 (y"] {
            assert_eq!(ProcessStat::parse(&stat(name)), Some(ProcessStat { group: 40, ticks: 44 }), "{name}");
        }
        for wrong in ["", "41 (git) S 1", "41 (git) S 1 x 40 0 -1 4194560 100 200 0 0 7 5 30 2 20 0 1 0 99"] {
            assert_eq!(ProcessStat::parse(wrong), None, "{wrong}");
        }
    }
}
