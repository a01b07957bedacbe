//! The cutoff times for removing expired rows, in microseconds since 1970, as in the databases.

use std::time::Duration;

use journeyman_core::decision::DELETED_FOR;
use journeyman_core::feed::FEED_LIFETIME;
use journeyman_core::idempotency::LIFETIME;
use journeyman_core::inbox::INBOX_LIFETIME;
use journeyman_core::ports::Retention;
use journeyman_core::rate::WINDOW;
use journeyman_core::time::Timestamp;
use journeyman_core::trust::EXPIRED_KEY_KEPT;
use journeyman_core::user::{SESSION_IDLE, SESSION_LIFETIME};

use crate::retired;

/// The cutoff time of each kind of row. Rows that are not newer are removed; `i64::MIN` removes none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// The time of the sweep.
    pub(crate) now: i64,
    pub(crate) idempotency_keys: i64,
    pub(crate) rate_windows: i64,
    pub(crate) transcripts: i64,
    pub(crate) jobs: i64,
    pub(crate) audit: i64,
    pub(crate) inbox: i64,
    pub(crate) feed: i64,
    /// The cutoff for the deletion of a project or job.
    pub(crate) deleted: i64,
    /// The cutoff for the creation of a session.
    pub(crate) sessions: i64,
    /// The cutoff for the last use of a session.
    pub(crate) idle_sessions: i64,
    /// The cutoff for the expiry of a sign-in link.
    pub(crate) links: i64,
    /// The cutoff for the expiry of a key of a trust.
    pub(crate) keys: i64,
    /// The cutoff for the time at which a value of a secret was changed.
    pub(crate) retired: i64,
    /// The time in microseconds after its change for which a value may reach new jobs.
    pub(crate) slack: i64,
}

impl Ends {
    pub(crate) fn new(now: Timestamp, retention: Retention) -> Self {
        let before = |keep: Duration| (now - keep).as_micros();
        let end = |keep: Option<Duration>| keep.map_or(i64::MIN, before);
        Self {
            now: now.as_micros(),
            idempotency_keys: before(LIFETIME),
            rate_windows: before(WINDOW),
            transcripts: end(retention.transcripts),
            jobs: end(retention.jobs),
            audit: end(retention.audit),
            inbox: before(INBOX_LIFETIME),
            feed: before(FEED_LIFETIME),
            deleted: before(DELETED_FOR),
            sessions: before(SESSION_LIFETIME),
            idle_sessions: before(SESSION_IDLE),
            links: now.as_micros(),
            keys: before(EXPIRED_KEY_KEPT),
            retired: before(retired::KEPT),
            slack: i64::try_from(retired::SLACK.as_micros()).unwrap_or(i64::MAX),
        }
    }
}
