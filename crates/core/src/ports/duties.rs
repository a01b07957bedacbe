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

/// The credentials for a code host that this process watches: that of the code host, or those of the projects that have
/// their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialTotals {
    /// The ID of the code host.
    pub host: String,
    /// `true` for the credentials of projects.
    pub of_project: bool,
    /// The end of the credential that expires first; `None` if no end is known.
    pub first_expiry: Option<Timestamp>,
    /// The number of credentials that do not work as they should: refused ones, and those of apps without all permissions
    /// or with suspended installations.
    pub problems: u64,
}

/// Counts the duties of a process.
pub trait DutyMeter: Send + Sync {
    /// Returns the counters of each duty.
    fn duties(&self) -> Vec<DutyTotals>;

    /// Returns the counters of the polls of each code host.
    fn polls(&self) -> Vec<PollTotals> {
        Vec::new()
    }

    /// Returns the numbers of the watched credentials for code hosts.
    fn credentials(&self) -> Vec<CredentialTotals> {
        Vec::new()
    }
}
