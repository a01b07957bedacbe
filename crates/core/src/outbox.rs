//! The outbox: effects that were stored with the changes that cause them, and are carried out as tasks.
//!
//! A process claims tasks that are due. A claim hides the task from other processes for the length of the lease, and
//! counts as an attempt. The process then removes the task, or sets the time of the next attempt. If the process dies,
//! the task is due again after the lease. The number of the attempt is the fencing token: a process whose lease has
//! expired, so that another process has claimed the task, can no longer change it.

use std::time::Duration;

use crate::job::effect::Effect;
use crate::retry::{LONGEST_BACKOFF, backoff};
use crate::time::Timestamp;

/// The time for which a claimed task is hidden from other processes.
pub const TASK_LEASE: Duration = Duration::from_secs(120);

/// The number of failed attempts after which a task is given up: about a day with [`retry_at`].
pub const MAX_ATTEMPTS: u32 = 300;

/// The longest possible delay until the next attempt of a task. A task that is due later than this was stored before a
/// clock was set back, and counts as due now.
pub const LONGEST_DELAY: Duration = Duration::from_secs(600);

const _: () =
    assert!(LONGEST_DELAY.as_secs() > LONGEST_BACKOFF.as_secs() && LONGEST_DELAY.as_secs() > TASK_LEASE.as_secs());

/// A claimed task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The number of the task, in the order of creation.
    pub number: u64,
    /// The effect to carry out.
    pub effect: Effect,
    /// The time of the change that caused the effect.
    pub created_at: Timestamp,
    /// The number of this attempt, from 1: the fencing token.
    pub attempt: u32,
}

/// The tasks in the outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of tasks.
    pub tasks: u64,
    /// The number of tasks whose last attempt failed, or whose process died.
    pub retried: u64,
    /// The creation time of the oldest task.
    pub oldest: Option<Timestamp>,
}

/// Returns the time at which a task is attempted again after a failure; `None` if it is given up.
#[must_use]
pub fn retry_at(task: &Task, now: Timestamp, permille: u32) -> Option<Timestamp> {
    (task.attempt < MAX_ATTEMPTS).then(|| now + backoff(task.attempt, permille))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::JobId;

    #[test]
    fn a_task_is_given_up_after_its_last_attempt() {
        let effect = Effect::RemoveBlobs { job: JobId::from_uuid(Uuid::nil()), up_to: None };
        let now = Timestamp::from_micros(0);
        let task = |attempt| Task { number: 1, effect: effect.clone(), created_at: now, attempt };
        assert_eq!(retry_at(&task(1), now, 999), Some(now + Duration::from_secs(1)));
        assert_eq!(retry_at(&task(MAX_ATTEMPTS - 1), now, 999), Some(now + LONGEST_BACKOFF));
        assert_eq!(retry_at(&task(MAX_ATTEMPTS), now, 999), None);
    }
}
