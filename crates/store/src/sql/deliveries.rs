//! The work on deliveries of webhooks.

use std::collections::HashMap;

use journeyman_core::feed::FeedEntry;
use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{
    CONCURRENT, Claim, ClaimedDelivery, DELIVERY_LEASE, Delivery, EVENT_REMOVED, Finished, Replay, Replayed, Response,
    Webhook, batch_end,
};

use super::audit::note;
use super::feed::LOCK;
use super::{DbError, Row, Statement, Tx, decoded, sql};
use crate::lists;
use crate::rows::{self, Columns as _, name_of};

/// The maximum number of events of which deliveries are made at a time.
const EVENTS: i64 = 1000;

/// The number of webhooks whose deliveries are claimed in one round trip.
const WEBHOOKS_AT_ONCE: usize = 32;

/// The condition that a webhook has selected an event of its project.
macro_rules! is_selected {
    () => {
        "(json_array_length(webhooks.settings::json -> 'kinds') = 0
          OR feed.type IN (SELECT json_array_elements_text(webhooks.settings::json -> 'kinds')))"
    };
}

/// Returns the statement that takes the locks of webhooks, in the order of their IDs. A transaction takes them before those
/// of deliveries, so that transactions cannot wait for each other in a circle.
pub(super) fn lock(webhooks: Vec<String>) -> Statement {
    sql!("SELECT 1 FROM webhooks WHERE id = ANY (($1)) ORDER BY id FOR NO KEY UPDATE", webhooks)
}

/// Returns the statement that selects a row if there are events of which deliveries must be made.
pub(super) fn behind() -> Statement {
    sql!(
        "SELECT 1 FROM feed_position WHERE made < last
         AND EXISTS (SELECT 1 FROM webhooks WHERE disabled IS NULL AND cursor < feed_position.last)"
    )
}

/// Makes deliveries of the next events under the lock of the feed, at most `limit` if there is more than one event. Returns
/// the number of events.
pub(super) async fn make(tx: &mut (dyn Tx + '_), now: Timestamp, limit: usize) -> Result<usize, DbError> {
    tx.execute(sql!(sqlite: "", postgres: LOCK)).await?;
    let events = sql!(
        "WITH events AS MATERIALIZED (
             SELECT position, project FROM feed
             WHERE position > (
                 SELECT greatest(made, (SELECT min(cursor) FROM webhooks WHERE disabled IS NULL)) FROM feed_position
             )
             ORDER BY position LIMIT $1
         ), readers AS (
             SELECT project, count(*) AS webhooks FROM webhooks
             WHERE disabled IS NULL AND project IN (SELECT project FROM events) GROUP BY project
         )
         SELECT position, coalesce(webhooks, 0) AS webhooks FROM events LEFT JOIN readers USING (project)
         ORDER BY position",
        EVENTS,
    );
    let found = tx.query(events).await?;
    let mut events: Vec<(u64, usize)> = Vec::new();
    for row in found {
        let webhooks = row.number("webhooks")?.and_then(|count| usize::try_from(count).ok());
        events.push((number(&row, "position")?, webhooks.unwrap_or_default()));
    }
    let Some((first, end)) = events.first().map(|(first, _)| *first).zip(batch_end(events.iter().copied(), limit))
    else {
        tx.execute(sql!("UPDATE feed_position SET made = last")).await?;
        return Ok(0);
    };
    let deliveries = sql!(
        concat!(
            "INSERT INTO deliveries (webhook, position, type, job, state, created_at, due_at)
             SELECT webhooks.id, feed.position, feed.type, feed.job, 'pending', $3::bigint, $3::bigint
             FROM feed JOIN webhooks ON webhooks.project = feed.project
             WHERE feed.position BETWEEN $1 AND $2 AND webhooks.disabled IS NULL AND webhooks.cursor < feed.position
               AND ",
            is_selected!(),
            " ORDER BY feed.position, webhooks.id
             ON CONFLICT DO NOTHING"
        ),
        first,
        end,
        now,
    );
    tx.execute(deliveries).await?;
    tx.execute(sql!("UPDATE feed_position SET made = $1", end)).await?;
    Ok(events.iter().filter(|(position, _)| *position <= end).count())
}

/// Returns the statement that selects a row if deliveries are due.
pub(super) fn any_due(now: Timestamp) -> Statement {
    sql!(
        "SELECT 1 FROM webhooks
         WHERE disabled IS NULL
           AND EXISTS (SELECT 1 FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND due_at <= $1)
         LIMIT 1",
        now,
    )
}

/// Returns the statement that selects the enabled webhooks with deliveries that are due, and the number of deliveries that
/// are under way.
fn open(now: Timestamp) -> Statement {
    sql!(
        "SELECT webhooks.*, (
             SELECT count(*) FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND leased_until > $1
         ) AS leased
         FROM webhooks
         WHERE disabled IS NULL
           AND EXISTS (SELECT 1 FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND due_at <= $1)
         ORDER BY leased, id",
        now,
    )
}

