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
use tokio_postgres::Row;

use super::PostgresStore;
use super::accept::lock_number;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, name_of, to_json};

/// Stores a decision in one statement: whether the event is still claimed, and whether it is a duplicate, is part of it.
const DECIDE: &str = "
    WITH this AS (
        SELECT number, host, coalesce($3, project) AS own FROM inbox WHERE number = $1 AND attempts = $2 AND state = 'received' FOR UPDATE
    ), other AS (
        SELECT 1 FROM inbox
        JOIN this ON inbox.host = this.host AND inbox.project = this.own AND inbox.number <> this.number
        WHERE inbox.subject = $5::text LIMIT 1
    ), decided AS (
        UPDATE inbox
        SET project = coalesce($3, project), job = $4, content = coalesce($10, content),
            subject = CASE WHEN EXISTS (SELECT 1 FROM other) THEN NULL ELSE $5::text END,
            state = CASE WHEN EXISTS (SELECT 1 FROM other) THEN 'ignored' ELSE $6 END,
            outcome = CASE WHEN EXISTS (SELECT 1 FROM other) THEN 'duplicate' ELSE $7 END,
            detail = CASE WHEN EXISTS (SELECT 1 FROM other) THEN NULL ELSE $8 END,
            due_at = CASE WHEN EXISTS (SELECT 1 FROM other) THEN NULL ELSE $9::bigint END,
            body = CASE WHEN $6 = 'received' AND NOT EXISTS (SELECT 1 FROM other) THEN body ELSE NULL END
        FROM this WHERE inbox.number = this.number
        RETURNING inbox.outcome
    )
    SELECT coalesce(outcome, '') AS outcome FROM decided";

/// The events whose subject begins with a key and a slash: the slash is followed by 0 in ASCII. The operators compare bytes,
/// as the index does, whatever the collation of the database.
pub(super) const ABOUT: &str = "
    SELECT * FROM inbox WHERE host = $1 AND subject ~>=~ ($2 || '/') AND subject ~<~ ($2 || '0') ORDER BY number";

#[async_trait]
impl InboxStore for PostgresStore {
    async fn receive(&self, event: NewEvent) -> Result<bool, StoreError> {
        let answers = self.write(vec![insert_event(&event)?]).await?;
        Ok(answers.iter().any(|rows| !rows.is_empty()))
    }

