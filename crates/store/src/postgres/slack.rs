//! Slack workspaces, events, threads and posts.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, UserId};
use journeyman_core::inbox::InboxState;
use journeyman_core::outbox::LONGEST_DELAY;
use journeyman_core::ports::{SlackEventFilter, SlackStore, StoreError};
use journeyman_core::slack::{
    NewSlackEvent, NewSlackPost, SlackDecision, SlackInboxEvent, SlackNext, SlackPlace, SlackPost, SlackPostState,
    SlackPosted, SlackSecrets, SlackThread, SlackWorkspace,
};
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, name_of, to_json};
use crate::vault::{self, Sealed};

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn limited(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Returns the statements that store a workspace, and change its secrets.
pub(super) fn put(workspace: &SlackWorkspace, secrets: Sealed) -> Result<Vec<Call>, StoreError> {
    let mut calls = vec![call!(
        "INSERT INTO slack_workspaces (id, team, settings, created_at, version) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET team = $2, settings = $3, version = $5",
        workspace.id.to_string(),
        workspace.settings.team.clone(),
        to_json(&workspace.settings)?,
        workspace.created_at.as_micros(),
        number(workspace.version),
    )];
    for (name, value) in secrets {
        let id = workspace.id.to_string();
        calls.push(match value {
            Some(value) => call!(
                "INSERT INTO slack_secrets (workspace, name, value) VALUES ($1, $2, $3)
                 ON CONFLICT (workspace, name) DO UPDATE SET value = excluded.value",
                id,
                name,
                value
            ),
            None => call!("DELETE FROM slack_secrets WHERE workspace = $1 AND name = $2", id, name),
        });
    }
    Ok(calls)
}

/// Returns the statements that delete a workspace with its secrets, events, threads and posts.
pub(super) fn remove(id: SlackWorkspaceId) -> Vec<Call> {
    let call = |text| call!(text, id.to_string());
    vec![
        // A workspace may have many rows, so their deletion may take long.
        call!("SET LOCAL statement_timeout = '10min'"),
        call("DELETE FROM slack_workspaces WHERE id = $1"),
        call("DELETE FROM slack_events WHERE workspace = $1"),
        call("DELETE FROM slack_threads WHERE workspace = $1"),
        call("DELETE FROM slack_posts WHERE workspace = $1"),
    ]
}

/// Returns the statements that delete the threads, events and posts of the jobs of a project, whose rows still exist.
pub(super) fn remove_jobs_of(project: &ProjectId) -> Vec<Call> {
    let call = |text| call!(text, project.to_string());
    vec![
        // The posts are found by the threads and events.
        call(
            "DELETE FROM slack_posts
             WHERE (workspace, channel, thread) IN (
                 SELECT workspace, channel, thread FROM slack_threads
                 WHERE job IN (SELECT id FROM jobs WHERE project = $1)
                 UNION SELECT workspace, channel, thread FROM slack_events
                 WHERE job IN (SELECT id FROM jobs WHERE project = $1)
             ) AND coalesce(content::json #>> '{status,project}', $1) = $1",
        ),
        call("DELETE FROM slack_events WHERE job IN (SELECT id FROM jobs WHERE project = $1)"),
        call("DELETE FROM slack_threads WHERE job IN (SELECT id FROM jobs WHERE project = $1)"),
    ]
}

const ANY_EVENT: &str = "SELECT 1 FROM slack_events WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) LIMIT 1";

/// Claims events. Of each thread, only the first event that is not final may be claimed.
const CLAIM_EVENTS: &str = "UPDATE slack_events SET due_at = $3, attempts = attempts + 1 WHERE number IN (
        SELECT number FROM slack_events AS one
        WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) AND NOT EXISTS (
            SELECT 1 FROM slack_events AS earlier
            WHERE earlier.workspace = one.workspace AND earlier.channel = one.channel
              AND earlier.thread = one.thread AND earlier.due_at IS NOT NULL
              AND (earlier.ts, earlier.number) < (one.ts, one.number)
        )
        ORDER BY number LIMIT $4 FOR UPDATE SKIP LOCKED)
    RETURNING *";

const ANY_POST: &str = "SELECT 1 FROM slack_posts WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) LIMIT 1";

