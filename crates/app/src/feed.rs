//! Reading the feed of events for integrations.

use journeyman_core::feed::{FeedEntry, FeedQuery};

use crate::{Caller, Error, RefusalKind, UseCases};

impl UseCases {
    /// Returns events of the feed in the projects that the caller may see, oldest first, and the position after which the
    /// next events come.
    ///
    /// # Errors
    /// Events after the position of the query may have been removed already, or the store failed.
    pub async fn feed(&self, caller: &Caller, query: FeedQuery) -> Result<(Vec<FeedEntry>, u64), Error> {
        // Read before the events: all events up to this end are visible to the query.
        let ends = self.parts().store.feed_ends().await?;
        if ends.has_lost(query.after) {
            let text = "the events after this cursor are no longer stored, or the server was restored from an earlier state; read \
                 the list of jobs, and begin without a cursor";
            return Err(Error::refused(RefusalKind::CursorExpired, text));
        }
        let (after, limit) = (query.after, query.limit);
        let projects = caller.visible(query.projects.clone());
        let entries = self.parts().store.feed(FeedQuery { projects, ..query }).await?;
        let last = entries.last().map_or(after, |entry| entry.position);
        let next = if entries.len() < limit { last.max(ends.newest) } else { last };
        Ok((entries, next))
    }

    /// Returns the position of the newest event of the feed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_of_feed(&self) -> Result<u64, Error> {
        Ok(self.parts().store.feed_ends().await?.newest)
    }
}