    async fn claim_events(&self, now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        let text = "UPDATE inbox SET due_at = $3, attempts = attempts + 1 WHERE number IN (
                        SELECT number FROM inbox
                        WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) AND state = 'received'
                        ORDER BY number LIMIT $4 FOR UPDATE SKIP LOCKED)
                    RETURNING *";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let answers = self.write(vec![call!(text, from, never, until, limit)]).await?;
        let mut claimed = events(answers.iter().flatten())?;
        claimed.sort_unstable_by_key(|event| event.number);
        Ok(claimed)
    }

    async fn decide_event(&self, number: u64, attempt: u32, decision: Decision) -> Result<Decided, StoreError> {
        let Decision { project, job, event, subject, next } = decision;
        let (state, outcome, detail, due_at) = match next {
            Next::Ends { state, outcome, detail } => (state, Some(outcome), detail, None),
            Next::Waits(until) => (InboxState::Waiting, None, None, Some(until.as_micros())),
            Next::Retries(at) => (InboxState::Received, None, None, Some(at.as_micros())),
        };
        // Two processes may decide about the same comment: the second must see the decision of the first.
        let lock = subject.as_ref().map(|subject| lock_number("inbox", "", subject));
        let mut calls = vec![
            call!("SELECT pg_advisory_xact_lock($1)", lock),
            call!(
                DECIDE,
                i64::try_from(number).unwrap_or(i64::MAX),
                i64::from(attempt),
                project.map(String::from),
                job.map(|job| job.to_string()),
                subject,
                state.name(),
                outcome.map(|outcome| name_of(&outcome)).transpose()?,
                detail,
                due_at,
                event.as_ref().map(to_json).transpose()?,
            ),
        ];
        if let (InboxState::Waiting, Some(job), Some(until)) = (state, job, due_at) {
            calls.push(postpone(job, until));
        }
        let answers = self.write(calls).await?;
        let decided = answers.iter().skip(1).flatten().next();
        let outcome = decided.map(|row| row.try_get::<_, String>("outcome")).transpose().map_err(PgError::from)?;
        Ok(match outcome.as_deref() {
            None => Decided::Lost,
            Some("duplicate") => Decided::Duplicate,
            Some(_) => Decided::Stored,
        })
    }

    async fn jobs_with_due_events(&self, now: Timestamp, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let [from, never] = [now, now + LONGEST_DELAY].map(Timestamp::as_micros);
        let text = "SELECT job AS id, min(due_at) AS at FROM inbox
                    WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) AND state = 'waiting'
                    GROUP BY job ORDER BY at LIMIT $3";
        let found = self.read(call!(text, from, never, i64::try_from(limit).unwrap_or(i64::MAX))).await?;
        Ok(found.iter().map(rows::job_id).collect::<Result<_, PgError>>()?)
    }

    async fn waiting_events(&self, job: JobId) -> Result<Vec<InboxEvent>, StoreError> {
        let text = "SELECT * FROM inbox WHERE job = $1 AND state = 'waiting' ORDER BY number";
        events(&self.read(call!(text, job.to_string())).await?)
    }

    async fn postpone_events(&self, job: JobId, until: Timestamp) -> Result<(), StoreError> {
        self.write(vec![postpone(job, until.as_micros())]).await?;
        Ok(())
    }

    async fn end_events(
        &self,
        numbers: Vec<u64>,
        state: InboxState,
        outcome: Outcome,
        detail: Option<String>,
    ) -> Result<(), StoreError> {
        let numbers: Vec<i64> = numbers.into_iter().map(|number| i64::try_from(number).unwrap_or(i64::MAX)).collect();
        let text = "UPDATE inbox SET state = $2, outcome = $3, detail = $4, due_at = NULL, body = NULL
                    WHERE number = ANY($1::bigint[]) AND state IN ('received', 'waiting')";
        self.write(vec![call!(text, numbers, state.name(), name_of(&outcome)?, detail)]).await?;
        Ok(())
    }

    async fn events_about(&self, host: HostName, key: String) -> Result<Vec<InboxEvent>, StoreError> {
        events(&self.read(call!(ABOUT, host.0, key)).await?)
    }

    async fn inbox_of_message(&self, message: MessageId) -> Result<Vec<InboxEvent>, StoreError> {
        let text = "SELECT * FROM inbox WHERE message = $1 ORDER BY number";
        events(&self.read(call!(text, message.to_string())).await?)
    }

    async fn inbox(&self, filter: InboxFilter) -> Result<Vec<InboxEvent>, StoreError> {
        let InboxFilter { project, state, outcome, before, limit } = filter;
        let state = state.map(|state| state.name().to_owned());
        let outcome = outcome.map(|outcome| name_of(&outcome)).transpose()?;
        let before = before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = match project {
            Some(project) => {
                let text = "SELECT * FROM inbox
                            WHERE ($1::TEXT IS NULL OR state = $1) AND ($2::TEXT IS NULL OR outcome = $2)
                                AND number < $3 AND project = $5
                            ORDER BY number DESC LIMIT $4";
                self.read(call!(text, state, outcome, before, limit, project.to_string())).await?
            }
            None => {
                let text = "SELECT * FROM inbox
                            WHERE ($1::TEXT IS NULL OR state = $1) AND ($2::TEXT IS NULL OR outcome = $2)
                                AND number < $3
                            ORDER BY number DESC LIMIT $4";
                self.read(call!(text, state, outcome, before, limit)).await?
            }
        };
        events(&found)
    }

    async fn unclaimed_events(&self, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let text = "SELECT * FROM inbox
                    WHERE outcome = 'no_project' AND number > (SELECT coalesce(max(number), 0) FROM inbox) - $1
                    ORDER BY number DESC LIMIT $2";
        events(&self.read(call!(text, RECENT_EVENTS.cast_signed(), limit)).await?)
    }

    async fn last_event_of(&self, host: CodeHostId) -> Result<Option<Timestamp>, StoreError> {
        let text = "SELECT received_at FROM inbox
                    WHERE code_host = $1 AND event <> $3
                      AND number > (SELECT coalesce(max(number), 0) FROM inbox) - $2
                    ORDER BY number DESC LIMIT 1";
        let found = self.read(call!(text, host.to_string(), RECENT_EVENTS.cast_signed(), POLLED)).await?;
        let at = found.first().map(|row| row.try_get::<_, i64>("received_at")).transpose().map_err(PgError::from)?;
        Ok(at.map(Timestamp::from_micros))
    }

    async fn next_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let found = self.read(call!("SELECT min(due_at) AS at FROM inbox WHERE due_at IS NOT NULL")).await?;
        let next = found.first().map(|row| row.try_get::<_, Option<i64>>("at")).transpose().map_err(PgError::from)?;
        Ok(next.flatten().map(Timestamp::from_micros))
    }

    async fn inbox_backlog(&self) -> Result<Backlog, StoreError> {
        let text = "SELECT count(*) AS tasks, count(*) FILTER (WHERE attempts > 1) AS retried,
                        min(received_at) AS oldest
                    FROM inbox WHERE due_at IS NOT NULL";
        let found = self.read(call!(text)).await?;
        Ok(found.first().map(rows::backlog).transpose()?.unwrap_or_default())
    }

    async fn job_of_issue(&self, repository: PullRepository, number: u64) -> Result<Option<JobId>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let text = "SELECT job AS id FROM job_issues WHERE host = $1 AND repository = $2 AND number = $3";
        let found = self.read(call!(text, repository.host.0, repository.id, number)).await?;
        Ok(found.first().map(rows::job_id).transpose()?)
    }
}

