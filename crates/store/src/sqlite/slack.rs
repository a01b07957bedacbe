//! Slack workspaces, events, threads and posts.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::{SlackWorkspaceId, UserId};
use journeyman_core::inbox::InboxState;
use journeyman_core::outbox::LONGEST_DELAY;
use journeyman_core::ports::{SlackEventFilter, SlackStore, StoreError};
use journeyman_core::slack::{
    NewSlackEvent, NewSlackPost, SlackDecision, SlackInboxEvent, SlackNext, SlackPlace, SlackPost, SlackPostState,
    SlackPosted, SlackSecrets, SlackThread, SlackWorkspace,
};
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use crate::rows::{self, name_of, to_json};
use crate::vault::{self, Sealed};

type Op<T> = Result<T, OpError<StoreError>>;

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn limited(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Stores a workspace, and changes its secrets.
pub(super) fn put(db: &Connection, workspace: &SlackWorkspace, secrets: &Sealed) -> Result<(), ReadError> {
    let id = workspace.id.to_string();
    db.prepare_cached(
        "INSERT INTO slack_workspaces (id, team, settings, created_at, version) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (id) DO UPDATE SET team = ?2, settings = ?3, version = ?5",
    )?
    .execute(params![
        id,
        workspace.settings.team,
        to_json(&workspace.settings)?,
        workspace.created_at.as_micros(),
        number(workspace.version),
    ])?;
    for (name, value) in secrets {
        match value {
            Some(value) => db
                .prepare_cached("INSERT OR REPLACE INTO slack_secrets (workspace, name, value) VALUES (?1, ?2, ?3)")?
                .execute(params![id, name, value])?,
            None => db
                .prepare_cached("DELETE FROM slack_secrets WHERE workspace = ?1 AND name = ?2")?
                .execute(params![id, name])?,
        };
    }
    Ok(())
}

/// Deletes a workspace with its secrets, events, threads and posts.
pub(super) fn remove(db: &Connection, id: SlackWorkspaceId) -> rusqlite::Result<()> {
    for text in [
        "DELETE FROM slack_events WHERE workspace = ?1",
        "DELETE FROM slack_threads WHERE workspace = ?1",
        "DELETE FROM slack_posts WHERE workspace = ?1",
        "DELETE FROM slack_secrets WHERE workspace = ?1",
        "DELETE FROM slack_workspaces WHERE id = ?1",
    ] {
        db.prepare_cached(text)?.execute([id.to_string()])?;
    }
    Ok(())
}

/// Deletes the posts in the threads of a job, except statuses of other jobs.
const DELETE_POSTS_OF_JOB: &str = "DELETE FROM slack_posts WHERE number IN (
        SELECT posts.number FROM (
            SELECT workspace, channel, thread FROM slack_threads WHERE job = ?1
            UNION SELECT workspace, channel, thread FROM slack_events WHERE job = ?1
        ) AS places CROSS JOIN slack_posts AS posts USING (workspace, channel, thread)
        WHERE coalesce(json_extract(posts.content, '$.status.job'), ?1) = ?1)";

const DELETE_EVENTS_OF_JOB: &str = "DELETE FROM slack_events WHERE job = ?1";

const DELETE_THREADS_OF_JOB: &str = "DELETE FROM slack_threads WHERE job = ?1";

/// Deletes the threads, events and posts of a job.
pub(super) fn remove_job(db: &Connection, id: &str) -> rusqlite::Result<()> {
    // The posts are found by the threads and events.
    for text in [DELETE_POSTS_OF_JOB, DELETE_EVENTS_OF_JOB, DELETE_THREADS_OF_JOB] {
        db.prepare_cached(text)?.execute([id])?;
    }
    Ok(())
}

/// Deletes the threads, events and posts of the jobs of a project, whose rows still exist.
pub(super) fn remove_jobs_of(db: &Connection, project: &str) -> rusqlite::Result<()> {
    for text in [
        "DELETE FROM slack_posts WHERE number IN (
            SELECT posts.number FROM (
                SELECT workspace, channel, thread FROM slack_threads
                WHERE job IN (SELECT id FROM jobs WHERE project = ?1)
                UNION SELECT workspace, channel, thread FROM slack_events
                WHERE job IN (SELECT id FROM jobs WHERE project = ?1)
            ) AS places CROSS JOIN slack_posts AS posts USING (workspace, channel, thread)
            WHERE coalesce(json_extract(posts.content, '$.status.project'), ?1) = ?1)",
        "DELETE FROM slack_events WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
        "DELETE FROM slack_threads WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
    ] {
        db.prepare_cached(text)?.execute([project])?;
    }
    Ok(())
}

