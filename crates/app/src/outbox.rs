//! Carries out the tasks of the outbox.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use journeyman_core::outbox::{MAX_ATTEMPTS, TASK_LEASE, Task, retry_at};
use journeyman_core::ports::{EffectError, EffectHandler, StoreError, TaskQuery, WorkStore};
use journeyman_core::time::{Clock, IdGen};

/// The maximum number of tasks that are carried out at the same time.
const BATCH: usize = 16;

/// The time limit of a task. It is shorter than the lease, so that no other process carries out the task meanwhile.
const LIMIT: Duration = Duration::from_secs(TASK_LEASE.as_secs() - 20);

/// Carries out tasks. Any number of processes may do so at the same time.
#[derive(Clone)]
pub struct Outbox {
    /// The store with the tasks.
    pub store: Arc<dyn WorkStore>,
    /// The clock of this process.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness, for the delays between attempts.
    pub ids: Arc<dyn IdGen>,
    /// Carries out the effects.
    pub handler: Arc<dyn EffectHandler>,
}

impl Outbox {
    /// Claims due tasks and carries them out. Returns their number; if it is positive, more tasks may be due.
    ///
    /// # Errors
    /// The store failed. Claimed tasks are due again when their lease expires.
    pub async fn carry_out_due(&self) -> Result<usize, StoreError> {
        let (kinds, now) = (self.handler.kinds(), self.clock.now());
        let tasks = self.store.claim_tasks(TaskQuery { kinds, now, lease: TASK_LEASE, limit: BATCH }).await?;
        let ends = join_all(tasks.iter().map(|task| self.carry_out(task))).await;
        ends.into_iter().collect::<Result<(), StoreError>>()?;
        Ok(tasks.len())
    }

    async fn carry_out(&self, task: &Task) -> Result<(), StoreError> {
        let (kind, number) = (task.effect.kind(), task.number);
        let done = if task.attempt > MAX_ATTEMPTS {
            Err(EffectError("the process ended during the last attempt".to_owned()))
        } else {
            let done = tokio::time::timeout(LIMIT, self.handler.carry_out(&task.effect)).await;
            done.unwrap_or_else(|_| Err(EffectError(format!("the task took longer than {} s", LIMIT.as_secs()))))
        };
        let next = match done {
            Ok(()) => None,
            Err(error) => {
                let next = retry_at(task, self.clock.now(), self.permille());
                match next {
                    Some(_) => tracing::warn!(kind, task = number, attempt = task.attempt, %error, "a task failed"),
                    None => tracing::error!(kind, task = number, %error, effect = ?task.effect, "a task was given up"),
                }
                next
            }
        };
        if !self.store.end_task(number, task.attempt, next).await? {
            tracing::info!(kind, task = number, "another process has claimed the task, because its lease had expired");
        }
        Ok(())
    }

    /// Returns a random number below 1000.
    fn permille(&self) -> u32 {
        let mut bytes = [0; 4];
        self.ids.fill(&mut bytes);
        u32::from_le_bytes(bytes) % 1000
    }
}
