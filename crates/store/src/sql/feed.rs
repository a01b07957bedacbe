//! The feed of events for integrations.
//!
//! With PostgreSQL, transactions that run at the same time commit in any order, so an event with a small number can become
//! visible after one with a larger number was read. Readers therefore do not use the numbers: before a read, all visible
//! events without a position get the next positions, under a lock. Only readers wait for that lock; writers only insert.
//! With SQLite, there is one writer, and an event gets its position when it is stored.

use async_trait::async_trait;
use journeyman_core::feed::{FeedEnds, FeedEntry, FeedQuery};
use journeyman_core::ports::{FeedStore, StoreError};

use super::{Database, SqlStore, Statement, Text, Value, sql, text};
use crate::rows;

/// Takes the lock of the positions.
pub(crate) const LOCK: &str = "INSERT INTO feed_position (one, last) VALUES (1, 0)
    ON CONFLICT (one) DO UPDATE SET last = feed_position.last";

/// Assigns the next positions, except to events that another transaction is deleting. The statement sees all events that
/// were committed before the lock was taken.
pub(crate) const ASSIGN: &str = "
    WITH unread AS (
        SELECT number, row_number() OVER (ORDER BY number) AS place
        FROM (
            SELECT number FROM feed WHERE position IS NULL ORDER BY number LIMIT 10000 FOR UPDATE SKIP LOCKED
        ) AS oldest
    ), assigned AS (
        UPDATE feed SET position = (SELECT last FROM feed_position) + unread.place
        FROM unread WHERE feed.number = unread.number RETURNING feed.position
    )
    UPDATE feed_position SET last = GREATEST(last, coalesce((SELECT max(position) FROM assigned), last))
    RETURNING (SELECT count(*) FROM assigned) AS assigned";

/// Selects events of all projects.
pub(crate) const FEED: Text = text!(
    "SELECT * FROM feed
     WHERE position > $1 AND ($2::text[] IS NULL OR type = ANY (($2))) ORDER BY position LIMIT $3"
);

/// Selects events of some projects. Of each project, it reads only the first events in the index, up to the limit.
pub(crate) const FEED_OF_PROJECTS: Text = text!(
    "SELECT feed.* FROM unnest($4::text[]) AS wanted (value)
     CROSS JOIN feed /*sqlite INDEXED BY feed_of_project */
     WHERE feed.project = wanted.value AND feed.position > $1
       AND feed.position <= coalesce((
           SELECT own.position FROM feed AS own /*sqlite INDEXED BY feed_of_project */
           WHERE own.project = wanted.value AND own.position > $1 AND ($2::text[] IS NULL OR own.type = ANY (($2)))
           ORDER BY own.position LIMIT 1 OFFSET $3::bigint - 1
       ), 9223372036854775807)
       AND ($2::text[] IS NULL OR feed.type = ANY (($2)))
     ORDER BY feed.position LIMIT $3::bigint"
);

#[async_trait]
impl<B: Database> FeedStore for SqlStore<B> {
    async fn feed(&self, query: FeedQuery) -> Result<Vec<FeedEntry>, StoreError> {
        self.assign_positions().await?;
        let kinds: Vec<String> = query.kinds.iter().map(|kind| kind.name().to_owned()).collect();
        let kinds = Some(kinds).filter(|kinds| !kinds.is_empty());
        let mut values: Vec<Value> = vec![query.after.into(), kinds.into(), query.limit.into()];
        let text = match query.projects {
            None => FEED,
            Some(projects) => {
                values.push(projects.iter().map(ToString::to_string).collect::<Vec<String>>().into());
                FEED_OF_PROJECTS
            }
        };
        self.all(Statement { text, values }, rows::feed_entry).await
    }

    async fn feed_ends(&self) -> Result<FeedEnds, StoreError> {
        self.assign_positions().await?;
        let ends = sql!(
            "SELECT (SELECT min(position) FROM feed WHERE position IS NOT NULL) AS oldest,
                    coalesce((SELECT last FROM feed_position), 0) AS newest"
        );
        let ends = self.all(ends, rows::feed_ends).await?.pop().unwrap_or_default();
        Ok(FeedEnds { gaps: self.epoch().gaps, ..ends })
    }

    fn feed_version(&self) -> u64 {
        self.wakeups().feed_version()
    }

    async fn feed_changed(&self, seen: u64) {
        let changed = self.wakeups().feed_changed(seen);
        match self.recheck() {
            Some(recheck) => drop(tokio::time::timeout(recheck, changed).await),
            None => changed.await,
        }
    }
}
