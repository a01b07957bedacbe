//! Removal of expired rows, in batches of limited size, because other writes wait meanwhile. Processes that sweep at the same
//! time take different rows.

use journeyman_core::job::event::TRANSCRIPT;
use journeyman_core::ports::{StoreError, Swept};
use journeyman_core::time::Timestamp;

use super::{Database, DbError, Statement, Tx, Value, sql};
use crate::retention::Ends;
use crate::rows::Columns as _;
use crate::tables;

/// Creates the statement that deletes rows of a table under a condition on the time `$1`, at most `$2` of them.
macro_rules! delete {
    ($table:literal [$key:literal] where $condition:literal; $end:expr, $limit:expr) => {
        sql!(
            concat!(
                "DELETE FROM ",
                $table,
                " WHERE (",
                $key,
                ") IN (SELECT ",
                $key,
                " FROM ",
                $table,
                " WHERE ",
                $condition,
                " LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1"
            ),
            $end,
            $limit,
        )
    };
}

/// Removes expired rows, at most `limit` of each kind, in one transaction.
pub(crate) async fn sweep<B: Database>(database: &B, ends: Ends, limit: usize) -> Result<Swept, StoreError> {
    database.transact(move |tx| Box::pin(remove(tx, ends, limit))).await
}

async fn remove(tx: &mut (dyn Tx + '_), ends: Ends, limit: usize) -> Result<Swept, DbError> {
    tx.take_long();
    let transcripts = at_rest(tx, TRIMMABLE, ends.transcripts, limit).await?;
    if !transcripts.is_empty() {
        // The prefix needs no escaping: it contains neither `_` nor `%`.
        let lines =
            sql!("DELETE FROM log WHERE job = ANY (($1)) AND type LIKE $2 || '%'", transcripts.clone(), TRANSCRIPT);
        tx.execute(lines).await?;
        tx.execute(sql!("UPDATE jobs SET trimmed = 1 WHERE id = ANY (($1))", transcripts.clone())).await?;
    }
    let jobs = at_rest(tx, REMOVABLE, ends.jobs, limit).await?;
    if !jobs.is_empty() {
        tx.removed_jobs();
        for statement in tables::delete_jobs(&jobs, Timestamp::from_micros(ends.now)) {
            tx.execute(statement).await?;
        }
    }
    for statement in [
        sql!("DELETE FROM sessions WHERE created_at <= $1 OR seen_at <= $2", ends.sessions, ends.idle_sessions),
        sql!("DELETE FROM links WHERE expires_at <= $1", ends.links),
        sql!("DELETE FROM deleted WHERE at <= $1", ends.deleted),
        sql!(
            "DELETE FROM retired_secrets WHERE at <= $1 AND NOT EXISTS
             (SELECT 1 FROM jobs
              WHERE jobs.project = retired_secrets.project AND jobs.created_at <= retired_secrets.at + $2)",
            ends.retired,
            ends.slack,
        ),
    ] {
        tx.execute(statement).await?;
    }
    let removed = tx.all([
        delete!("idempotency_keys" ["project, key"] where "at <= $1"; ends.idempotency_keys, limit),
        delete!("rate_windows" ["project, kind"] where "started_at <= $1"; ends.rate_windows, limit),
        delete!("audit" ["number"] where "at <= $1"; ends.audit, limit),
        delete!("inbox" ["number"] where "received_at <= $1 AND due_at IS NULL"; ends.inbox, limit),
        delete!("feed" ["number"] where "at <= $1"; ends.feed, limit),
        delete!("deliveries" ["number"] where "created_at <= $1"; ends.feed, limit),
        delete!("keys" ["id"] where "substr(creator, 1, 6) = 'trust_' AND expires_at <= $1"; ends.keys, limit),
    ]);
    let [idempotency_keys, rate_windows, audit, inbox, feed, deliveries, keys] = removed.await?.map(|rows| rows.len());
    Ok(Swept {
        idempotency_keys,
        rate_windows,
        transcripts: transcripts.len(),
        jobs: jobs.len(),
        audit,
        inbox,
        feed,
        deliveries,
        keys,
    })
}

/// Selects and locks jobs with a transcript that have been inactive since `$1` or earlier, at most `$2`.
const TRIMMABLE: super::Text = super::text!(
    "SELECT id FROM jobs WHERE trimmed = 0 AND rests_since <= $1 ORDER BY rests_since LIMIT $2 FOR UPDATE SKIP LOCKED"
);

/// Selects and locks jobs that have been inactive since `$1` or earlier, at most `$2`.
const REMOVABLE: super::Text = super::text!(
    "SELECT id FROM jobs WHERE trimmed IN (0, 1) AND rests_since <= $1
     ORDER BY rests_since LIMIT $2 FOR UPDATE SKIP LOCKED"
);

async fn at_rest(tx: &mut (dyn Tx + '_), text: super::Text, end: i64, limit: usize) -> Result<Vec<String>, DbError> {
    let query = Statement { text, values: vec![Value::from(end), Value::from(limit)] };
    let ids = tx.query(query).await?;
    Ok(ids.iter().map(|row| Ok(row.text("id")?.unwrap_or_default())).collect::<Result<_, StoreError>>()?)
}
