//! The outbox and the duties.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::outbox::{Backlog, Task};
use crate::time::Timestamp;

/// Claims and ends the tasks of the outbox ([`crate::outbox`]). Tasks are written by the methods that change jobs.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Claims at most `limit` due tasks of these kinds, oldest first, until `now` plus `lease`.
    ///
    /// # Errors
    /// The database failed.
    async fn claim_tasks(
        &self,
        kinds: &'static [&'static str],
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Task>, StoreError>;

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
