//! Removal of expired rows, in batches of limited size, because other writes wait meanwhile.

use journeyman_core::job::effect::Effect;
use journeyman_core::job::event::TRANSCRIPT;
use journeyman_core::ports::Swept;
use rusqlite::params;

use super::slack;
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

/// Removes a job and all its rows.
pub(super) fn remove_job(db: &Session<'_>, id: &str, now: i64) -> rusqlite::Result<()> {
    for table in ["log", "runs", "messages", "job_pulls", "job_issues", "check_watches", "job_attributes"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE job = ?1"))?.execute([id])?;
    }
    slack::remove_job(db, id)?;
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
