//! The feed of events for integrations.

use async_trait::async_trait;
use journeyman_core::feed::{FeedEnds, FeedEntry, FeedEvent, FeedQuery};
use journeyman_core::ports::{FeedStore, StoreError};

use super::{MemoryStore, Tables};

impl Tables {
    pub(super) fn insert_feed(&mut self, event: &FeedEvent) {
        self.last_position += 1;
        let FeedEvent { kind, at, project, job, data } = event.clone();
        let kind = kind.name().to_owned();
        self.feed.push(FeedEntry { position: self.last_position, kind, at, project, job, data });
    }
}

#[async_trait]
impl FeedStore for MemoryStore {
    async fn feed(&self, query: FeedQuery) -> Result<Vec<FeedEntry>, StoreError> {
        let tables = self.tables();
        let selected = |entry: &&FeedEntry| {
            entry.position > query.after
                && query.projects.as_ref().is_none_or(|projects| projects.contains(&entry.project))
                && (query.kinds.is_empty() || query.kinds.iter().any(|kind| kind.name() == entry.kind))
        };
        Ok(tables.feed.iter().filter(selected).take(query.limit).cloned().collect())
    }

    async fn feed_ends(&self) -> Result<FeedEnds, StoreError> {
        let tables = self.tables();
        let oldest = tables.feed.first().map(|entry| entry.position);
        Ok(FeedEnds { oldest, newest: tables.last_position, gaps: Vec::new() })
    }

    fn feed_version(&self) -> u64 {
        self.wakeups.feed_version()
    }

    async fn feed_changed(&self, seen: u64) {
        self.wakeups.feed_changed(seen).await;
    }
}