/// Finds a workspace.
pub(super) fn by_id(db: &Connection, id: SlackWorkspaceId) -> Result<Option<SlackWorkspace>, ReadError> {
    let mut query = db.prepare_cached("SELECT * FROM slack_workspaces WHERE id = ?1")?;
    let mut found = query.query([id.to_string()])?;
    found.next()?.map(rows::slack_workspace).transpose()
}

const ANY_EVENT: &str = "SELECT 1 FROM slack_events WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) LIMIT 1";

/// Claims events. Of each thread, only the first event that is not final may be claimed. The plus sign makes SQLite sort the
/// few events that are due: in the order of the table, it would read all.
const CLAIM_EVENTS: &str = "UPDATE slack_events SET due_at = ?3, attempts = attempts + 1 WHERE number IN (
        SELECT number FROM slack_events AS one
        WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) AND NOT EXISTS (
            SELECT 1 FROM slack_events AS earlier
            WHERE earlier.workspace = one.workspace AND earlier.channel = one.channel
              AND earlier.thread = one.thread AND earlier.due_at IS NOT NULL
              AND (earlier.ts, earlier.number) < (one.ts, one.number)
        )
        ORDER BY +number LIMIT ?4)
    RETURNING *";

const ANY_POST: &str = "SELECT 1 FROM slack_posts WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) LIMIT 1";

/// Claims the post of each channel that has been due the longest, unless the channel is busy.
const CLAIM_POSTS: &str = "UPDATE slack_posts SET due_at = ?3, busy_until = ?3, claims = claims + 1 WHERE number IN (
        SELECT number FROM (
            SELECT number, row_number() OVER (PARTITION BY workspace, channel ORDER BY due_at, number) AS place
            FROM slack_posts AS one
            WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) AND NOT EXISTS (
                SELECT 1 FROM slack_posts AS other
                WHERE other.workspace = one.workspace AND other.channel = one.channel
                  AND other.busy_until > ?1 AND other.busy_until <= ?2
            )
        )
        WHERE place = 1 ORDER BY number LIMIT ?4)
    RETURNING *";

const EVENTS: &str = "SELECT * FROM slack_events WHERE workspace = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3";

const EVENTS_OF_THREAD: &str = "SELECT * FROM slack_events
    WHERE workspace = ?1 AND channel = ?2 AND thread = ?3 AND number < ?4 ORDER BY number DESC LIMIT ?5";

const POSTS: &str = "SELECT * FROM slack_posts WHERE workspace = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3";

const THREAD: &str = "SELECT * FROM slack_threads WHERE workspace = ?1 AND channel = ?2 AND thread = ?3";

fn decide(db: &Connection, event: u64, attempt: u32, decision: &SlackDecision) -> Op<bool> {
    let (state, outcome, detail, due_at) = match &decision.next {
        SlackNext::Ends(state, outcome, detail) => (*state, Some(*outcome), detail.clone(), None),
        SlackNext::Retries(at) => (InboxState::Received, None, None, Some(at.as_micros())),
    };
    let (job, message) = decision.job.unzip();
    let changed = db
        .prepare_cached(
            "UPDATE slack_events
             SET state = ?3, outcome = ?4, detail = ?5, due_at = ?6, job = ?7, message = ?8
             WHERE number = ?1 AND attempts = ?2 AND state = 'received'",
        )?
        .execute(params![
            number(event),
            attempt,
            state.name(),
            outcome.map(|outcome| name_of(&outcome)).transpose()?,
            detail,
            due_at,
            job.map(|job| job.to_string()),
            message.flatten().map(|message| message.to_string()),
        ])?;
    if changed == 0 {
        return Ok(false);
    }
    if let Some(SlackThread { place, project, job }) = &decision.thread {
        db.prepare_cached(
            "INSERT INTO slack_threads (workspace, channel, thread, project, job) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            place.workspace.to_string(),
            place.channel,
            place.thread,
            project.as_str(),
            job.to_string()
        ])?;
    }
    decision.posts.iter().try_for_each(|post| insert_post(db, post, decision.at))?;
    Ok(true)
}

