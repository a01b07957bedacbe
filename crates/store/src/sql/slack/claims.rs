//! The statements that claim events and posts.

use std::time::Duration;

use journeyman_core::outbox::LONGEST_DELAY;
use journeyman_core::time::Timestamp;

use crate::sql::{Statement, sql};

/// Returns the statement that selects a row if an event is due.
pub(super) fn any_event(now: Timestamp) -> Statement {
    sql!(
        "SELECT 1 FROM slack_events WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) LIMIT 1",
        now,
        now + LONGEST_DELAY,
    )
}

/// Returns the statement that claims events. Of each thread, only the first event that is not final may be claimed. The
/// plus sign makes the database sort the few events that are due: in the order of the table, SQLite would read all.
pub(super) fn events(now: Timestamp, lease: Duration, limit: usize) -> Statement {
    sql!(
        "UPDATE slack_events SET due_at = $3, attempts = attempts + 1 WHERE number IN (
             SELECT number FROM slack_events AS one
             WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) AND NOT EXISTS (
                 SELECT 1 FROM slack_events AS earlier
                 WHERE earlier.workspace = one.workspace AND earlier.channel = one.channel
                   AND earlier.thread = one.thread AND earlier.due_at IS NOT NULL
                   AND (earlier.ts, earlier.number) < (one.ts, one.number)
             )
             ORDER BY +number LIMIT $4 FOR UPDATE SKIP LOCKED)
         RETURNING *",
        now,
        now + LONGEST_DELAY,
        now + lease,
        limit,
    )
}

/// Returns the statement that selects a row if a post is due.
pub(super) fn any_post(now: Timestamp) -> Statement {
    sql!(
        "SELECT 1 FROM slack_posts WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) LIMIT 1",
        now,
        now + LONGEST_DELAY,
    )
}

/// Returns the statement that claims the post of each channel that has been due the longest, unless the channel is busy.
/// With PostgreSQL, of two processes that pick the same post, the second finds another number of claims when it gets the
/// lock of the row.
pub(super) fn posts(now: Timestamp, lease: Duration, limit: usize) -> Statement {
    sql!(
        sqlite:
            "UPDATE slack_posts SET due_at = ?3, busy_until = ?3, claims = claims + 1 WHERE number IN (
                 SELECT number FROM (
                     SELECT number, row_number() OVER (PARTITION BY workspace, channel ORDER BY due_at, number) AS place
                     FROM slack_posts AS one
                     WHERE due_at IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) AND NOT EXISTS (
                         SELECT 1 FROM slack_posts AS other
                         WHERE other.workspace = one.workspace AND other.channel = one.channel
                           AND other.busy_until > ?1 AND other.busy_until <= ?2
                     )
                 )
                 WHERE place = 1 ORDER BY number LIMIT ?4)
             RETURNING *",
        postgres:
            "WITH picked AS (
                 SELECT DISTINCT ON (workspace, channel) number, claims FROM slack_posts AS one
                 WHERE due_at IS NOT NULL AND (due_at <= $1 OR due_at > $2) AND NOT EXISTS (
                     SELECT 1 FROM slack_posts AS other
                     WHERE other.workspace = one.workspace AND other.channel = one.channel
                       AND other.busy_until > $1 AND other.busy_until <= $2
                 )
                 ORDER BY workspace, channel, due_at, number
             ), few AS (
                 SELECT number, claims FROM picked ORDER BY number LIMIT $4
             )
             UPDATE slack_posts SET due_at = $3, busy_until = $3, claims = slack_posts.claims + 1
             FROM few WHERE slack_posts.number = few.number AND slack_posts.claims = few.claims
             RETURNING slack_posts.*";
        now,
        now + LONGEST_DELAY,
        now + lease,
        limit,
    )
}
