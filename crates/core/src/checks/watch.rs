//! The commit of a job whose checks are watched.

use std::time::Duration;

use super::check::Check;
use crate::ids::{JobId, ProjectId, Sha};
use crate::time::Timestamp;

/// The time for which a claimed watch is hidden from other processes: the delay after the death of a process.
pub const WATCH_LEASE: Duration = Duration::from_secs(120);

/// The time limit of a look at the checks of a commit. It is shorter than the lease.
pub const WATCH_LIMIT: Duration = Duration::from_secs(100);

/// The delay after a webhook until the checks are read, so that webhooks that arrive together cause one look.
pub const WAKE_DELAY: Duration = Duration::from_secs(5);

/// The longest delay between two looks. A watch that is due later was stored before a clock was set back, and is due
/// now.
pub const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// A commit whose checks are watched. Each job watches at most one commit: the newest that it has pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckWatch {
    /// The job.
    pub job: JobId,
    /// The project of the job.
    pub project: ProjectId,
    /// The commit.
    pub sha: Sha,
    /// The time of the push.
    pub since: Timestamp,
    /// The time of the next look; `None` if only a webhook causes one.
    pub due_at: Option<Timestamp>,
    /// The number of looks: the fencing token of a claim.
    pub looks: u32,
    /// The checks at the last look, those that failed first.
    pub checks: Vec<Check>,
}
