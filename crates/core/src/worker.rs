//! The reports of workers: what each process that carries out runs says about itself every few seconds.
//!
//! Reports are for people: the leases of jobs say who carries out a run. One decision depends on them: a job whose ended
//! turn only one machine has waits for its worker as long as that reports itself
//! ([`GONE`](crate::ports::GONE)).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;
use crate::time::{Timestamp, micros};

/// The interval between two reports of a worker.
pub const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// The time after which a worker that sends no report counts as silent. Clocks of machines may differ a little.
pub const SILENT: Duration = Duration::from_secs(30);

/// The time after which the last report of a worker is removed, by the clock of the database.
pub const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

/// The last report of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerReport {
    /// The worker, whose ID stays when its process is restarted.
    pub id: WorkerId,
    /// The time of the report, by the clock of the worker's machine.
    pub seen_at: Timestamp,
    /// The state of the worker.
    pub state: WorkerState,
}

impl WorkerReport {
    /// Returns whether the worker has sent no report for so long that its process is probably gone.
    #[must_use]
    pub fn is_silent(&self, now: Timestamp) -> bool {
        now.since(self.seen_at) >= SILENT
    }
}

/// The state of a worker. Fields that an older version does not report have their default values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerState {
    /// The name of the machine.
    pub host: String,
    /// The version of the program.
    pub version: String,
    /// The time at which the process started.
    #[serde(with = "micros")]
    pub started_at: Timestamp,
    /// The maximum number of concurrent runs.
    pub slots: u32,
    /// The number of runs that are being carried out.
    pub busy: u32,
    /// `true` if the process also serves clients.
    pub serves: bool,
    /// The disk with the data directory, if its size is known.
    pub disk: Option<DiskState>,
    /// The sandbox, once its guarantees were checked.
    pub sandbox: Option<SandboxState>,
    /// The IDs of the agents that can be started.
    pub agents: Vec<String>,
}

/// The state of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskState {
    /// The size in bytes.
    pub total_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// The reserve in bytes. With less free space, no run begins.
    pub reserve_bytes: u64,
}

impl DiskState {
    /// Returns the free space and the reserve.
    #[must_use]
    pub const fn space(&self) -> FreeSpace {
        FreeSpace { free_bytes: self.free_bytes, reserve_bytes: self.reserve_bytes }
    }

    /// Returns whether the free space is near the reserve: less than twice as much, or less than a tenth of the disk.
    #[must_use]
    pub const fn is_low(&self) -> bool {
        self.free_bytes < self.reserve_bytes.saturating_mul(2) || self.free_bytes < self.total_bytes / 10
    }
}

/// The guarantees of a sandbox, as numbers and names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxState {
    /// The name of the back end.
    pub kind: String,
    /// The number of guarantees that hold.
    pub holds: u32,
    /// The required guarantees that do not hold. With any, agents do not run.
    pub missing: Vec<String>,
    /// The guarantees that do not hold, and that the configuration does not require.
    pub given_up: Vec<String>,
}

impl From<&Containment> for SandboxState {
    fn from(found: &Containment) -> Self {
        let missing: Vec<String> = found.missing().map(|one| one.name.to_owned()).collect();
        let lost = found.guarantees.iter().filter(|one| !one.holds).map(|one| one.name.to_owned());
        Self {
            kind: found.sandbox.to_owned(),
            holds: u32::try_from(found.guarantees.iter().filter(|one| one.holds).count()).unwrap_or(u32::MAX),
            given_up: lost.filter(|name| !missing.contains(name)).collect(),
            missing,
        }
    }
}

/// The guarantees of the sandbox of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    /// The name of the back end.
    pub sandbox: &'static str,
    /// All guarantees.
    pub guarantees: Vec<Guarantee>,
    /// The names of the guarantees that the configuration does not require.
    pub given_up: Vec<String>,
}

impl Containment {
    /// Returns the required guarantees that do not hold.
    pub fn missing(&self) -> impl Iterator<Item = &Guarantee> {
        self.guarantees.iter().filter(|one| !one.holds && !self.given_up.iter().any(|name| name == one.name))
    }

    /// Returns whether agents may be run, that is, whether all required guarantees hold.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.missing().next().is_none()
    }
}

/// A guarantee of a sandbox, and whether it holds on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantee {
    /// The name, such as `network`.
    pub name: &'static str,
    /// `true` if a test has shown that the guarantee holds.
    pub holds: bool,
    /// A note on how the sandbox provides the guarantee, or the remedy if it does not.
    pub note: String,
}

/// The free space on a disk, and the reserve to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free bytes.
    pub free_bytes: u64,
    /// The reserve in bytes. With less free space, no run begins, and active runs are stopped.
    pub reserve_bytes: u64,
}

impl FreeSpace {
    /// Returns whether runs may begin.
    #[must_use]
    pub const fn is_enough(self) -> bool {
        self.free_bytes >= self.reserve_bytes
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::worker::Guarantee;

    #[test]
    fn a_worker_is_silent_after_some_missed_reports() {
        let seen_at = Timestamp::from_micros(1_800_000_000_000_000);
        let id = WorkerId::from_uuid(Uuid::from_u128(1));
        let report = WorkerReport { id, seen_at, state: WorkerState::default() };
        for (after, expected) in [(0, false), (29, false), (30, true), (86_400, true)] {
            assert_eq!(report.is_silent(seen_at + Duration::from_secs(after)), expected, "{after} s");
        }
        // The clock of the worker's machine may be ahead.
        assert!(!report.is_silent(seen_at - Duration::from_secs(5)));
    }

    #[test]
    fn a_disk_is_low_before_its_reserve_is_used() {
        let disk = |total_bytes, free_bytes, reserve_bytes| DiskState { total_bytes, free_bytes, reserve_bytes };
        assert!(disk(100, 9, 1).is_low() && disk(100, 19, 10).is_low());
        assert!(!disk(100, 20, 10).is_low() && !disk(100, 10, 1).is_low());
        assert!(disk(100, 19, 10).space().is_enough());
    }

    #[test]
    fn a_report_of_another_version_can_be_read() {
        let read = |text| serde_json::from_str::<WorkerState>(text).unwrap();
        assert_eq!(read("{}"), WorkerState::default());
        let state = read(r#"{"host": "forge-1", "slots": 2, "new": true, "disk": {"free_bytes": 7}}"#);
        assert_eq!((state.host.as_str(), state.slots, state.disk.unwrap().free_bytes), ("forge-1", 2, 7));
    }

    #[test]
    fn a_sandbox_lists_what_is_missing_and_what_was_given_up() {
        let guarantee = |name, holds| Guarantee { name, holds, note: String::new() };
        let guarantees = vec![guarantee("network", true), guarantee("cpu", false), guarantee("memory", false)];
        let given_up = vec!["cpu".to_owned(), "network".to_owned()];
        let state = SandboxState::from(&Containment { sandbox: "bubblewrap", guarantees, given_up });
        assert_eq!((state.kind.as_str(), state.holds), ("bubblewrap", 1));
        assert_eq!((state.missing, state.given_up), (vec!["memory".to_owned()], vec!["cpu".to_owned()]));
    }
}
