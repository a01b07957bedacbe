//! New events of the feed. There is one writer, so an event gets its position when it is stored.

use journeyman_core::feed::FeedEvent;
use rusqlite::{Connection, params};

/// Adds an event.
pub(super) fn insert(db: &Connection, event: &FeedEvent) -> rusqlite::Result<()> {
    let next = "INSERT INTO feed_position (one, last) VALUES (1, 1) ON CONFLICT DO UPDATE SET last = last + 1
                RETURNING last";
    let position: i64 = db.prepare_cached(next)?.query_row([], |row| row.get(0))?;
    db.prepare_cached("INSERT INTO feed (position, project, job, type, at, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![
            position,
            event.project.as_str(),
            event.job.to_string(),
            event.kind.name(),
            event.at.as_micros(),
            event.data.to_string()
        ])?;
    Ok(())
}
