//! The feed of events for integrations. There is one writer, so an event gets its position when it is stored.

use async_trait::async_trait;
use journeyman_core::feed::{FeedEnds, FeedEntry, FeedEvent, FeedQuery};
use journeyman_core::ports::{FeedStore, StoreError};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::rows::collect;
use crate::rows::{self, to_json};

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

/// Selects events of all projects.
pub(super) const FEED: &str = "SELECT * FROM feed
    WHERE position > ?1 AND (?2 IS NULL OR type IN (SELECT value FROM json_each(?2))) ORDER BY position LIMIT ?3";

/// Selects events of one project.
pub(super) const FEED_OF_PROJECT: &str = "SELECT * FROM feed INDEXED BY feed_of_project
    WHERE project = ?4 AND position > ?1 AND (?2 IS NULL OR type IN (SELECT value FROM json_each(?2)))
    ORDER BY position LIMIT ?3";

#[async_trait]
impl FeedStore for SqliteStore {
    async fn feed(&self, query: FeedQuery) -> Result<Vec<FeedEntry>, StoreError> {
        let after = i64::try_from(query.after).unwrap_or(i64::MAX);
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let names: Vec<&str> = query.kinds.iter().map(|kind| kind.name()).collect();
        let kinds = (!names.is_empty()).then(|| to_json(&names)).transpose()?;
        self.readers
            .read(move |db| {
                let Some(projects) = &query.projects else {
                    let mut all = db.prepare_cached(FEED)?;
                    return collect(&mut all.query(params![after, kinds, limit])?, |row| rows::feed_entry(row));
                };
                let mut found = Vec::new();
                for project in projects {
                    let mut own = db.prepare_cached(FEED_OF_PROJECT)?;
                    let values = params![after, kinds, limit, project.as_str()];
                    found.extend(collect(&mut own.query(values)?, |row| rows::feed_entry(row))?);
                }
                found.sort_unstable_by_key(|entry| entry.position);
                found.truncate(query.limit);
                Ok(found)
            })
            .await
    }

    async fn feed_ends(&self) -> Result<FeedEnds, StoreError> {
        let ends = self
            .readers
            .read(|db| {
                let text = "SELECT (SELECT min(position) FROM feed WHERE position IS NOT NULL) AS oldest,
                                   coalesce((SELECT last FROM feed_position), 0) AS newest";
                let mut query = db.prepare_cached(text)?;
                let mut found = query.query([])?;
                Ok(found.next()?.map(rows::feed_ends).transpose()?.unwrap_or_default())
            })
            .await?;
        Ok(FeedEnds { gaps: self.epoch.gaps.clone(), ..ends })
    }

    fn feed_version(&self) -> u64 {
        self.wakeups.feed_version()
    }

    async fn feed_changed(&self, seen: u64) {
        self.wakeups.feed_changed(seen).await;
    }
}
