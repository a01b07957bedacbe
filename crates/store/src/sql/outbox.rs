//! The outbox, the duties and the locks.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::job::effect::Effect;
use journeyman_core::outbox::{Backlog, LONGEST_DELAY, Task};
use journeyman_core::ports::{DutyStore, LockStore, OutboxStore, StoreError, TaskQuery};
use journeyman_core::time::Timestamp;
use uuid::Uuid;

use super::{Database, Row, SqlStore, Statement, sql};
use crate::rows::{self, Columns as _, to_json};

/// The condition for tasks that are due.
macro_rules! due {
    () => {
        "(due_at <= $1 OR due_at > $2) AND kind = ANY (($3))"
    };
}

#[async_trait]
impl<B: Database> OutboxStore for SqlStore<B> {
    async fn claim_tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        let TaskQuery { kinds, now, lease, limit } = query;
        let never = now + LONGEST_DELAY;
        let due = sql!(concat!("SELECT 1 FROM tasks WHERE ", due!(), " LIMIT 1"), now, never, kinds);
        let claim = sql!(
            concat!(
                "UPDATE tasks SET due_at = $4, attempts = attempts + 1
                 WHERE number IN (SELECT number FROM tasks WHERE ",
                due!(),
                " ORDER BY due_at, number LIMIT $5 FOR UPDATE SKIP LOCKED) RETURNING *"
            ),
            now,
            never,
            kinds,
            now + lease,
            limit,
        );
        let claimed = self.claim(due, claim).await?;
        Ok(rows::tasks(claimed.iter().map(rows::task), |task| task.number))
    }

    async fn end_task(&self, number: u64, attempt: u32, next: Option<Timestamp>) -> Result<bool, StoreError> {
        let end = match next {
            None => sql!("DELETE FROM tasks WHERE number = $1 AND attempts = $2 RETURNING 1", number, attempt),
            Some(next) => sql!(
                "UPDATE tasks SET due_at = $3 WHERE number = $1 AND attempts = $2 RETURNING 1",
                number,
                attempt,
                next,
            ),
        };
        self.changes(end).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let count = sql!(
            "SELECT count(*) AS tasks, count(*) FILTER (WHERE attempts > 1) AS retried, min(created_at) AS oldest
             FROM tasks"
        );
        Ok(self.all(count, rows::backlog).await?.pop().unwrap_or_default())
    }
}

/// Returns the statement that inserts the task of an effect, which is due at once.
pub(crate) fn insert_task(effect: &Effect, at: Timestamp) -> Result<Statement, StoreError> {
    Ok(sql!(
        "INSERT INTO tasks (kind, effect, created_at, due_at) VALUES ($1, $2, $3, $3)",
        effect.kind(),
        to_json(effect)?,
        at,
    ))
}

#[async_trait]
impl<B: Database> DutyStore for SqlStore<B> {
    async fn begin_duty(
        &self,
        name: &'static str,
        now: Timestamp,
        lease: Duration,
        longest: Duration,
    ) -> Result<Option<u64>, StoreError> {
        let begin = sql!(
            "INSERT INTO duties (name, due_at, token) VALUES ($1, $2, 1)
             ON CONFLICT (name) DO UPDATE SET due_at = $2, token = duties.token + 1
             WHERE duties.due_at <= $3 OR duties.due_at > $4
             RETURNING token",
            name,
            now + lease,
            now,
            now + longest,
        );
        let begun = self.run(vec![begin]).await?;
        let token = begun.first().map(|row: &Row| row.number("token")).transpose()?.flatten();
        Ok(token.map(i64::unsigned_abs))
    }

    async fn end_duty(&self, name: &'static str, token: u64, next: Timestamp) -> Result<(), StoreError> {
        let end = sql!("UPDATE duties SET due_at = $3 WHERE name = $1 AND token = $2", name, token, next);
        self.run(vec![end]).await?;
        Ok(())
    }
}

#[async_trait]
impl<B: Database> LockStore for SqlStore<B> {
    async fn lock(&self, name: String, holder: Uuid, now: Timestamp, time: Duration) -> Result<bool, StoreError> {
        let lock = sql!(
            "INSERT INTO locks (name, holder, until) VALUES ($1, $2, $4)
             ON CONFLICT (name) DO UPDATE SET holder = $2, until = $4
             WHERE locks.holder = $2 OR locks.until <= $3 OR locks.until > $4
             RETURNING 1",
            name,
            holder.to_string(),
            now,
            now + time,
        );
        self.changes(lock).await
    }

    async fn unlock(&self, name: String, holder: Uuid) -> Result<(), StoreError> {
        self.run(vec![sql!("DELETE FROM locks WHERE name = $1 AND holder = $2", name, holder.to_string())]).await?;
        Ok(())
    }
}