fn events<'a>(found: impl IntoIterator<Item = &'a Row>) -> Result<Vec<InboxEvent>, StoreError> {
    Ok(found.into_iter().map(rows::inbox_event).collect::<Result<_, PgError>>()?)
}

fn postpone(job: JobId, until: i64) -> Call {
    call!("UPDATE inbox SET due_at = $2 WHERE job = $1 AND state = 'waiting'", job.to_string(), until)
}

/// Returns the statement that stores an event, which is due at once. It returns a row unless the delivery is known.
pub(super) fn insert_event(event: &NewEvent) -> Result<Call, StoreError> {
    let (body, content) = match &event.content {
        Content::Raw(body) => (Some(body.clone()), None),
        Content::Read(event) => (None, Some(to_json(event)?)),
    };
    Ok(call!(
        "INSERT INTO inbox (host, code_host, project, delivery, event, received_at, state, body, content, due_at)
         VALUES ($1, $2, $3, $4, $5, $6, 'received', $7, $8, $6)
         ON CONFLICT (host, delivery) DO NOTHING RETURNING 1",
        event.host.0.clone(),
        event.code_host.as_ref().map(ToString::to_string),
        event.project.as_ref().map(ToString::to_string),
        event.delivery.clone(),
        event.event.clone(),
        event.at.as_micros(),
        body,
        content,
    ))
}

/// Returns the statement that marks events as carried out.
pub(super) fn events_done(
    numbers: &[u64],
    outcome: Outcome,
    job: JobId,
    message: MessageId,
) -> Result<Call, StoreError> {
    let numbers: Vec<i64> = numbers.iter().map(|number| i64::try_from(*number).unwrap_or(i64::MAX)).collect();
    Ok(call!(
        "UPDATE inbox SET state = 'done', outcome = $2, job = $3, message = $4, due_at = NULL, body = NULL
         WHERE number = ANY($1::bigint[])",
        numbers,
        name_of(&outcome)?,
        job.to_string(),
        message.to_string(),
    ))
}

/// Returns the statement that stores the job of an issue, unless the issue has one.
pub(super) fn put_issue_job(repository: &PullRepository, number: u64, job: JobId, project: &ProjectId) -> Call {
    call!(
        "INSERT INTO job_issues (host, repository, number, job, project) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
        repository.host.0.clone(),
        repository.id.clone(),
        i64::try_from(number).unwrap_or(i64::MAX),
        job.to_string(),
        project.to_string(),
    )
}
