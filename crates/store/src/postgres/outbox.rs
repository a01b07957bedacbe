//! The outbox and the duties.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::outbox::{Backlog, LONGEST_DELAY, Task};
use journeyman_core::ports::{DutyStore, OutboxStore, StoreError, TaskQuery};
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::call;
use crate::rows;

/// Claims due tasks. Processes that claim at the same time take different tasks.
const CLAIM: &str = "
    UPDATE tasks SET due_at = $4, attempts = attempts + 1
    WHERE number IN (
        SELECT number FROM tasks WHERE (due_at <= $1 OR due_at > $2) AND kind = ANY($3)
        ORDER BY due_at, number LIMIT $5 FOR UPDATE SKIP LOCKED)
    RETURNING *";

const BEGIN_DUTY: &str = "
    INSERT INTO duties (name, due_at, token) VALUES ($1, $2, 1)
    ON CONFLICT (name) DO UPDATE SET due_at = $2, token = duties.token + 1
    WHERE duties.due_at <= $3 OR duties.due_at > $4
    RETURNING token";

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn claim_tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        let TaskQuery { kinds, now, lease, limit } = query;
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let answers = self.write(vec![call!(CLAIM, from, never, kinds, until, limit)]).await?;
        Ok(rows::tasks(answers.iter().flatten().map(rows::task), |task| task.number))
    }

    async fn end_task(&self, number: u64, attempt: u32, next: Option<Timestamp>) -> Result<bool, StoreError> {
        let (number, attempt) = (i64::try_from(number).unwrap_or(i64::MAX), i64::from(attempt));
        let end = match next {
            None => call!("DELETE FROM tasks WHERE number = $1 AND attempts = $2 RETURNING 1", number, attempt),
            Some(next) => {
                let text = "UPDATE tasks SET due_at = $3 WHERE number = $1 AND attempts = $2 RETURNING 1";
                call!(text, number, attempt, next.as_micros())
            }
        };
        Ok(self.write(vec![end]).await?.iter().any(|rows| !rows.is_empty()))
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let text = "SELECT count(*) AS tasks, count(*) FILTER (WHERE attempts > 1) AS retried,
                        min(created_at) AS oldest
                    FROM tasks";
        let found = self.read(call!(text)).await?;
        Ok(found.first().map(rows::backlog).transpose()?.unwrap_or_default())
    }
}

#[async_trait]
impl DutyStore for PostgresStore {
    async fn begin_duty(
        &self,
        name: &'static str,
        now: Timestamp,
        lease: Duration,
        longest: Duration,
    ) -> Result<Option<u64>, StoreError> {
        let [from, until, never] = [now, now + lease, now + longest].map(Timestamp::as_micros);
        let answers = self.write(vec![call!(BEGIN_DUTY, name, until, from, never)]).await?;
        let token = answers.iter().flatten().next().map(|row| row.try_get::<_, i64>("token"));
        Ok(token.transpose().map_err(PgError::from)?.map(i64::unsigned_abs))
    }

    async fn end_duty(&self, name: &'static str, token: u64, next: Timestamp) -> Result<(), StoreError> {
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        let end = call!("UPDATE duties SET due_at = $3 WHERE name = $1 AND token = $2", name, token, next.as_micros());
        self.write(vec![end]).await?;
        Ok(())
    }
}
