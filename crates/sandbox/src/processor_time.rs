//! Reads the processor time of the processes of a sandbox.

use std::time::Duration;

use journeyman_core::process_stat::ProcessStat;
use rustix::param::clock_ticks_per_second;
use rustix::process::Pid;

/// Returns the processor time that processes have used, with that of the children for which they have waited. Processes
/// may end in the meantime.
pub(crate) fn processor_time(processes: &[Pid]) -> Duration {
    let stat = |pid: &Pid| std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok();
    let ticks: u64 = processes.iter().filter_map(|pid| Some(ProcessStat::parse(&stat(pid)?)?.ticks)).sum();
    Duration::from_millis(ticks.saturating_mul(1000) / clock_ticks_per_second().max(1))
}