fn insert_post(db: &Connection, post: &NewSlackPost, at: Timestamp) -> Op<()> {
    db.prepare_cached(
        "INSERT INTO slack_posts (workspace, channel, thread, purpose, content, state, created_at, due_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        post.place.workspace.to_string(),
        post.place.channel,
        post.place.thread,
        post.purpose,
        to_json(&post.content)?,
        SlackPostState::Open.name(),
        at.as_micros(),
    ])?;
    Ok(())
}

fn finish(db: &Connection, posted: &SlackPosted) -> Op<bool> {
    let changed = db
        .prepare_cached(
            "UPDATE slack_posts
             SET ts = coalesce(?3, ts), shown = coalesce(?4, shown), state = ?5, detail = ?6, failures = ?7,
                 due_at = ?8, busy_until = ?9
             WHERE number = ?1 AND claims = ?2 AND state = 'open'",
        )?
        .execute(params![
            number(posted.number),
            number(posted.claim),
            posted.ts,
            posted.shown,
            posted.state.name(),
            posted.detail,
            posted.failures,
            posted.due_at.map(Timestamp::as_micros),
            posted.free_at.as_micros(),
        ])?;
    Ok(changed > 0)
}

fn receive(db: &Connection, new: &NewSlackEvent) -> Op<bool> {
    let inserted = db
        .prepare_cached(
            "INSERT INTO slack_events (workspace, event_id, channel, thread, ts, content, received_at, state, due_at)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 'received', ?7
             WHERE EXISTS (SELECT 1 FROM slack_workspaces WHERE id = ?1)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            new.workspace.to_string(),
            new.event.event_id,
            new.event.channel,
            new.event.thread,
            new.event.ts,
            to_json(&new.event.content)?,
            new.at.as_micros(),
        ])?;
    Ok(inserted > 0)
}

fn sweep(db: &Connection, before: i64, codes_before: i64, limit: i64) -> Op<usize> {
    let events = db
        .prepare_cached(
            "DELETE FROM slack_events WHERE number IN
             (SELECT number FROM slack_events WHERE received_at <= ?1 AND due_at IS NULL LIMIT ?2)",
        )?
        .execute([before, limit])?;
    let posts = db
        .prepare_cached(
            "DELETE FROM slack_posts WHERE number IN
             (SELECT number FROM slack_posts WHERE created_at <= ?1 AND due_at IS NULL LIMIT ?2)",
        )?
        .execute([before, limit])?;
    let codes = db.prepare_cached("DELETE FROM slack_codes WHERE expires_at <= ?1")?.execute([codes_before])?;
    Ok(events + posts + codes)
}

