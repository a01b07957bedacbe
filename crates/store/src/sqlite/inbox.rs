//! The inbox.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHostId, HostName};
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::inbox::{Content, Decision, InboxEvent, InboxState, NewEvent, Next, Outcome};
use journeyman_core::job::PullRepository;
use journeyman_core::outbox::{Backlog, LONGEST_DELAY};
use journeyman_core::poll::POLLED;
use journeyman_core::ports::{Decided, InboxFilter, InboxStore, RECENT_EVENTS, StoreError};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use crate::rows::{self, name_of, to_json};

#[async_trait]
impl InboxStore for SqliteStore {
    async fn receive(&self, event: NewEvent) -> Result<bool, StoreError> {
        self.writer.write(move |db| Ok::<_, OpError<StoreError>>(insert_event(db, &event)?)).await
    }

    async fn claim_events(&self, now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let (from, until, never) = (now.as_micros(), (now + lease).as_micros(), (now + LONGEST_DELAY).as_micros());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // Most of the time no event is due. A read shows this without a transaction of the writer.
        let due = self.readers.find(|db| {
            let text = "SELECT 1 FROM inbox
                        WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) AND state = 'received' LIMIT 1";
            Ok(db.prepare_cached(text)?.query_row([from, never], |_| Ok(())).optional()?)
        })?;
        if due.is_none() {
            return Ok(Vec::new());
        }
        let claimed = self
            .writer
            .write(move |db| {
                let text = "UPDATE inbox SET due_at = ?3, attempts = attempts + 1 WHERE number IN (
                                SELECT number FROM inbox
                                WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) AND state = 'received'
                                ORDER BY number LIMIT ?4)
                            RETURNING *";
                let mut claim = db.prepare_cached(text)?;
                Ok::<_, OpError<StoreError>>(collect(&mut claim.query([from, never, until, limit])?, |row| {
                    rows::inbox_event(row)
                })?)
            })
            .await;
        let mut claimed = claimed?;
        claimed.sort_unstable_by_key(|event: &InboxEvent| event.number);
        Ok(claimed)
    }

    async fn decide_event(&self, number: u64, attempt: u32, decision: Decision) -> Result<Decided, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                let Decision { project, job, event, subject, next } = &decision;
                let own = project.as_ref().map(ProjectId::as_str);
                let found: Option<(String, Option<String>)> = db
                    .prepare_cached(
                        "SELECT host, coalesce(?3, project) FROM inbox
                         WHERE number = ?1 AND attempts = ?2 AND state = 'received'",
                    )?
                    .query_row(params![number, attempt, own], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?;
                let Some((host, own)) = found else { return Ok::<_, OpError<StoreError>>(Decided::Lost) };
                let mut is_duplicate = false;
                if let Some(subject) = subject {
                    let text = "SELECT 1 FROM inbox WHERE host = ?1 AND subject = ?2 AND number <> ?3
                                AND project = ?4 LIMIT 1";
                    is_duplicate = db.prepare_cached(text)?.exists(params![host, subject, number, own])?;
                }
                let (state, outcome, detail, due_at) = match next {
                    _ if is_duplicate => (InboxState::Ignored, Some(Outcome::Duplicate), None, None),
                    Next::Ends { state, outcome, detail } => (*state, Some(*outcome), detail.clone(), None),
                    Next::Waits(until) => (InboxState::Waiting, None, None, Some(until.as_micros())),
                    Next::Retries(at) => (InboxState::Received, None, None, Some(at.as_micros())),
                };
                let content = event.as_ref().map(to_json).transpose()?;
                db.prepare_cached(
                    "UPDATE inbox
                     SET project = coalesce(?2, project), job = ?3, subject = ?4, state = ?5, outcome = ?6, detail = ?7,
                         due_at = ?8, content = coalesce(?9, content),
                         body = CASE WHEN ?5 = 'received' THEN body ELSE NULL END
                     WHERE number = ?1",
                )?
                .execute(params![
                    number,
                    project.as_ref().map(ProjectId::as_str),
                    job.map(|job| job.to_string()),
                    subject.as_ref().filter(|_| !is_duplicate),
                    state.name(),
                    outcome.map(|outcome| name_of(&outcome)).transpose()?,
                    detail,
                    due_at,
                    content,
                ])?;
                if let (InboxState::Waiting, Some(job)) = (state, job) {
                    postpone(db, *job, due_at)?;
                }
                Ok(if is_duplicate { Decided::Duplicate } else { Decided::Stored })
            })
            .await
    }

    async fn jobs_with_due_events(&self, now: Timestamp, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let (from, never) = (now.as_micros(), (now + LONGEST_DELAY).as_micros());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let text = "SELECT job AS id, min(due_at) AS at FROM inbox
                            WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) AND state = 'waiting'
                            GROUP BY job ORDER BY at LIMIT ?3";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([from, never, limit])?, |row| rows::job_id(row))
            })
            .await
    }

    async fn waiting_events(&self, job: JobId) -> Result<Vec<InboxEvent>, StoreError> {
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM inbox WHERE job = ?1 AND state = 'waiting' ORDER BY number";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([job.to_string()])?, |row| rows::inbox_event(row))
            })
            .await
    }

    async fn postpone_events(&self, job: JobId, until: Timestamp) -> Result<(), StoreError> {
        let until = Some(until.as_micros());
        self.writer.write(move |db| Ok::<_, OpError<StoreError>>(postpone(db, job, until)?)).await
    }

    async fn end_events(
        &self,
        numbers: Vec<u64>,
        state: InboxState,
        outcome: Outcome,
        detail: Option<String>,
    ) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                let text = "UPDATE inbox SET state = ?2, outcome = ?3, detail = ?4, due_at = NULL, body = NULL
                            WHERE number = ?1 AND state IN ('received', 'waiting')";
                let mut end = db.prepare_cached(text)?;
                for number in &numbers {
                    let number = i64::try_from(*number).unwrap_or(i64::MAX);
                    end.execute(params![number, state.name(), name_of(&outcome)?, detail])?;
                }
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn events_about(&self, host: HostName, key: String) -> Result<Vec<InboxEvent>, StoreError> {
        self.readers
            .read(move |db| {
                // All texts that begin with the key and a slash: the slash is followed by 0 in ASCII.
                let text = "SELECT * FROM inbox WHERE host = ?1 AND subject > ?2 || '/' AND subject < ?2 || '0'
                            ORDER BY number";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([host.0, key])?, |row| rows::inbox_event(row))
            })
            .await
    }

    async fn inbox_of_message(&self, message: MessageId) -> Result<Vec<InboxEvent>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM inbox WHERE message = ?1 ORDER BY number")?;
                collect(&mut query.query([message.to_string()])?, |row| rows::inbox_event(row))
            })
            .await
    }

    async fn inbox(&self, filter: InboxFilter) -> Result<Vec<InboxEvent>, StoreError> {
        let InboxFilter { project, state, outcome, before, limit } = filter;
        let (state, outcome) = (state.map(InboxState::name), outcome.map(|outcome| name_of(&outcome)).transpose()?);
        let before = before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| match &project {
                Some(project) => {
                    let text = "SELECT * FROM inbox
                                WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR outcome = ?2) AND number < ?3
                                    AND project = ?5
                                ORDER BY number DESC LIMIT ?4";
                    let mut query = db.prepare_cached(text)?;
                    let mut found = query.query(params![state, outcome, before, limit, project.as_str()])?;
                    collect(&mut found, |row| rows::inbox_event(row))
                }
                None => {
                    let text = "SELECT * FROM inbox
                                WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR outcome = ?2) AND number < ?3
                                ORDER BY number DESC LIMIT ?4";
                    let mut query = db.prepare_cached(text)?;
                    let mut found = query.query(params![state, outcome, before, limit])?;
                    collect(&mut found, |row| rows::inbox_event(row))
                }
            })
            .await
    }

    async fn unclaimed_events(&self, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM inbox
                            WHERE outcome = 'no_project' AND number > (SELECT coalesce(max(number), 0) FROM inbox) - ?1
                            ORDER BY number DESC LIMIT ?2";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([RECENT_EVENTS.cast_signed(), limit])?, |row| rows::inbox_event(row))
            })
            .await
    }

    async fn last_event_of(&self, host: CodeHostId) -> Result<Option<Timestamp>, StoreError> {
        self.readers
            .read(move |db| {
                let text = "SELECT received_at FROM inbox
                            WHERE code_host = ?1 AND event <> ?3
                              AND number > (SELECT coalesce(max(number), 0) FROM inbox) - ?2
                            ORDER BY number DESC LIMIT 1";
                let mut query = db.prepare_cached(text)?;
                let found =
                    query.query_row(params![host.as_str(), RECENT_EVENTS.cast_signed(), POLLED], |row| row.get(0));
                Ok(found.optional()?.map(Timestamp::from_micros))
            })
            .await
    }

    async fn next_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.find(|db| {
            let text = "SELECT min(due_at) FROM inbox WHERE due_at IS NOT NULL";
            let next: Option<i64> = db.prepare_cached(text)?.query_row([], |row| row.get(0))?;
            Ok(next.map(Timestamp::from_micros))
        })
    }

    async fn inbox_backlog(&self) -> Result<Backlog, StoreError> {
        self.readers
            .read(|db| {
                let text = "SELECT count(*) AS tasks, count(*) FILTER (WHERE attempts > 1) AS retried,
                                min(received_at) AS oldest
                            FROM inbox WHERE due_at IS NOT NULL";
                let mut query = db.prepare_cached(text)?;
                let mut found = query.query([])?;
                Ok(found.next()?.map(rows::backlog).transpose()?.unwrap_or_default())
            })
            .await
    }

    async fn job_of_issue(&self, repository: PullRepository, number: u64) -> Result<Option<JobId>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.readers.find(|db| {
            let text = "SELECT job AS id FROM job_issues WHERE host = ?1 AND repository = ?2 AND number = ?3";
            let mut query = db.prepare_cached(text)?;
            let mut found = query.query(params![repository.host.0, repository.id, number])?;
            found.next()?.map(rows::job_id).transpose()
        })
    }
}

