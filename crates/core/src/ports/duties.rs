//! The counters of periodic duties and of polls, for metrics.

use std::time::Duration;

use crate::time::Timestamp;

/// The counters of a duty since the start of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DutyTotals {
    /// The name of the duty.
    pub name: &'static str,
    /// The number of times that the duty was carried out.
    pub runs: u64,
    /// The number of times that the duty failed.
    pub failures: u64,
    /// The time of the last success.
    pub last_success: Option<Timestamp>,
    /// The duration of the last run.
    pub last_duration: Duration,
}

/// The counters of the polls of a code host since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollTotals {
    /// The name of the code host.
    pub host: String,
    /// The number of polls of a repository.
    pub polls: u64,
    /// The number of polls that failed.
    pub failures: u64,
    /// The number of requests.
    pub requests: u64,
    /// The number of events that were stored.
    pub events: u64,
}

/// Counts the duties of a process.
pub trait DutyMeter: Send + Sync {
    /// Returns the counters of each duty.
    fn duties(&self) -> Vec<DutyTotals>;

    /// Returns the counters of the polls of each code host.
    fn polls(&self) -> Vec<PollTotals> {
        Vec::new()
    }
}