/// Claims the post of each channel that has been due the longest, unless the channel is busy. Of two processes that pick
/// the same post, the second finds another number of claims when it gets the lock of the row.
const CLAIM_POSTS: &str = "WITH picked AS (
        SELECT DISTINCT ON (workspace, channel) number, claims FROM slack_posts AS one
        WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) AND NOT EXISTS (
            SELECT 1 FROM slack_posts AS other
            WHERE other.workspace = one.workspace AND other.channel = one.channel
              AND other.busy_until > $1 AND other.busy_until <= $2
        )
        ORDER BY workspace, channel, due_at, number
    ), few AS (
        SELECT number, claims FROM picked ORDER BY number LIMIT $4
    )
    UPDATE slack_posts SET due_at = $3, busy_until = $3, claims = slack_posts.claims + 1
    FROM few WHERE slack_posts.number = few.number AND slack_posts.claims = few.claims
    RETURNING slack_posts.*";

const EVENTS_OF_THREAD: &str = "SELECT * FROM slack_events
    WHERE workspace = $1 AND channel = $2 AND thread = $3 AND number < $4 ORDER BY number DESC LIMIT $5";

const THREAD: &str = "SELECT * FROM slack_threads WHERE workspace = $1 AND channel = $2 AND thread = $3";

/// Takes the lock of a claimed event. The statements after it have an effect only if it is still claimed.
const LOCK_EVENT: &str =
    "SELECT 1 FROM slack_events WHERE number = $1 AND attempts = $2 AND state = 'received' FOR UPDATE";

const INSERT_THREAD: &str = "INSERT INTO slack_threads (workspace, channel, thread, project, job)
    SELECT $3::text, $4::text, $5::text, $6::text, $7::text
    WHERE EXISTS (SELECT 1 FROM slack_events WHERE number = $1 AND attempts = $2 AND state = 'received')
    ON CONFLICT DO NOTHING";

const INSERT_POST: &str = "INSERT INTO slack_posts
        (workspace, channel, thread, purpose, content, state, created_at, due_at)
    SELECT $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::bigint, $9::bigint
    WHERE EXISTS (SELECT 1 FROM slack_events WHERE number = $1 AND attempts = $2 AND state = 'received')
    ON CONFLICT DO NOTHING";

const DECIDE: &str = "UPDATE slack_events
    SET state = $3, outcome = $4, detail = $5, due_at = $6, job = $7, message = $8
    WHERE number = $1 AND attempts = $2 AND state = 'received' RETURNING 1";

fn decide(event: u64, attempt: u32, decision: SlackDecision) -> Result<Vec<Call>, StoreError> {
    let (event, attempt) = (number(event), i64::from(attempt));
    let SlackDecision { next, job, thread, posts, at } = decision;
    let (state, outcome, detail, due_at) = match next {
        SlackNext::Ends(state, outcome, detail) => (state, Some(outcome), detail, None),
        SlackNext::Retries(at) => (InboxState::Received, None, None, Some(at.as_micros())),
    };
    let mut calls = vec![call!(LOCK_EVENT, event, attempt)];
    if let Some(SlackThread { place, project, job }) = thread {
        let (workspace, project, job) = (place.workspace.to_string(), project.to_string(), job.to_string());
        calls.push(call!(INSERT_THREAD, event, attempt, workspace, place.channel, place.thread, project, job));
    }
    for NewSlackPost { place, purpose, content } in posts {
        calls.push(call!(
            INSERT_POST,
            event,
            attempt,
            place.workspace.to_string(),
            place.channel,
            place.thread,
            purpose,
            to_json(&content)?,
            SlackPostState::Open.name(),
            at.as_micros()
        ));
    }
    let (job, message) = job.unzip();
    calls.push(call!(
        DECIDE,
        event,
        attempt,
        state.name(),
        outcome.map(|outcome| name_of(&outcome)).transpose()?,
        detail,
        due_at,
        job.map(|job| job.to_string()),
        message.flatten().map(|message| message.to_string())
    ));
    Ok(calls)
}

fn events<'a>(found: impl IntoIterator<Item = &'a Row>) -> Result<Vec<SlackInboxEvent>, StoreError> {
    Ok(found.into_iter().map(rows::slack_event).collect::<Result<_, PgError>>()?)
}

fn posts<'a>(found: impl IntoIterator<Item = &'a Row>) -> Result<Vec<SlackPost>, StoreError> {
    Ok(found.into_iter().map(rows::slack_post).collect::<Result<_, PgError>>()?)
}

