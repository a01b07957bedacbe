//! The feed of events for integrations.
//!
//! Transactions that run at the same time commit in any order, so an event with a small number can become visible after
//! one with a larger number was read. Readers therefore do not use the numbers: before a read, all visible events without
//! a position get the next positions, under a lock. Only readers wait for that lock; writers only insert.

use async_trait::async_trait;
use journeyman_core::feed::{FeedEnds, FeedEntry, FeedEvent, FeedQuery};
use journeyman_core::ports::{FeedStore, StoreError};

use super::error::PgError;
use super::pipeline::{Query, call};
use super::{Postgres, PostgresStore};
use crate::rows;
use crate::sql::feed::{ASSIGN, LOCK};

/// Returns the statement that adds events, in order.
pub(super) fn insert(events: &[FeedEvent]) -> Query {
    let texts = |value: fn(&FeedEvent) -> String| events.iter().map(value).collect::<Vec<String>>();
    call!(
        "INSERT INTO feed (project, job, type, at, data)
         SELECT project, job, type, at, data
         FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[])
             WITH ORDINALITY AS new (project, job, type, at, data, place)
         ORDER BY place",
        texts(|event| event.project.to_string()),
        texts(|event| event.job.to_string()),
        texts(|event| event.kind.name().to_owned()),
        events.iter().map(|event| event.at.as_micros()).collect::<Vec<i64>>(),
        texts(|event| event.data.to_string()),
    )
}

/// The number of events that get positions in one statement ([`ASSIGN`]).
const AT_ONCE: i64 = 10_000;

const UNREAD: &str = "SELECT 1 FROM feed WHERE position IS NULL LIMIT 1";

/// Selects events of all projects.
pub(super) const FEED: &str = "SELECT * FROM feed
    WHERE position > $1 AND (cardinality($2::text[]) = 0 OR type = ANY ($2)) ORDER BY position LIMIT $3";

/// Selects events of some projects.
pub(super) const FEED_OF_PROJECTS: &str = "
    SELECT entry.* FROM unnest($4::text[]) AS wanted (project) CROSS JOIN LATERAL (
        SELECT * FROM feed
        WHERE project = wanted.project AND position > $1 AND (cardinality($2::text[]) = 0 OR type = ANY ($2))
        ORDER BY position LIMIT $3
    ) AS entry
    ORDER BY entry.position LIMIT $3";

impl Postgres {
    pub(super) async fn assign_all_positions(&self) -> Result<(), PgError> {
        if self.read(call!(UNREAD)).await?.is_empty() {
            return Ok(());
        }
        loop {
            let answers = self.write(vec![call!(LOCK), call!(ASSIGN)]).await?;
            let row = answers.last().and_then(|rows| rows.first());
            let assigned: i64 = row.map(|row| row.try_get("assigned")).transpose()?.unwrap_or(0);
            if assigned < AT_ONCE {
                return Ok(());
            }
        }
    }
}

#[async_trait]
impl FeedStore for PostgresStore {
    async fn feed(&self, query: FeedQuery) -> Result<Vec<FeedEntry>, StoreError> {
        self.assign_all_positions().await?;
        let after = i64::try_from(query.after).unwrap_or(i64::MAX);
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let kinds: Vec<&'static str> = query.kinds.iter().map(|kind| kind.name()).collect();
        let found = match query.projects {
            None => self.read(call!(FEED, after, kinds, limit)).await?,
            Some(projects) => {
                let projects: Vec<String> = projects.iter().map(ToString::to_string).collect();
                self.read(call!(FEED_OF_PROJECTS, after, kinds, limit, projects)).await?
            }
        };
        Ok(found.iter().map(rows::feed_entry).collect::<Result<_, PgError>>()?)
    }

    async fn feed_ends(&self) -> Result<FeedEnds, StoreError> {
        self.assign_all_positions().await?;
        let text = "SELECT (SELECT min(position) FROM feed WHERE position IS NOT NULL) AS oldest,
                           coalesce((SELECT last FROM feed_position), 0) AS newest";
        let found = self.read(call!(text)).await?;
        let ends = found.first().map(rows::feed_ends).transpose()?.unwrap_or_default();
        Ok(FeedEnds { gaps: self.epochs.gaps(), ..ends })
    }

    fn feed_version(&self) -> u64 {
        self.news.wakeups.feed_version()
    }

    async fn feed_changed(&self, seen: u64) {
        drop(tokio::time::timeout(self.recheck, self.news.wakeups.feed_changed(seen)).await);
    }
}
