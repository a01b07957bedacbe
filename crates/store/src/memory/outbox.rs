//! The outbox.

use async_trait::async_trait;
use journeyman_core::job::effect::Effect;
use journeyman_core::outbox::{Backlog, LONGEST_DELAY, Task};
use journeyman_core::ports::{OutboxStore, StoreError, TaskQuery};
use journeyman_core::time::Timestamp;

use super::{MemoryStore, Tables};

/// A row of the outbox.
#[derive(Debug)]
pub(super) struct TaskRow {
    task: Task,
    due_at: Timestamp,
}

#[async_trait]
impl OutboxStore for MemoryStore {
    async fn claim_tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        let TaskQuery { kinds, now, lease, limit } = query;
        let mut tables = self.tables();
        let is_due = |row: &&mut TaskRow| {
            (row.due_at <= now || row.due_at > now + LONGEST_DELAY) && kinds.contains(&row.task.effect.kind())
        };
        let mut due: Vec<&mut TaskRow> = tables.tasks.iter_mut().filter(is_due).collect();
        due.sort_by_key(|row| (row.due_at, row.task.number));
        due.truncate(limit);
        due.sort_by_key(|row| row.task.number);
        let claim = |row: &mut TaskRow| {
            row.due_at = now + lease;
            row.task.attempt += 1;
            row.task.clone()
        };
        Ok(due.into_iter().map(claim).collect())
    }

    async fn end_task(&self, number: u64, attempt: u32, next: Option<Timestamp>) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let is_it = |row: &TaskRow| row.task.number == number && row.task.attempt == attempt;
        let Some(index) = tables.tasks.iter().position(is_it) else { return Ok(false) };
        match (next, tables.tasks.get_mut(index)) {
            (Some(next), Some(row)) => row.due_at = next,
            _ => drop(tables.tasks.remove(index)),
        }
        Ok(true)
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let tables = self.tables();
        Ok(Backlog {
            tasks: tables.tasks.len() as u64,
            retried: tables.tasks.iter().filter(|row| row.task.attempt > 1).count() as u64,
            oldest: tables.tasks.iter().map(|row| row.task.created_at).min(),
        })
    }
}

impl Tables {
    /// Inserts the task of an effect, which is due immediately.
    pub(super) fn insert_task(&mut self, effect: Effect, at: Timestamp) {
        self.last_task += 1;
        let task = Task { number: self.last_task, effect, created_at: at, attempt: 0 };
        self.tasks.push(TaskRow { task, due_at: at });
    }
}