#[async_trait]
impl SlackStore for PostgresStore {
    async fn slack_workspaces(&self) -> Result<Vec<SlackWorkspace>, StoreError> {
        let found = self.read(call!("SELECT * FROM slack_workspaces ORDER BY created_at, id")).await?;
        Ok(found.iter().map(rows::slack_workspace).collect::<Result<_, PgError>>()?)
    }

    async fn slack_workspace(&self, id: SlackWorkspaceId) -> Result<Option<SlackWorkspace>, StoreError> {
        let found = self.read(call!("SELECT * FROM slack_workspaces WHERE id = $1", id.to_string())).await?;
        Ok(found.first().map(rows::slack_workspace).transpose()?)
    }

    async fn slack_secrets(&self, id: SlackWorkspaceId) -> Result<SlackSecrets, StoreError> {
        let text = "SELECT name, value FROM slack_secrets WHERE workspace = $1";
        let found = self.read(call!(text, id.to_string())).await?;
        let sealed = found.iter().map(|row| Ok((row.try_get("name")?, row.try_get("value")?)));
        let sealed: Result<Vec<(String, Vec<u8>)>, tokio_postgres::Error> = sealed.collect();
        vault::open_slack(&self.master_keys, id, sealed.map_err(PgError::from)?)
    }

    async fn slack_code(&self, hash: TokenHash, now: Timestamp) -> Result<Option<UserId>, StoreError> {
        let text = "SELECT owner FROM slack_codes WHERE hash = $1 AND expires_at > $2";
        let found = self.read(call!(text, hash.0.to_vec(), now.as_micros())).await?;
        Ok(found.first().map(rows::slack_code).transpose()?)
    }

    async fn receive_slack(&self, new: NewSlackEvent) -> Result<bool, StoreError> {
        let NewSlackEvent { workspace, event, at } = new;
        let insert = call!(
            "INSERT INTO slack_events (workspace, event_id, channel, thread, ts, content, received_at, state, due_at)
             SELECT id, $2::text, $3::text, $4::text, $5::text, $6::text, $7::bigint, 'received', $7::bigint
             FROM slack_workspaces WHERE id = $1
             ON CONFLICT DO NOTHING RETURNING 1",
            workspace.to_string(),
            event.event_id,
            event.channel,
            event.thread,
            event.ts,
            to_json(&event.content)?,
            at.as_micros(),
        );
        let answers = self.write(vec![insert]).await?;
        Ok(answers.iter().any(|rows| !rows.is_empty()))
    }

    async fn claim_slack_events(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        // Most of the time no event is due.
        if self.read(call!(ANY_EVENT, from, never)).await?.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.write(vec![call!(CLAIM_EVENTS, from, never, until, limited(limit))]).await?;
        let mut claimed = events(answers.iter().flatten())?;
        claimed.sort_unstable_by_key(|event| event.number);
        Ok(claimed)
    }

    async fn decide_slack_event(&self, number: u64, attempt: u32, decision: SlackDecision) -> Result<bool, StoreError> {
        let answers = self.write(decide(number, attempt, decision)?).await?;
        Ok(answers.last().is_some_and(|rows| !rows.is_empty()))
    }

