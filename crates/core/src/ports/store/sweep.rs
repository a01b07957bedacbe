//! The retention of rows, and the result of a sweep.

use std::time::Duration;

/// The times for which rows are kept; `None` means forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// The log entries about an agent's texts and actions ([`crate::job::event::TRANSCRIPT`]), from the time at which
    /// the job became inactive. The other entries of its log are kept.
    pub transcripts: Option<Duration>,
    /// Jobs and all their data, from the time at which they became inactive.
    pub jobs: Option<Duration>,
    /// Entries of the audit log.
    pub audit: Option<Duration>,
}

/// The numbers of rows that a sweep removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// The number of idempotency keys.
    pub idempotency_keys: usize,
    /// The number of windows of rate limits.
    pub rate_windows: usize,
    /// The number of jobs whose transcript was removed.
    pub transcripts: usize,
    /// The number of jobs.
    pub jobs: usize,
    /// The number of entries of the audit log.
    pub audit: usize,
    /// The number of events of the inbox.
    pub inbox: usize,
    /// The number of events of the feed.
    pub feed: usize,
    /// The number of deliveries of webhooks.
    pub deliveries: usize,
    /// The number of expired keys of trusts.
    pub keys: usize,
}

impl Swept {
    /// Returns the largest of these numbers.
    #[must_use]
    pub fn most(&self) -> usize {
        let Self { idempotency_keys, rate_windows, transcripts, jobs, audit, inbox, feed, deliveries, keys } = *self;
        [idempotency_keys, rate_windows, transcripts, jobs, audit, inbox, feed, deliveries, keys]
            .into_iter()
            .max()
            .unwrap_or(0)
    }
}
