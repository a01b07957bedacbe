//! The outbox and the duties.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::job::effect::Effect;
use journeyman_core::outbox::{Backlog, LONGEST_DELAY, Task};
use journeyman_core::ports::{DutyStore, OutboxStore, StoreError, TaskQuery};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use crate::rows::{self, to_json};

/// The condition for tasks that are due.
macro_rules! due {
    () => {
        "(due_at <= ?1 OR due_at > ?2) AND kind IN (SELECT value FROM json_each(?3))"
    };
}

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn claim_tasks(&self, query: TaskQuery) -> Result<Vec<Task>, StoreError> {
        let TaskQuery { kinds, now, lease, limit } = query;
        let (from, until) = (now.as_micros(), (now + lease).as_micros());
        let (never, kinds) = ((now + LONGEST_DELAY).as_micros(), to_json(&kinds)?);
        // Most of the time no task is due. A read shows this without a transaction of the writer.
        let text = concat!("SELECT 1 FROM tasks WHERE ", due!(), " LIMIT 1");
        if !self.readers.find(|db| Ok(db.prepare_cached(text)?.exists(params![from, never, kinds])?))? {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                let mut claim = db.prepare_cached(concat!(
                    "UPDATE tasks SET due_at = ?4, attempts = attempts + 1
                     WHERE number IN (SELECT number FROM tasks WHERE ",
                    due!(),
                    " ORDER BY due_at, number LIMIT ?5) RETURNING *"
                ))?;
                let mut rows = claim.query(params![from, never, kinds, until, limit])?;
                // The decoding error of a row is a value here, so that it does not fail the others.
                let tasks = collect(&mut rows, |row| Ok(rows::task(row)))?;
                Ok::<_, OpError<StoreError>>(rows::tasks(tasks.into_iter(), |task| task.number))
            })
            .await
    }

    async fn end_task(&self, number: u64, attempt: u32, next: Option<Timestamp>) -> Result<bool, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                let changed = match next {
                    None => db
                        .prepare_cached("DELETE FROM tasks WHERE number = ?1 AND attempts = ?2")?
                        .execute(params![number, attempt])?,
                    Some(next) => db
                        .prepare_cached("UPDATE tasks SET due_at = ?3 WHERE number = ?1 AND attempts = ?2")?
                        .execute(params![number, attempt, next.as_micros()])?,
                };
                Ok::<_, OpError<StoreError>>(changed > 0)
            })
            .await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.readers
            .read(|db| {
                let text = "SELECT count(*) AS tasks, count(*) FILTER (WHERE attempts > 1) AS retried,
                                min(created_at) AS oldest
                            FROM tasks";
                let mut query = db.prepare_cached(text)?;
                let mut found = query.query([])?;
                Ok(found.next()?.map(rows::backlog).transpose()?.unwrap_or_default())
            })
            .await
    }
}

#[async_trait]
impl DutyStore for SqliteStore {
    async fn begin_duty(
        &self,
        name: &'static str,
        now: Timestamp,
        lease: Duration,
        longest: Duration,
    ) -> Result<Option<u64>, StoreError> {
        let (from, until, never) = (now.as_micros(), (now + lease).as_micros(), (now + longest).as_micros());
        self.writer
            .write(move |db| {
                let text = "INSERT INTO duties (name, due_at, token) VALUES (?1, ?2, 1)
                            ON CONFLICT (name) DO UPDATE SET due_at = ?2, token = token + 1
                            WHERE due_at <= ?3 OR due_at > ?4
                            RETURNING token";
                let mut begin = db.prepare_cached(text)?;
                let token: Option<i64> =
                    begin.query_row(params![name, until, from, never], |row| row.get(0)).optional()?;
                Ok::<_, OpError<StoreError>>(token.map(i64::unsigned_abs))
            })
            .await
    }

    async fn end_duty(&self, name: &'static str, token: u64, next: Timestamp) -> Result<(), StoreError> {
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                db.prepare_cached("UPDATE duties SET due_at = ?3 WHERE name = ?1 AND token = ?2")?.execute(params![
                    name,
                    token,
                    next.as_micros()
                ])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }
}

/// Inserts the task of an effect, which is due immediately.
pub(super) fn insert_task(db: &Connection, effect: &Effect, at: Timestamp) -> Result<(), ReadError> {
    db.prepare_cached("INSERT INTO tasks (kind, effect, created_at, due_at) VALUES (?1, ?2, ?3, ?3)")?
        .execute(params![effect.kind(), to_json(effect)?, at.as_micros()])?;
    Ok(())
}