#[async_trait]
impl SlackStore for SqliteStore {
    async fn slack_workspaces(&self) -> Result<Vec<SlackWorkspace>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM slack_workspaces ORDER BY created_at, id")?;
            collect(&mut query.query([])?, |row| rows::slack_workspace(row))
        })
    }

    async fn slack_workspace(&self, id: SlackWorkspaceId) -> Result<Option<SlackWorkspace>, StoreError> {
        self.readers.find(|db| by_id(db, id))
    }

    async fn slack_secrets(&self, id: SlackWorkspaceId) -> Result<SlackSecrets, StoreError> {
        let sealed = self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT name, value FROM slack_secrets WHERE workspace = ?1")?;
            let found = query.query_map([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(found.collect::<rusqlite::Result<Vec<(String, Vec<u8>)>>>()?)
        })?;
        vault::open_slack(&self.master_keys, id, sealed)
    }

    async fn slack_code(&self, hash: TokenHash, now: Timestamp) -> Result<Option<UserId>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT owner FROM slack_codes WHERE hash = ?1 AND expires_at > ?2")?;
            let mut found = query.query(params![hash.0, now.as_micros()])?;
            found.next()?.map(rows::slack_code).transpose()
        })
    }

    async fn receive_slack(&self, event: NewSlackEvent) -> Result<bool, StoreError> {
        self.writer.write(move |db| receive(db, &event)).await
    }

    async fn claim_slack_events(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        // Most of the time no event is due. A read shows this without a transaction of the writer.
        if !self.readers.find(|db| Ok(db.prepare_cached(ANY_EVENT)?.exists([from, never])?))? {
            return Ok(Vec::new());
        }
        let claimed = self.writer.write(move |db| {
            let mut claim = db.prepare_cached(CLAIM_EVENTS)?;
            let mut found = claim.query([from, never, until, limited(limit)])?;
            Ok::<_, OpError<StoreError>>(collect(&mut found, |row| rows::slack_event(row))?)
        });
        let mut claimed = claimed.await?;
        claimed.sort_unstable_by_key(|event: &SlackInboxEvent| event.number);
        Ok(claimed)
    }

    async fn decide_slack_event(&self, number: u64, attempt: u32, decision: SlackDecision) -> Result<bool, StoreError> {
        self.writer.write(move |db| decide(db, number, attempt, &decision)).await
    }

    async fn slack_events(&self, filter: SlackEventFilter) -> Result<Vec<SlackInboxEvent>, StoreError> {
        let SlackEventFilter { workspace, place, before, limit } = filter;
        let before = before.map_or(i64::MAX, number);
        self.readers
            .read(move |db| match &place {
                Some(place) => {
                    let values = params![workspace.to_string(), place.channel, place.thread, before, limited(limit)];
                    let mut query = db.prepare_cached(EVENTS_OF_THREAD)?;
                    collect(&mut query.query(values)?, |row| rows::slack_event(row))
                }
                None => {
                    let mut query = db.prepare_cached(EVENTS)?;
                    let values = params![workspace.to_string(), before, limited(limit)];
                    collect(&mut query.query(values)?, |row| rows::slack_event(row))
                }
            })
            .await
    }

    async fn slack_thread(&self, place: SlackPlace) -> Result<Option<SlackThread>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached(THREAD)?;
            let mut found = query.query(params![place.workspace.to_string(), place.channel, place.thread])?;
            found.next()?.map(rows::slack_thread).transpose()
        })
    }

    async fn claim_slack_posts(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_DELAY, now + lease].map(Timestamp::as_micros);
        if !self.readers.find(|db| Ok(db.prepare_cached(ANY_POST)?.exists([from, never])?))? {
            return Ok(Vec::new());
        }
        let claimed = self.writer.write(move |db| {
            let mut claim = db.prepare_cached(CLAIM_POSTS)?;
            let mut found = claim.query([from, never, until, limited(limit)])?;
            Ok::<_, OpError<StoreError>>(collect(&mut found, |row| rows::slack_post(row))?)
        });
        let mut claimed = claimed.await?;
        claimed.sort_unstable_by_key(|post: &SlackPost| post.number);
        Ok(claimed)
    }

    async fn finish_slack_post(&self, posted: SlackPosted) -> Result<bool, StoreError> {
        self.writer.write(move |db| finish(db, &posted)).await
    }

    async fn slack_posts(
        &self,
        workspace: SlackWorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError> {
        let before = before.map_or(i64::MAX, number);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(POSTS)?;
                let values = params![workspace.to_string(), before, limited(limit)];
                collect(&mut query.query(values)?, |row| rows::slack_post(row))
            })
            .await
    }

    async fn sweep_slack(&self, before: Timestamp, codes_before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let (before, codes) = (before.as_micros(), codes_before.as_micros());
        self.writer.write(move |db| sweep(db, before, codes, limited(limit))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_queries_use_indexes_and_never_scan_a_table() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::migrate::migrate(&mut db, std::path::Path::new(":memory:")).unwrap();
        for (query, indexes) in [
            (ANY_EVENT, &["slack_events_due"][..]),
            (CLAIM_EVENTS, &["slack_events_due", "slack_events_open"]),
            (ANY_POST, &["slack_posts_due"]),
            (CLAIM_POSTS, &["slack_posts_due", "slack_posts_busy"]),
            (EVENTS, &["slack_events_listed"]),
            (EVENTS_OF_THREAD, &["slack_events_of_thread"]),
            (POSTS, &["slack_posts_listed"]),
            (THREAD, &["PRIMARY KEY"]),
            (DELETE_POSTS_OF_JOB, &["slack_threads_of_job", "slack_events_of_job", "slack_posts_once"]),
            (DELETE_EVENTS_OF_JOB, &["slack_events_of_job"]),
            (DELETE_THREADS_OF_JOB, &["slack_threads_of_job"]),
        ] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let values = vec![rusqlite::types::Value::Null; plan.parameter_count()];
            let lines =
                plan.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>("detail")).unwrap();
            let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>().unwrap();
            // Scans of the query's own intermediate results are allowed.
            let is_own = |line: &str| line.contains("subquery") || line == "SCAN places";
            let scans = lines.iter().filter(|line| line.starts_with("SCAN") && !is_own(line));
            assert_eq!(scans.count(), 0, "{query}: {lines:#?}");
            for index in indexes {
                assert!(lines.iter().any(|line| line.contains(index)), "{query}: {index}: {lines:#?}");
            }
        }
    }
}
