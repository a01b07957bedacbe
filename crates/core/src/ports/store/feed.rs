//! The store of the feed.

use async_trait::async_trait;

use super::error::StoreError;
use crate::feed::{FeedEnds, FeedEntry, FeedQuery};

/// Reads the feed. [`super::JobStore`] adds the events of each change.
#[async_trait]
pub trait FeedStore: Send + Sync {
    /// Returns the selected events, oldest first.
    async fn feed(&self, query: FeedQuery) -> Result<Vec<FeedEntry>, StoreError>;

    /// Returns the ends of the feed.
    async fn feed_ends(&self) -> Result<FeedEnds, StoreError>;

    /// Returns a number that increases whenever the feed may have new events.
    fn feed_version(&self) -> u64;

    /// Waits until [`FeedStore::feed_version`] differs from `seen`. It may also return without a difference.
    async fn feed_changed(&self, seen: u64);
}
