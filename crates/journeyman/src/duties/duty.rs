//! The interface of duties.

use std::time::Duration;

use async_trait::async_trait;

/// The processes that carry out a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The duty runs in one process of the installation at a time. The duration is the length of the lease, and also
    /// the time limit of a run.
    Installation(Duration),
    /// Each process.
    Machine,
}

/// A periodic duty.
#[async_trait]
pub(super) trait Duty: Send + Sync {
    /// Returns the name, for the lease, the log and the metrics.
    fn name(&self) -> &'static str;

    /// Returns the interval between two runs: for a duty of the installation, from the end of a successful run to the
    /// start of the next; for a duty of a machine, from start to start.
    fn period(&self) -> Duration;

    /// Returns the processes that carry it out.
    fn scope(&self) -> Scope;

    /// Returns the time from the start of the process to the first run.
    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether there is something to do. If not, the duty of an installation takes no lease, which would be a
    /// write to the database.
    async fn is_needed(&self) -> anyhow::Result<bool> {
        Ok(true)
    }

    /// Carries out the duty once.
    async fn carry_out(&self) -> anyhow::Result<()>;
}