/// Returns the statement that selects and locks the deliveries of a webhook that may be attempted, in the order of the
/// index: a webhook whose endpoint fails may have many that are due, of which one is needed.
fn due(webhook: &Webhook, now: Timestamp, limit: usize) -> Statement {
    sql!(
        "SELECT number, position FROM deliveries AS one /*sqlite INDEXED BY deliveries_pending */
         WHERE webhook = $1 AND state = 'pending' AND due_at <= $2 AND (leased_until IS NULL OR leased_until <= $2)
           AND NOT EXISTS (
               SELECT 1 FROM deliveries AS earlier
               WHERE earlier.webhook = one.webhook AND earlier.job = one.job AND earlier.state = 'pending'
                 AND earlier.position < one.position
           )
         ORDER BY position LIMIT $3 FOR UPDATE SKIP LOCKED",
        webhook.id.to_string(),
        now,
        limit,
    )
}

/// Claims deliveries. Two processes that claim at the same time may send more requests to an endpoint than [`CONCURRENT`],
/// but they never take the same delivery, or two about one job.
pub(super) async fn claim(tx: &mut (dyn Tx + '_), query: Claim) -> Result<Vec<ClaimedDelivery>, DbError> {
    let mut webhooks: Vec<(Webhook, usize)> = Vec::new();
    for row in tx.query(open(query.now)).await? {
        let webhook = rows::webhook(&row)?;
        let most = if webhook.failing_since.is_some() { 1 } else { CONCURRENT };
        let leased = row.number("leased")?.and_then(|count| usize::try_from(count).ok());
        let free = most.saturating_sub(leased.unwrap_or(most));
        if free > 0 {
            webhooks.push((webhook, free));
        }
    }
    let mut claimed = Vec::new();
    for some in webhooks.chunks(WEBHOOKS_AT_ONCE) {
        let wanted = query.limit.saturating_sub(claimed.len());
        if wanted == 0 {
            break;
        }
        claimed.extend(claim_of(tx, some, query.now, wanted).await?);
    }
    Ok(claimed)
}

/// Claims deliveries of webhooks, each with the number of further requests to its endpoint.
async fn claim_of(
    tx: &mut (dyn Tx + '_),
    webhooks: &[(Webhook, usize)],
    now: Timestamp,
    limit: usize,
) -> Result<Vec<ClaimedDelivery>, DbError> {
    let due = webhooks.iter().map(|(webhook, free)| due(webhook, now, limit.min(*free))).collect();
    let (mut found, mut positions) = (Vec::new(), Vec::new());
    for ((webhook, _), rows) in webhooks.iter().zip(tx.query_all(due).await?) {
        for row in rows {
            found.push((number(&row, "number")?, webhook));
            positions.push(number(&row, "position")?);
        }
    }
    found.truncate(limit);
    positions.truncate(limit);
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    let take = sql!(
        "UPDATE deliveries SET leased_until = $2, again = 0, claims = claims + 1 WHERE number = ANY (($1)) RETURNING *",
        numbers.as_slice(),
        now + DELIVERY_LEASE,
    );
    let events = sql!("SELECT * FROM feed WHERE position = ANY (($1))", positions.as_slice());
    let [taken, events] = tx.all([take, events]).await?;
    let taken: Vec<(Delivery, u64)> = decoded(&taken, rows::claimed)?;
    let mut taken: HashMap<u64, (Delivery, u64)> = taken.into_iter().map(|one| (one.0.number, one)).collect();
    let events: Vec<FeedEntry> = decoded(&events, rows::feed_entry)?;
    let events: HashMap<u64, FeedEntry> = events.into_iter().map(|event| (event.position, event)).collect();
    let (mut claimed, mut removed) = (Vec::new(), Vec::new());
    for (number, webhook) in found {
        let Some((delivery, claim)) = taken.remove(&number) else { continue };
        let Some(event) = events.get(&delivery.position).cloned() else {
            removed.push(number);
            continue;
        };
        let attempt = delivery.attempts + 1;
        claimed.push(ClaimedDelivery { number, claim, attempt, webhook: webhook.clone(), event });
    }
    if !removed.is_empty() {
        tx.execute(event_is_removed(&removed, now)).await?;
    }
    Ok(claimed)
}

fn event_is_removed(deliveries: &[u64], now: Timestamp) -> Statement {
    sql!(
        "UPDATE deliveries
         SET state = 'failed', due_at = NULL, leased_until = NULL, attempted_at = $3, duration = 0, status = NULL,
             detail = $2
         WHERE number = ANY (($1)) AND state = 'pending'",
        deliveries,
        EVENT_REMOVED,
        now,
    )
}

/// Stores the results of attempts, and disables the webhooks that they are the reason for.
pub(super) async fn finish(tx: &mut (dyn Tx + '_), finished: &[Finished]) -> Result<(), DbError> {
    tx.execute(lock(finished.iter().map(|one| one.webhook.to_string()).collect())).await?;
    let stored = tx.query_all(finished.iter().map(store_result).collect()).await?;
    let stored = changed(finished.iter().collect(), &stored);
    let settle = stored.iter().map(|one| settle(one)).collect::<Result<Vec<Statement>, StoreError>>()?;
    let settled = tx.query_all(settle).await?;
    for one in changed(stored, &settled) {
        if one.disables.is_some() {
            tx.execute(note(&lists::disabled_entry(one))).await?;
        }
    }
    Ok(())
}

/// Returns those whose statements have returned rows.
fn changed<'a>(finished: Vec<&'a Finished>, answers: &[Vec<Row>]) -> Vec<&'a Finished> {
    finished.into_iter().zip(answers).filter(|(_, rows)| !rows.is_empty()).map(|(one, _)| one).collect()
}

/// Returns the statement that stores the result of an attempt, unless another process has claimed the delivery meanwhile.
fn store_result(one: &Finished) -> Statement {
    let (status, detail) = match &one.result.response {
        Response::Status(status, text) => (Some(u32::from(*status)), text),
        Response::Failed(text) => (None, text),
    };
    sql!(
        "UPDATE deliveries
         SET state = CASE again WHEN 0 THEN $3::text ELSE 'pending' END,
             due_at = CASE again WHEN 0 THEN $4::bigint ELSE $5::bigint END,
             attempts = CASE again WHEN 0 THEN attempts + 1 ELSE 0 END, again = 0, leased_until = NULL,
             attempted_at = $5, duration = $6, status = $7, detail = $8
         WHERE number = $1 AND claims = $2 AND state = 'pending' AND webhook = $9
         RETURNING 1",
        one.number,
        one.claim,
        one.state.name(),
        one.due_at,
        one.result.at,
        i64::try_from(one.result.duration.as_micros()).unwrap_or(i64::MAX),
        status,
        detail,
        one.webhook.to_string(),
    )
}

/// Returns the statement that stores since when a webhook fails, and whether it is disabled.
fn settle(one: &Finished) -> Result<Statement, StoreError> {
    Ok(sql!(
        "UPDATE webhooks
         SET failing_since = CASE WHEN $2::bigint IS NULL THEN NULL ELSE coalesce(failing_since, $2) END,
             disabled = coalesce(disabled, $3)
         WHERE id = $1 AND (failing_since IS DISTINCT FROM $2 OR ($3::text IS NOT NULL AND disabled IS NULL))
         RETURNING 1",
        one.webhook.to_string(),
        one.failing_since,
        one.disables.as_ref().map(name_of).transpose()?,
    ))
}

/// Makes deliveries of earlier events of a webhook again.
pub(super) async fn replay(tx: &mut (dyn Tx + '_), request: Replay) -> Result<Replayed, DbError> {
    let Replay { webhook, since, after, limit, now } = request;
    let id = webhook.to_string();
    tx.execute(lock(vec![id.clone()])).await?;
    let events = sql!(
        "SELECT count(*) AS events, max(position) AS reached FROM (
             SELECT position FROM feed /*sqlite INDEXED BY feed_of_project */
             WHERE project = (SELECT project FROM webhooks WHERE id = $1) AND position > $2 AND at >= $3
             ORDER BY position LIMIT $4
         ) AS events",
        &id,
        after,
        since,
        limit,
    );
    let found = |row: &Row| Ok((row.number("events")?, row.number("reached")?));
    let Some((events, Some(reached))) = tx.one(events, found).await? else { return Ok(Replayed::default()) };
    let deliveries = sql!(
        concat!(
            "INSERT INTO deliveries (webhook, position, type, job, state, created_at, due_at)
             SELECT webhooks.id, feed.position, feed.type, feed.job, 'pending', $5::bigint, $5::bigint
             FROM webhooks CROSS JOIN feed /*sqlite INDEXED BY feed_of_project */
             WHERE webhooks.id = $1 AND feed.project = (SELECT project FROM webhooks WHERE id = $1)
               AND feed.position > $2 AND feed.position <= $4 AND feed.at >= $3
               AND (",
            is_selected!(),
            " OR EXISTS (SELECT 1 FROM deliveries AS own WHERE own.webhook = $1 AND own.position = feed.position))
             ORDER BY feed.position
             ON CONFLICT (webhook, position) DO UPDATE
             SET state = 'pending', attempts = 0, due_at = excluded.due_at,
                 again = CASE WHEN deliveries.leased_until > excluded.due_at THEN 1 ELSE 0 END
             RETURNING 1"
        ),
        id,
        after,
        since,
        reached,
        now,
    );
    let made = tx.query(deliveries).await?.len() as u64;
    let may_have_more = events.and_then(|count| usize::try_from(count).ok()).is_some_and(|count| count == limit);
    Ok(lists::replayed(made, Some(reached), may_have_more))
}

/// Returns a number that is not negative.
fn number(row: &Row, column: &str) -> Result<u64, StoreError> {
    Ok(row.number(column)?.and_then(|number| u64::try_from(number).ok()).unwrap_or_default())
}
