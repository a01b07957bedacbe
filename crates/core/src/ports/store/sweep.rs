//! The retention of rows, and the result of a sweep.

use std::time::Duration;

/// How long things are kept; `None`: for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// What agents said and did in jobs, from when the job came to rest; the other lines of its log stay.
    pub transcripts: Option<Duration>,
    /// Jobs with everything about them, from when they came to rest.
    pub jobs: Option<Duration>,
    /// Lines of the audit log.
    pub audit: Option<Duration>,
}

/// How much a sweep has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Idempotency keys.
    pub idempotency_keys: usize,
    /// Windows of rate limits.
    pub rate_windows: usize,
    /// Jobs whose transcript went.
    pub transcripts: usize,
    /// Jobs.
    pub jobs: usize,
    /// Lines of the audit log.
    pub audit: usize,
}

impl Swept {
    /// The largest of the numbers.
    #[must_use]
    pub fn most(&self) -> usize {
        let Self { idempotency_keys, rate_windows, transcripts, jobs, audit } = *self;
        [idempotency_keys, rate_windows, transcripts, jobs, audit].into_iter().max().unwrap_or(0)
    }
}
