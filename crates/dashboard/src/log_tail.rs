//! The port for following a job's log, which pages stream to browsers.

use async_trait::async_trait;
use journeyman_core::ids::JobId;
use journeyman_core::job::event::LogEntry;

/// Opens logs of jobs for following.
#[async_trait]
pub trait LogTails: Send + Sync {
    /// Follows a job's log from the entry after `after`.
    fn tail(&self, job: JobId, after: u64) -> Box<dyn LogTail>;

    /// Waits until the service stops. Responses that are still being sent must then end.
    async fn stopped(&self);
}

/// The result of waiting for log entries.
#[derive(Debug)]
pub enum Tail {
    /// New entries, at least one.
    News(Vec<LogEntry>),
    /// No new entries for a while. The caller uses the time to check whether the viewer may still read.
    Quiet,
    /// The end of the log: the job was deleted, or the service stops.
    Over,
}

/// A job's log as it grows.
#[async_trait]
pub trait LogTail: Send + Sync {
    /// Waits for the next entries.
    async fn next(&mut self) -> Tail;
}