    async fn slack_events(&self, filter: SlackEventFilter) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let SlackEventFilter { workspace, place, before, limit } = filter;
        let (workspace, before) = (workspace.to_string(), before.map_or(i64::MAX, number));
        let query = match place {
            Some(place) => call!(EVENTS_OF_THREAD, workspace, place.channel, place.thread, before, limited(limit)),
            None => call!(
                "SELECT * FROM slack_events WHERE workspace = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
                workspace,
                before,
                limited(limit)
            ),
        };
        events(&self.read(query).await?)
    }

    async fn slack_thread(&self, place: SlackPlace) -> Result<Option<SlackThread>, StoreError> {
        let found = self.read(call!(THREAD, place.workspace.to_string(), place.channel, place.thread)).await?;
        Ok(found.first().map(rows::slack_thread).transpose()?)
    }

    async fn claim_slack_posts(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        if self.read(call!(ANY_POST, from, never)).await?.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.write(vec![call!(CLAIM_POSTS, from, never, until, limited(limit))]).await?;
        let mut claimed = posts(answers.iter().flatten())?;
        claimed.sort_unstable_by_key(|post| post.number);
        Ok(claimed)
    }

    async fn finish_slack_post(&self, posted: SlackPosted) -> Result<bool, StoreError> {
        let update = call!(
            "UPDATE slack_posts
             SET ts = coalesce($3::text, ts), shown = coalesce($4::text, shown), state = $5, detail = $6, failures = $7,
                 due_at = $8, busy_until = $9
             WHERE number = $1 AND claims = $2 AND state = 'open' RETURNING 1",
            number(posted.number),
            number(posted.claim),
            posted.ts,
            posted.shown,
            posted.state.name(),
            posted.detail,
            i64::from(posted.failures),
            posted.due_at.map(Timestamp::as_micros),
            posted.free_at.as_micros(),
        );
        let answers = self.write(vec![update]).await?;
        Ok(answers.iter().any(|rows| !rows.is_empty()))
    }

    async fn slack_posts(
        &self,
        workspace: SlackWorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        let text = "SELECT * FROM slack_posts WHERE workspace = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
        let before = before.map_or(i64::MAX, number);
        posts(&self.read(call!(text, workspace.to_string(), before, limited(limit))).await?)
    }

    async fn sweep_slack(&self, before: Timestamp, codes_before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let calls = vec![
            call!(
                "DELETE FROM slack_events WHERE number IN
                 (SELECT number FROM slack_events WHERE received_at <= $1 AND due_at IS NULL LIMIT $2
                  FOR UPDATE SKIP LOCKED)
                 RETURNING 1",
                before.as_micros(),
                limited(limit)
            ),
            call!(
                "DELETE FROM slack_posts WHERE number IN
                 (SELECT number FROM slack_posts WHERE created_at <= $1 AND due_at IS NULL LIMIT $2
                  FOR UPDATE SKIP LOCKED)
                 RETURNING 1",
                before.as_micros(),
                limited(limit)
            ),
            call!("DELETE FROM slack_codes WHERE expires_at <= $1 RETURNING 1", codes_before.as_micros()),
        ];
        Ok(self.write(calls).await?.iter().map(Vec::len).sum())
    }
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::Postgres;

    use super::super::connect::SET_UP;
    use super::*;

    /// Inserts enough rows that the query planner prefers a suitable index.
    const FILL: &str = "
        SET search_path TO journeyman;
        INSERT INTO slack_events (workspace, event_id, channel, thread, ts, content, received_at, state, due_at)
            SELECT 'w' || i % 3, 'Ev' || i, 'C' || i % 20, 't' || i / 5, i::text, '{}', i, 'done',
                   CASE i % 500 WHEN 0 THEN i END
            FROM generate_series(1, 30000) AS i;
        INSERT INTO slack_posts (workspace, channel, thread, purpose, content, state, created_at, due_at, busy_until)
            SELECT 'w' || i % 3, 'C' || i % 20, 't' || i / 5, 'p' || i, '{}', 'done', i,
                   CASE i % 500 WHEN 0 THEN i END, i
            FROM generate_series(1, 30000) AS i;
        INSERT INTO slack_threads (workspace, channel, thread, project, job)
            SELECT 'w' || i % 3, 'C' || i % 20, 't' || i, 'p', 'j' FROM generate_series(1, 30000) AS i;
        ANALYZE slack_events; ANALYZE slack_posts; ANALYZE slack_threads";

    #[tokio::test]
    async fn hot_queries_use_indexes_and_never_scan_a_table() {
        let server = Postgres::shared();
        let url = server.database();
        let database = url.rsplit('/').next().unwrap();
        PostgresStore::migrate(&url).await.unwrap();
        server.sql(database, FILL);
        let (due, claim) = ("20000, 9000000000000000", "20000, 9000000000000000, 30000, 16");
        for (query, values, indexes) in [
            (ANY_EVENT, due, &["slack_events_due"][..]),
            (CLAIM_EVENTS, claim, &["slack_events_due"]),
            (ANY_POST, due, &["slack_posts_due"]),
            (CLAIM_POSTS, claim, &["slack_posts_due", "slack_posts_busy"]),
            (EVENTS_OF_THREAD, "'w1', 'C1', 't7', 100000, 100", &["slack_events_of_thread"]),
            (THREAD, "'w1', 'C1', 't7'", &["slack_threads_pkey"]),
        ] {
            let plan = server.sql(database, &format!("{SET_UP}; PREPARE q AS {query}; EXPLAIN EXECUTE q ({values})"));
            assert!(!plan.contains("Seq Scan on"), "{query}: {plan}");
            for index in indexes {
                assert!(plan.contains(&format!("using {index} on")), "{query}: {plan}");
            }
        }
    }
}
