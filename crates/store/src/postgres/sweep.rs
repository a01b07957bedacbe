//! Removal of expired rows, in batches of limited size. Processes that sweep at the same time take different rows.

use journeyman_core::ids::JobId;
use journeyman_core::job::effect::Effect;
use journeyman_core::job::event::TRANSCRIPT;
use journeyman_core::ports::Swept;
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;

use super::pipeline::{Call, call};
use crate::retention::Ends;

/// Removes the jobs that a query selects, and all their rows. `$1` and `$2` are parameters of the query.
macro_rules! remove {
    ($jobs:literal) => {
        concat!(
            "WITH resting AS (",
            $jobs,
            "), lines AS (
                 DELETE FROM log USING resting WHERE log.job = resting.id
             ), attempts AS (
                 DELETE FROM runs USING resting WHERE runs.job = resting.id
             ), sent AS (
                 DELETE FROM messages USING resting WHERE messages.job = resting.id
             ), pulls AS (
                 DELETE FROM job_pulls USING resting WHERE job_pulls.job = resting.id
             ), issues AS (
                 DELETE FROM job_issues USING resting WHERE job_issues.job = resting.id
             ), watches AS (
                 DELETE FROM check_watches USING resting WHERE check_watches.job = resting.id
             ), attributes AS (
                 DELETE FROM job_attributes USING resting WHERE job_attributes.job = resting.id
             ), threads AS (
                 DELETE FROM slack_threads USING resting WHERE slack_threads.job = resting.id
                 RETURNING workspace, channel, thread
             ), asked AS (
                 DELETE FROM slack_events USING resting WHERE slack_events.job = resting.id
                 RETURNING workspace, channel, thread
             ), posts AS (
                 DELETE FROM slack_posts
                 WHERE (workspace, channel, thread) IN (
                     SELECT workspace, channel, thread FROM threads
                     UNION SELECT workspace, channel, thread FROM asked
                 ) AND coalesce(content::json #>> '{status,job}' IN (SELECT id FROM resting), true)
             ), money AS (
                 DELETE FROM spending USING resting
                 WHERE spending.project = resting.project AND kind = 'job' AND subject = resting.id
             ), effects AS (
                 INSERT INTO tasks (kind, effect, created_at, due_at)
                 SELECT $3::text, json_build_object('kind', $3::text, 'job', id)::text, $4::bigint, $4::bigint
                 FROM resting
             )
             DELETE FROM jobs USING resting WHERE jobs.id = resting.id RETURNING 1"
        )
    };
}

/// Returns the statement that removes a job, whose row is locked.
pub(super) fn remove_job(id: JobId, at: Timestamp) -> Call {
    call!(REMOVE_ONE, id.to_string(), 1_i64, Effect::REMOVE_BLOBS, at.as_micros())
}

const REMOVE_ONE: &str = remove!("SELECT id, project FROM jobs WHERE id = $1 LIMIT $2");

/// Returns the statements of one sweep. [`swept`] reads their results.
pub(super) fn calls(ends: Ends, limit: usize) -> Vec<Call> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    vec![
        call!(
            "DELETE FROM idempotency_keys WHERE (project, key) IN
             (SELECT project, key FROM idempotency_keys WHERE at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING 1",
            ends.idempotency_keys,
            limit
        ),
        call!(
            "DELETE FROM rate_windows WHERE (project, kind) IN
             (SELECT project, kind FROM rate_windows WHERE started_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING 1",
            ends.rate_windows,
            limit
        ),
        call!(
            "WITH resting AS (
                 SELECT id FROM jobs WHERE trimmed = 0 AND rests_since <= $1
                 ORDER BY rests_since LIMIT $2 FOR UPDATE SKIP LOCKED
             ), lines AS (
                 DELETE FROM log USING resting WHERE log.job = resting.id AND log.type LIKE $3 || '%'
             )
             UPDATE jobs SET trimmed = 1 FROM resting WHERE jobs.id = resting.id RETURNING 1",
            ends.transcripts,
            limit,
            TRANSCRIPT
        ),
        call!(
            remove!(
                "SELECT id, project FROM jobs WHERE trimmed IN (0, 1) AND rests_since <= $1
                 ORDER BY rests_since LIMIT $2 FOR UPDATE SKIP LOCKED"
            ),
            ends.jobs,
            limit,
            Effect::REMOVE_BLOBS,
            ends.now
        ),
        call!(
            "DELETE FROM audit WHERE number IN
             (SELECT number FROM audit WHERE at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING 1",
            ends.audit,
            limit
        ),
        call!(
            "DELETE FROM inbox WHERE number IN
             (SELECT number FROM inbox WHERE received_at <= $1 AND due_at IS NULL LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING 1",
            ends.inbox,
            limit
        ),
        call!(
            "DELETE FROM feed WHERE number IN
             (SELECT number FROM feed WHERE at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING 1",
            ends.feed,
            limit
        ),
        call!(
            "DELETE FROM deliveries WHERE number IN
             (SELECT number FROM deliveries WHERE created_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING 1",
            ends.feed,
            limit
        ),
        call!(
            "DELETE FROM keys WHERE id IN
             (SELECT id FROM keys WHERE substr(creator, 1, 6) = 'trust_' AND expires_at <= $1 LIMIT $2
              FOR UPDATE SKIP LOCKED)
             RETURNING 1",
            ends.keys,
            limit
        ),
        call!("DELETE FROM sessions WHERE created_at <= $1 OR seen_at <= $2", ends.sessions, ends.idle_sessions),
        call!("DELETE FROM links WHERE expires_at <= $1", ends.links),
        call!("DELETE FROM deleted WHERE at <= $1", ends.deleted),
        call!(
            "DELETE FROM retired_secrets WHERE at <= $1 AND NOT EXISTS
             (SELECT 1 FROM jobs
              WHERE jobs.project = retired_secrets.project AND jobs.created_at <= retired_secrets.at + $2)",
            ends.retired,
            ends.slack
        ),
    ]
}

/// Returns the number of rows of each kind that the statements have removed.
pub(super) fn swept(answers: &[Vec<Row>]) -> Swept {
    let count = |index: usize| answers.get(index).map_or(0, Vec::len);
    Swept {
        idempotency_keys: count(0),
        rate_windows: count(1),
        transcripts: count(2),
        jobs: count(3),
        audit: count(4),
        inbox: count(5),
        feed: count(6),
        deliveries: count(7),
        keys: count(8),
    }
}
