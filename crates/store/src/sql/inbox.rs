//! The inbox.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHostId, HostName, PullRepository};
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::inbox::{Content, Decision, InboxEvent, InboxState, NewEvent, Next, Outcome};
use journeyman_core::outbox::{Backlog, LONGEST_DELAY};
use journeyman_core::poll::POLLED;
use journeyman_core::ports::{Decided, InboxFilter, InboxStore, RECENT_EVENTS, StoreError};
use journeyman_core::time::Timestamp;

use super::{Database, Row, SqlStore, Statement, Text, decoded, lock, sql};
use crate::rows::{self, Columns as _, name_of, to_json};

/// Stores a decision in one statement: whether the event is still claimed, and whether it is a duplicate, is part of it.
const DECIDE: Text = Text {
    sqlite: "
        UPDATE inbox
        SET project = coalesce(?3, project), job = ?4, content = coalesce(?10, content),
            subject = CASE WHEN is_duplicate THEN NULL ELSE ?5 END,
            state = CASE WHEN is_duplicate THEN 'ignored' ELSE ?6 END,
            outcome = CASE WHEN is_duplicate THEN 'duplicate' ELSE ?7 END,
            detail = CASE WHEN is_duplicate THEN NULL ELSE ?8 END,
            due_at = CASE WHEN is_duplicate THEN NULL ELSE ?9 END,
            body = CASE WHEN ?6 = 'received' AND NOT is_duplicate THEN body ELSE NULL END
        FROM (
            SELECT own.number AS own_number, EXISTS (
                SELECT 1 FROM inbox AS other
                WHERE other.host = own.host AND other.project = coalesce(?3, own.project) AND other.subject = ?5
                      AND other.number <> own.number
            ) AS is_duplicate
            FROM inbox AS own WHERE own.number = ?1 AND own.attempts = ?2 AND own.state = 'received'
        )
        WHERE number = own_number
        RETURNING coalesce(outcome, '') AS outcome",
    postgres: "
        WITH this AS (
            SELECT number, host, coalesce($3, project) AS own FROM inbox
            WHERE number = $1 AND attempts = $2 AND state = 'received' FOR UPDATE
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
        SELECT coalesce(outcome, '') AS outcome FROM decided",
};

/// The condition for events in a state that are due.
macro_rules! due {
    ($state:literal) => {
        concat!("due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) AND state = '", $state, "'")
    };
}

/// Selects the newest events with a condition.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "SELECT * FROM inbox
             WHERE ($1::text IS NULL OR state = $1) AND ($2::text IS NULL OR outcome = $2) AND number < $3",
            $condition,
            " ORDER BY number DESC LIMIT $4"
        )
    };
}

#[async_trait]
impl<B: Database> InboxStore for SqlStore<B> {
    async fn receive(&self, event: NewEvent) -> Result<bool, StoreError> {
        self.changes(insert_event(&event)?).await
    }

