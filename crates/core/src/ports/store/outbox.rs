//! The outbox and the duties.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::error::StoreError;
use crate::outbox::{Backlog, Task};
use crate::time::Timestamp;

/// A claim of due tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskQuery {
    /// The kinds of effects that the process can carry out.
    pub kinds: &'static [&'static str],
    /// The current time.
    pub now: Timestamp,
    /// The time for which the tasks are hidden from other processes.
    pub lease: Duration,
    /// The maximum number of tasks.
    pub limit: usize,
}

/// Claims and ends the tasks of the outbox ([`crate::outbox`]). Tasks are written by the methods that change jobs.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Claims due tasks, oldest first.
    ///
    /// # Errors
    /// The database failed.
    async fn claim_tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError>;

    /// Removes a claimed task, or makes it due at `next`. Returns false, and changes nothing, if another process has
    /// claimed the task meanwhile.
    ///
    /// # Errors
    /// The database failed.
    async fn end_task(&self, number: u64, attempt: u32, next: Option<Timestamp>) -> Result<bool, StoreError>;

    /// Counts the tasks.
    ///
    /// # Errors
    /// The database failed.
    async fn backlog(&self) -> Result<Backlog, StoreError>;
}

/// Gives duties of the whole installation to one process at a time.
#[async_trait]
pub trait DutyStore: Send + Sync {
    /// Begins a duty that is due, until `now` plus `lease`. Returns its fencing token; `None` if the duty is not due,
    /// or another process carries it out.
    ///
    /// A duty that is due later than `now` plus `longest` was stored before a clock was set back, and is due now.
    ///
    /// # Errors
    /// The database failed.
    async fn begin_duty(
        &self,
        name: &'static str,
        now: Timestamp,
        lease: Duration,
        longest: Duration,
    ) -> Result<Option<u64>, StoreError>;

    /// Ends a duty that was begun with `token`, and sets the time at which it is due again. Does nothing if another
    /// process has begun the duty meanwhile.
    ///
    /// # Errors
    /// The database failed.
    async fn end_duty(&self, name: &'static str, token: u64, next: Timestamp) -> Result<(), StoreError>;
}

/// Locks by name, for work outside the database that only one process may do at a time.
#[async_trait]
pub trait LockStore: Send + Sync {
    /// Locks `name` until `now` plus `time`. Returns false if another holder has locked it. A lock that would end later
    /// than that was stored before a clock was set back, and counts as expired.
    ///
    /// # Errors
    /// The database failed.
    async fn lock(&self, name: String, holder: Uuid, now: Timestamp, time: Duration) -> Result<bool, StoreError>;

    /// Unlocks `name` if `holder` holds the lock.
    ///
    /// # Errors
    /// The database failed.
    async fn unlock(&self, name: String, holder: Uuid) -> Result<(), StoreError>;
}
