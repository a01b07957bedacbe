//! Removal of expired rows, in batches of limited size, because other writes wait meanwhile.

use journeyman_core::job::effect::Effect;
use journeyman_core::job::event::TRANSCRIPT;
use journeyman_core::ports::Swept;
use rusqlite::params;

use super::write::Session;
use crate::retention::Ends;

pub(super) fn sweep(db: &Session<'_>, ends: Ends, limit: usize) -> rusqlite::Result<Swept> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let idempotency_keys = db
        .prepare_cached(
            "DELETE FROM idempotency_keys WHERE (project, key) IN
             (SELECT project, key FROM idempotency_keys WHERE at <= ?1 LIMIT ?2)",
        )?
        .execute(params![ends.idempotency_keys, limit])?;
    let rate_windows = db
        .prepare_cached(
            "DELETE FROM rate_windows WHERE (project, kind) IN
             (SELECT project, kind FROM rate_windows WHERE started_at <= ?1 LIMIT ?2)",
        )?
        .execute(params![ends.rate_windows, limit])?;
    let audit = db
        .prepare_cached("DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at <= ?1 LIMIT ?2)")?
        .execute(params![ends.audit, limit])?;
    let inbox = db
        .prepare_cached(
            "DELETE FROM inbox WHERE number IN
             (SELECT number FROM inbox WHERE received_at <= ?1 AND due_at IS NULL LIMIT ?2)",
        )?
        .execute(params![ends.inbox, limit])?;
    db.prepare_cached("DELETE FROM sessions WHERE created_at <= ?1 OR seen_at <= ?2")?
        .execute([ends.sessions, ends.idle_sessions])?;
    db.prepare_cached("DELETE FROM links WHERE expires_at <= ?1")?.execute([ends.links])?;
    let transcripts = at_rest(db, "trimmed = 0", ends.transcripts, limit)?;
    for id in &transcripts {
        // The prefix needs no escaping: it contains neither `_` nor `%`.
        let text = "DELETE FROM log WHERE job = ?1 AND type LIKE ?2 || '%'";
        db.prepare_cached(text)?.execute(params![id, TRANSCRIPT])?;
        db.prepare_cached("UPDATE jobs SET trimmed = 1 WHERE id = ?1")?.execute([id])?;
    }
    let jobs = at_rest(db, "trimmed IN (0, 1)", ends.jobs, limit)?;
    for id in &jobs {
        remove_job(db, id, ends.now)?;
    }
    let feed = db
        .prepare_cached("DELETE FROM feed WHERE number IN (SELECT number FROM feed WHERE at <= ?1 LIMIT ?2)")?
        .execute(params![ends.feed, limit])?;
    let deliveries = db
        .prepare_cached(
            "DELETE FROM deliveries WHERE number IN (SELECT number FROM deliveries WHERE created_at <= ?1 LIMIT ?2)",
        )?
        .execute(params![ends.feed, limit])?;
    let keys = db
        .prepare_cached(
            "DELETE FROM keys WHERE id IN
             (SELECT id FROM keys WHERE substr(creator, 1, 6) = 'trust_' AND expires_at <= ?1 LIMIT ?2)",
        )?
        .execute(params![ends.keys, limit])?;
    db.prepare_cached("DELETE FROM deleted WHERE at <= ?1")?.execute([ends.deleted])?;
    db.prepare_cached(
        "DELETE FROM retired_secrets WHERE at <= ?1 AND NOT EXISTS
         (SELECT 1 FROM jobs WHERE jobs.project = retired_secrets.project AND jobs.created_at <= retired_secrets.at + ?2)",
    )?
    .execute([ends.retired, ends.slack])?;
    Ok(Swept {
        idempotency_keys,
        rate_windows,
        transcripts: transcripts.len(),
        jobs: jobs.len(),
        audit,
        inbox,
        feed,
        deliveries,
        keys,
    })
}

/// Deletes the posts in the Slack threads of a job, except statuses of other jobs. They are found by the threads and
/// events, which are deleted after them.
const DELETE_SLACK_POSTS: &str = "DELETE FROM slack_posts WHERE number IN (
        SELECT posts.number FROM (
            SELECT workspace, channel, thread FROM slack_threads WHERE job = ?1
            UNION SELECT workspace, channel, thread FROM slack_events WHERE job = ?1
        ) AS places CROSS JOIN slack_posts AS posts USING (workspace, channel, thread)
        WHERE coalesce(json_extract(posts.content, '$.status.job'), ?1) = ?1)";

const DELETE_SLACK_EVENTS: &str = "DELETE FROM slack_events WHERE job = ?1";

const DELETE_SLACK_THREADS: &str = "DELETE FROM slack_threads WHERE job = ?1";

/// Removes a job and all its rows.
pub(super) fn remove_job(db: &Session<'_>, id: &str, now: i64) -> rusqlite::Result<()> {
    for table in ["log", "runs", "messages", "job_pulls", "job_issues", "check_watches", "job_attributes"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE job = ?1"))?.execute([id])?;
    }
    for text in [DELETE_SLACK_POSTS, DELETE_SLACK_EVENTS, DELETE_SLACK_THREADS] {
        db.prepare_cached(text)?.execute([id])?;
    }
    db.prepare_cached(
        "DELETE FROM spending WHERE (project, kind, subject) IN
         (SELECT project, 'job', id FROM jobs WHERE id = ?1)",
    )?
    .execute([id])?;
    db.prepare_cached(
        "INSERT INTO tasks (kind, effect, created_at, due_at)
         VALUES (?1, json_object('kind', ?1, 'job', ?2), ?3, ?3)",
    )?
    .execute(params![Effect::REMOVE_BLOBS, id, now])?;
    db.prepare_cached("DELETE FROM jobs WHERE id = ?1")?.execute([id])?;
    db.removed_jobs();
    Ok(())
}

/// Returns jobs that have been inactive since `end` or earlier.
fn at_rest(db: &Session<'_>, which: &str, end: i64, limit: i64) -> rusqlite::Result<Vec<String>> {
    let text = format!("SELECT id FROM jobs WHERE {which} AND rests_since <= ?1 LIMIT ?2");
    let mut query = db.prepare_cached(&text)?;
    query.query_map([end, limit], |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn the_rows_of_slack_are_found_by_indexes() {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::migrate::migrate(&mut db, std::path::Path::new(":memory:")).unwrap();
        for (query, indexes) in [
            (DELETE_SLACK_POSTS, &["slack_threads_of_job", "slack_events_of_job", "slack_posts_once"][..]),
            (DELETE_SLACK_EVENTS, &["slack_events_of_job"]),
            (DELETE_SLACK_THREADS, &["slack_threads_of_job"]),
        ] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let lines = plan.query_map(["job"], |row| row.get::<_, String>("detail")).unwrap();
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
