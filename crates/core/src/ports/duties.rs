//! The counters of periodic duties, for metrics.

use std::time::Duration;

use crate::time::Timestamp;

/// What a process has done for a duty since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DutyTotals {
    /// The name of the duty.
    pub name: &'static str,
    /// The number of times that the duty was carried out.
    pub runs: u64,
    /// The number of times that it failed.
    pub failures: u64,
    /// The time of its last success.
    pub last_success: Option<Timestamp>,
    /// The duration of the last time.
    pub last_duration: Duration,
}

/// Counts the duties of a process.
pub trait DutyMeter: Send + Sync {
    /// Returns the counters of each duty.
    fn duties(&self) -> Vec<DutyTotals>;
}