fn postpone(db: &Connection, job: JobId, until: Option<i64>) -> Result<(), ReadError> {
    db.prepare_cached("UPDATE inbox SET due_at = ?2 WHERE job = ?1 AND state = 'waiting'")?
        .execute(params![job.to_string(), until])?;
    Ok(())
}

/// Stores an event, which is due at once. Returns false if the delivery is known.
pub(super) fn insert_event(db: &Connection, event: &NewEvent) -> Result<bool, ReadError> {
    let (body, content) = match &event.content {
        Content::Raw(body) => (Some(body.as_slice()), None),
        Content::Read(event) => (None, Some(to_json(event)?)),
    };
    let inserted = db
        .prepare_cached(
            "INSERT INTO inbox (host, code_host, project, delivery, event, received_at, state, body, content, due_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'received', ?7, ?8, ?6)
             ON CONFLICT (host, delivery) DO NOTHING",
        )?
        .execute(params![
            event.host.0,
            event.code_host.as_ref().map(|id| id.as_str()),
            event.project.as_ref().map(ProjectId::as_str),
            event.delivery,
            event.event,
            event.at.as_micros(),
            body,
            content,
        ])?;
    Ok(inserted > 0)
}

/// Marks events as carried out.
pub(super) fn events_done(
    db: &Connection,
    numbers: &[u64],
    outcome: Outcome,
    job: JobId,
    message: MessageId,
) -> Result<(), ReadError> {
    let text = "UPDATE inbox SET state = 'done', outcome = ?2, job = ?3, message = ?4, due_at = NULL, body = NULL
                WHERE number = ?1";
    let mut done = db.prepare_cached(text)?;
    for number in numbers {
        let number = i64::try_from(*number).unwrap_or(i64::MAX);
        done.execute(params![number, name_of(&outcome)?, job.to_string(), message.to_string()])?;
    }
    Ok(())
}

/// Stores the job of an issue, unless the issue has one.
pub(super) fn put_issue_job(
    db: &Connection,
    repository: &PullRepository,
    number: u64,
    job: JobId,
    project: &ProjectId,
) -> Result<(), ReadError> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    db.prepare_cached(
        "INSERT INTO job_issues (host, repository, number, job, project) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![repository.host.0, repository.id, number, job.to_string(), project.as_str()])?;
    Ok(())
}