    async fn claim_events(&self, now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let never = now + LONGEST_DELAY;
        let due = sql!(concat!("SELECT 1 FROM inbox WHERE ", due!("received"), " LIMIT 1"), now, never);
        let claim = sql!(
            concat!(
                "UPDATE inbox SET due_at = $3, attempts = attempts + 1
                 WHERE number IN (SELECT number FROM inbox WHERE ",
                due!("received"),
                " ORDER BY number LIMIT $4 FOR UPDATE SKIP LOCKED) RETURNING *"
            ),
            now,
            never,
            now + lease,
            limit,
        );
        let mut claimed = decoded(&self.claim(due, claim).await?, rows::inbox_event)?;
        claimed.sort_unstable_by_key(|event| event.number);
        Ok(claimed)
    }

    async fn decide_event(&self, number: u64, attempt: u32, decision: Decision) -> Result<Decided, StoreError> {
        let Decision { project, job, event, subject, next } = decision;
        let (state, outcome, detail, due_at) = match next {
            Next::Ends { state, outcome, detail } => (state, Some(outcome), detail, None),
            Next::Waits(until) => (InboxState::Waiting, None, None, Some(until)),
            Next::Retries(at) => (InboxState::Received, None, None, Some(at)),
        };
        // Two processes may decide about the same comment: the second must see the decision of the first.
        let mut statements = Vec::from_iter(subject.as_ref().map(|subject| lock("inbox", "", subject)));
        let index_of_decision = statements.len();
        statements.push(sql!(
            sqlite: DECIDE.sqlite,
            postgres: DECIDE.postgres;
            number,
            attempt,
            project.as_ref().map(ProjectId::as_str),
            job.map(|job| job.to_string()),
            subject,
            state.name(),
            outcome.map(|outcome| name_of(&outcome)).transpose()?,
            detail,
            due_at,
            event.as_ref().map(to_json).transpose()?,
        ));
        if let (InboxState::Waiting, Some(job), Some(until)) = (state, job, due_at) {
            statements.push(postpone_others(number, attempt, job, until));
        }
        let answers = self.run_all(statements).await?;
        let decided = answers.get(index_of_decision).and_then(|rows| rows.first());
        let outcome = decided.map(|row| row.text("outcome")).transpose()?.flatten();
        Ok(match outcome.as_deref() {
            None => Decided::Lost,
            Some("duplicate") => Decided::Duplicate,
            Some(_) => Decided::Stored,
        })
    }

    async fn jobs_with_due_events(&self, now: Timestamp, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let query = sql!(
            concat!(
                "SELECT job AS id, min(due_at) AS at FROM inbox WHERE ",
                due!("waiting"),
                " GROUP BY job ORDER BY at LIMIT $3"
            ),
            now,
            now + LONGEST_DELAY,
            limit,
        );
        self.all(query, rows::job_id).await
    }

    async fn waiting_events(&self, job: JobId) -> Result<Vec<InboxEvent>, StoreError> {
        let query = sql!("SELECT * FROM inbox WHERE job = $1 AND state = 'waiting' ORDER BY number", job.to_string());
        self.all(query, rows::inbox_event).await
    }

    async fn postpone_events(&self, job: JobId, until: Timestamp) -> Result<(), StoreError> {
        let postpone =
            sql!("UPDATE inbox SET due_at = $2 WHERE job = $1 AND state = 'waiting'", job.to_string(), until);
        self.run(vec![postpone]).await?;
        Ok(())
    }

    async fn end_events(
        &self,
        numbers: Vec<u64>,
        state: InboxState,
        outcome: Outcome,
        detail: Option<String>,
    ) -> Result<(), StoreError> {
        let end = sql!(
            "UPDATE inbox SET state = $2, outcome = $3, detail = $4, due_at = NULL, body = NULL
             WHERE number = ANY (($1)) AND state IN ('received', 'waiting')",
            numbers.as_slice(),
            state.name(),
            name_of(&outcome)?,
            detail,
        );
        self.run(vec![end]).await?;
        Ok(())
    }

    async fn events_about(&self, host: HostName, key: String) -> Result<Vec<InboxEvent>, StoreError> {
        self.all(about(host, key), rows::inbox_event).await
    }

    async fn inbox_of_message(&self, message: MessageId) -> Result<Vec<InboxEvent>, StoreError> {
        let query = sql!("SELECT * FROM inbox WHERE message = $1 ORDER BY number", message.to_string());
        self.all(query, rows::inbox_event).await
    }

    async fn inbox(&self, filter: InboxFilter) -> Result<Vec<InboxEvent>, StoreError> {
        let InboxFilter { project, state, outcome, before, limit } = filter;
        let mut list = sql!(
            listed!(""),
            state.map(InboxState::name),
            outcome.map(|outcome| name_of(&outcome)).transpose()?,
            before.unwrap_or(u64::MAX),
            limit,
        );
        if let Some(project) = project {
            list.text = sql!(listed!(" AND project = $5")).text;
            list.values.push(project.as_str().into());
        }
        self.all(list, rows::inbox_event).await
    }

    async fn unclaimed_events(&self, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let query = sql!(
            "SELECT * FROM inbox
             WHERE outcome = 'no_project' AND number > (SELECT coalesce(max(number), 0) FROM inbox) - $1
             ORDER BY number DESC LIMIT $2",
            RECENT_EVENTS,
            limit,
        );
        self.all(query, rows::inbox_event).await
    }

    async fn last_event_of(&self, host: CodeHostId) -> Result<Option<Timestamp>, StoreError> {
        let query = sql!(
            "SELECT received_at FROM inbox
             WHERE code_host = $1 AND event <> $3 AND number > (SELECT coalesce(max(number), 0) FROM inbox) - $2
             ORDER BY number DESC LIMIT 1",
            host.as_str(),
            RECENT_EVENTS,
            POLLED,
        );
        let at = self.all(query, |row| row.number("received_at")).await?.pop().flatten();
        Ok(at.map(Timestamp::from_micros))
    }

    async fn next_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let query = sql!("SELECT min(due_at) AS at FROM inbox WHERE due_at IS NOT NULL");
        Ok(self.find(query, |row: &Row| row.number("at")).await?.flatten().map(Timestamp::from_micros))
    }

