//! The positions of events in the feed, which PostgreSQL assigns after the events were stored.

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
