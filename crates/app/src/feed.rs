//! Reading the feed of events for integrations.

use journeyman_core::feed::{Expired, FeedCursor, FeedEntry, FeedQuery};

use crate::{Caller, Error, RefusalKind, UseCases};

/// Events of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    /// The events, oldest first.
    pub entries: Vec<FeedEntry>,
    /// The cursor after which the next events come.
    pub next: FeedCursor,
}

impl UseCases {
    /// Returns events of the feed after a cursor, in the projects that the caller may see, oldest first. The position in
    /// `query` is ignored.
    ///
    /// # Errors
    /// The cursor is of another epoch, events after it may have been removed already, or the store failed.
    pub async fn feed(&self, caller: &Caller, query: FeedQuery, after: FeedCursor) -> Result<FeedPage, Error> {
        // Read before the events: all events up to this end are visible to the query.
        let ends = self.parts().store.feed_ends().await?;
        let (after, limit) = (ends.after(after).map_err(expired)?, query.limit);
        let projects = caller.visible(query.projects.clone());
        let entries = self.parts().store.feed(FeedQuery { projects, after, ..query }).await?;
        let last = entries.last().map_or(after, |entry| entry.position);
        let next = if entries.len() < limit { last.max(ends.newest) } else { last };
        Ok(FeedPage { entries, next: ends.cursor(next) })
    }

    /// Returns the cursor after the newest event of the feed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_of_feed(&self) -> Result<FeedCursor, Error> {
        let ends = self.parts().store.feed_ends().await?;
        Ok(ends.cursor(ends.newest))
    }
}

fn expired(reason: Expired) -> Error {
    let (next, text) = match reason {
        Expired::Removed => (
            None,
            "the events after this cursor are no longer stored; read the list of jobs, and begin without a cursor"
                .to_owned(),
        ),
        Expired::OtherEpoch { next: None } => (
            None,
            "the server was restored from an earlier state, or a standby took over, and the events after this cursor are \
             no longer stored; read the list of jobs, and begin without a cursor"
                .to_owned(),
        ),
        Expired::OtherEpoch { next: Some(next) } => (
            Some(next),
            format!(
                "the server was restored from an earlier state, or a standby took over, so events after this cursor may \
                 be lost; read the list of jobs, and continue with the cursor {next}, after which the events come that \
                 you have not received"
            ),
        ),
    };
    Error::refused(RefusalKind::CursorExpired { next }, text)
}