    async fn inbox_backlog(&self) -> Result<Backlog, StoreError> {
        let count = sql!(
            "SELECT count(*) AS tasks, count(*) FILTER (WHERE attempts > 1) AS retried, min(received_at) AS oldest
             FROM inbox WHERE due_at IS NOT NULL"
        );
        Ok(self.all(count, rows::backlog).await?.pop().unwrap_or_default())
    }

    async fn job_of_issue(&self, repository: PullRepository, number: u64) -> Result<Option<JobId>, StoreError> {
        let query = sql!(
            "SELECT job AS id FROM job_issues WHERE host = $1 AND repository = $2 AND number = $3",
            repository.host.0,
            repository.id,
            number,
        );
        self.find(query, rows::job_id).await
    }
}

/// Returns the statement that postpones the events of a job that wait, if this attempt decided that its event waits too.
fn postpone_others(number: u64, attempt: u32, job: JobId, until: Timestamp) -> Statement {
    sql!(
        "UPDATE inbox SET due_at = $2 WHERE job = $1 AND state = 'waiting' AND EXISTS (
             SELECT 1 FROM inbox AS own WHERE own.number = $3 AND own.attempts = $4 AND own.state = 'waiting')",
        job.to_string(),
        until,
        number,
        attempt,
    )
}

/// Returns the query for the events whose subject begins with a key and a slash: the slash is followed by 0 in ASCII. The
/// operators compare bytes, as the index does, whatever the collation of the database.
pub(crate) fn about(host: HostName, key: String) -> Statement {
    sql!(
        sqlite:
            "SELECT * FROM inbox WHERE host = ?1 AND subject > ?2 || '/' AND subject < ?2 || '0' ORDER BY number",
        postgres:
            "SELECT * FROM inbox
             WHERE host = $1 AND subject ~>=~ ($2 || '/') AND subject ~<~ ($2 || '0') ORDER BY number";
        host.0,
        key,
    )
}

/// Returns the statement that stores an event, which is due at once. It returns a row unless the delivery is known.
pub(crate) fn insert_event(event: &NewEvent) -> Result<Statement, StoreError> {
    let (body, content) = match &event.content {
        Content::Raw(body) => (Some(body.clone()), None),
        Content::Read(event) => (None, Some(to_json(event)?)),
    };
    Ok(sql!(
        "INSERT INTO inbox (host, code_host, project, delivery, event, received_at, state, body, content, due_at)
         VALUES ($1, $2, $3, $4, $5, $6, 'received', $7, $8, $6)
         ON CONFLICT (host, delivery) DO NOTHING RETURNING 1",
        &event.host.0,
        event.code_host.as_ref().map(CodeHostId::as_str),
        event.project.as_ref().map(ProjectId::as_str),
        &event.delivery,
        &event.event,
        event.at,
        body,
        content,
    ))
}

/// Returns the statement that marks events as carried out.
pub(crate) fn events_done(
    numbers: &[u64],
    outcome: Outcome,
    job: JobId,
    message: MessageId,
) -> Result<Statement, StoreError> {
    Ok(sql!(
        "UPDATE inbox SET state = 'done', outcome = $2, job = $3, message = $4, due_at = NULL, body = NULL
         WHERE number = ANY (($1))",
        numbers,
        name_of(&outcome)?,
        job.to_string(),
        message.to_string(),
    ))
}

/// Returns the statement that stores the job of an issue, unless the issue has one.
pub(crate) fn put_issue_job(repository: &PullRepository, number: u64, job: JobId, project: &ProjectId) -> Statement {
    sql!(
        "INSERT INTO job_issues (host, repository, number, job, project) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
        &repository.host.0,
        &repository.id,
        number,
        job.to_string(),
        project.as_str(),
    )
}
