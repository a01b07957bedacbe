//! The work on deliveries of webhooks.

use async_trait::async_trait;
use journeyman_core::feed::FeedEntry;
use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{
    CONCURRENT, Claim, ClaimedDelivery, DELIVERY_LEASE, EVENT_REMOVED, Finished, Replay, Replayed, Response, batch_end,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use super::error::{OpError, ReadError};
use super::rows::collect;
use super::tx::execute;
use crate::lists;
use crate::rows::{self, name_of};
use crate::sql::Database as _;
use crate::sql::audit::note;
use crate::sql::webhooks::{Deliveries, EVENTS, behind};

type Op<T> = Result<T, OpError<StoreError>>;

const ANY_DUE: &str = "SELECT 1 FROM webhooks
    WHERE disabled IS NULL
      AND EXISTS (SELECT 1 FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND due_at <= ?1)
    LIMIT 1";

/// Selects the deliveries of a webhook that may be attempted, in the order of the index: a webhook whose endpoint
/// fails may have many that are due, of which one is needed.
const DUE: &str = "SELECT number FROM deliveries AS one INDEXED BY deliveries_pending
    WHERE webhook = ?1 AND state = 'pending' AND due_at <= ?2 AND (leased_until IS NULL OR leased_until <= ?2)
      AND NOT EXISTS (
          SELECT 1 FROM deliveries AS earlier
          WHERE earlier.webhook = one.webhook AND earlier.job = one.job AND earlier.state = 'pending'
            AND earlier.position < one.position
      )
    ORDER BY position LIMIT ?3";

/// Selects the enabled webhooks with deliveries that are due, and the number of deliveries that are under way.
const OPEN: &str = "SELECT webhooks.*, (
        SELECT count(*) FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND leased_until > ?1
    ) AS leased
    FROM webhooks
    WHERE disabled IS NULL
      AND EXISTS (SELECT 1 FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND due_at <= ?1)
    ORDER BY leased, id";

const EVENT_IS_REMOVED: &str = "UPDATE deliveries
    SET state = 'failed', due_at = NULL, leased_until = NULL, attempted_at = ?3, duration = 0, status = NULL, detail = ?2
    WHERE number = ?1";

fn claim(db: &Connection, Claim { now, limit }: Claim) -> Op<Vec<ClaimedDelivery>> {
    let (at, until) = (now.as_micros(), (now + DELIVERY_LEASE).as_micros());
    let mut open = db.prepare_cached(OPEN)?;
    let open = collect(&mut open.query([at])?, |row| Ok((rows::webhook(row)?, row.get::<_, i64>("leased")?)))?;
    let mut claimed = Vec::new();
    for (webhook, leased) in open {
        let most = if webhook.failing_since.is_some() { 1 } else { CONCURRENT };
        let free = most.saturating_sub(usize::try_from(leased).unwrap_or(most)).min(limit - claimed.len());
        if free == 0 {
            continue;
        }
        let mut due = db.prepare_cached(DUE)?;
        let values = params![webhook.id.to_string(), at, i64::try_from(free).unwrap_or(i64::MAX)];
        let numbers: Vec<i64> = due.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for found in numbers {
            let position = db
                .prepare_cached("SELECT position FROM deliveries WHERE number = ?1")?
                .query_row([found], |row| row.get(0))?;
            let Some(event) = event(db, position)? else {
                db.prepare_cached(EVENT_IS_REMOVED)?.execute(params![found, EVENT_REMOVED, at])?;
                continue;
            };
            let take = "UPDATE deliveries SET leased_until = ?2, again = 0, claims = claims + 1
                        WHERE number = ?1 RETURNING claims, attempts + 1";
            let (claim, attempt): (i64, u32) =
                db.prepare_cached(take)?.query_row([found, until], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let [number, claim] = [found, claim].map(|value| u64::try_from(value).unwrap_or_default());
            claimed.push(ClaimedDelivery { number, claim, attempt, webhook: webhook.clone(), event });
        }
    }
    Ok(claimed)
}

fn event(db: &Connection, position: i64) -> Result<Option<FeedEntry>, ReadError> {
    let mut query = db.prepare_cached("SELECT * FROM feed WHERE position = ?1")?;
    let mut found = query.query([position])?;
    found.next()?.map(rows::feed_entry).transpose()
}

/// Makes deliveries of the next events, at most `limit` if there is more than one event.
fn make(db: &Connection, now: Timestamp, limit: usize) -> Op<usize> {
    let mut events = db.prepare_cached(
        "WITH events AS MATERIALIZED (
             SELECT position, project FROM feed
             WHERE position > (
                 SELECT max(made, (SELECT min(cursor) FROM webhooks WHERE disabled IS NULL)) FROM feed_position
             )
             ORDER BY position LIMIT ?1
         ), readers AS (
             SELECT project, count(*) AS webhooks FROM webhooks
             WHERE disabled IS NULL AND project IN (SELECT project FROM events) GROUP BY project
         )
         SELECT position, coalesce(webhooks, 0) FROM events LEFT JOIN readers USING (project) ORDER BY position",
    )?;
    let events: Vec<(i64, i64)> =
        events.query_map([EVENTS], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let events: Vec<(u64, usize)> = events
        .into_iter()
        .map(|(position, webhooks)| {
            (u64::try_from(position).unwrap_or_default(), usize::try_from(webhooks).unwrap_or_default())
        })
        .collect();
    let Some((first, end)) = events.first().map(|(first, _)| *first).zip(batch_end(events.iter().copied(), limit))
    else {
        db.prepare_cached("UPDATE feed_position SET made = last")?.execute([])?;
        return Ok(0);
    };
    db.prepare_cached(
        "INSERT INTO deliveries (webhook, position, type, job, state, created_at, due_at)
         SELECT webhooks.id, feed.position, feed.type, feed.job, 'pending', ?3, ?3
         FROM feed JOIN webhooks ON webhooks.project = feed.project
         WHERE feed.position BETWEEN ?1 AND ?2 AND webhooks.disabled IS NULL AND webhooks.cursor < feed.position
           AND (json_array_length(webhooks.settings, '$.kinds') = 0
                OR feed.type IN (SELECT value FROM json_each(webhooks.settings, '$.kinds')))
         ORDER BY feed.position, webhooks.id
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![number(first), number(end), now.as_micros()])?;
    db.prepare_cached("UPDATE feed_position SET made = ?1")?.execute([number(end)])?;
    Ok(events.iter().filter(|(position, _)| *position <= end).count())
}

fn replay(db: &Connection, Replay { webhook, since, after, limit, now }: Replay) -> Op<Replayed> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut found = db.prepare_cached(
        "WITH events AS (
             SELECT position FROM feed INDEXED BY feed_of_project
             WHERE project = (SELECT project FROM webhooks WHERE id = ?1) AND position > ?2 AND at >= ?3
             ORDER BY position LIMIT ?4
         )
         SELECT count(*), max(position) FROM events",
    )?;
    let (events, reached): (i64, Option<i64>) = found
        .query_row(params![webhook.to_string(), number(after), since.as_micros(), limit], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let made = db
        .prepare_cached(
            "INSERT INTO deliveries (webhook, position, type, job, state, created_at, due_at)
             SELECT webhooks.id, feed.position, feed.type, feed.job, 'pending', ?5, ?5
             FROM webhooks JOIN feed INDEXED BY feed_of_project ON feed.project = webhooks.project
             WHERE webhooks.id = ?1 AND feed.position > ?2 AND feed.position <= ?4 AND feed.at >= ?3
               AND (json_array_length(webhooks.settings, '$.kinds') = 0
                    OR feed.type IN (SELECT value FROM json_each(webhooks.settings, '$.kinds'))
                    OR EXISTS (SELECT 1 FROM deliveries WHERE webhook = ?1 AND position = feed.position))
             ORDER BY feed.position
             ON CONFLICT (webhook, position) DO UPDATE
             SET state = 'pending', attempts = 0, due_at = excluded.due_at,
                 again = iif(leased_until > excluded.due_at, 1, 0)",
        )?
        .execute(params![webhook.to_string(), number(after), since.as_micros(), reached, now.as_micros()])?;
    Ok(lists::replayed(made as u64, reached, events == limit))
}

fn finish(db: &Connection, one: &Finished) -> Op<()> {
    let (status, detail) = match &one.result.response {
        Response::Status(status, text) => (Some(*status), text),
        Response::Failed(text) => (None, text),
    };
    let changed = db
        .prepare_cached(
            "UPDATE deliveries
             SET state = iif(again, 'pending', ?3), due_at = iif(again, ?5, ?4),
                 attempts = iif(again, 0, attempts + 1), again = 0, leased_until = NULL,
                 attempted_at = ?5, duration = ?6, status = ?7, detail = ?8
             WHERE number = ?1 AND claims = ?2 AND state = 'pending' AND webhook = ?9",
        )?
        .execute(params![
            number(one.number),
            number(one.claim),
            one.state.name(),
            one.due_at.map(Timestamp::as_micros),
            one.result.at.as_micros(),
            i64::try_from(one.result.duration.as_micros()).unwrap_or(i64::MAX),
            status,
            detail,
            one.webhook.to_string()
        ])?;
    if changed == 0 {
        return Ok(());
    }
    let disabled = one.disables.as_ref().map(name_of).transpose()?;
    let changed = db
        .prepare_cached(
            "UPDATE webhooks
             SET failing_since = iif(?2 IS NULL, NULL, coalesce(failing_since, ?2)), disabled = coalesce(disabled, ?3)
             WHERE id = ?1 AND (failing_since IS NOT ?2 OR (?3 IS NOT NULL AND disabled IS NULL))
             RETURNING disabled",
        )?
        .query_row(params![one.webhook.to_string(), one.failing_since.map(Timestamp::as_micros), disabled], |_| Ok(()))
        .optional()?;
    if changed.is_some() && one.disables.is_some() {
        execute(db, &note(&lists::disabled_entry(one)))?;
    }
    Ok(())
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[async_trait]
impl Deliveries for Sqlite {
    async fn make(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        // Most of the time no webhook is behind. A read shows this without a transaction of the writer.
        if self.look_up(behind()).await?.is_empty() {
            return Ok(0);
        }
        self.writer.write(move |db| make(db, now, limit)).await
    }

    async fn take(&self, query: Claim) -> Result<Vec<ClaimedDelivery>, StoreError> {
        if !self.readers.find(|db| Ok(db.prepare_cached(ANY_DUE)?.exists([query.now.as_micros()])?))? {
            return Ok(Vec::new());
        }
        self.writer.write(move |db| claim(db, query)).await
    }

    async fn finish(&self, finished: Vec<Finished>) -> Result<(), StoreError> {
        self.writer.write(move |db| finished.iter().try_for_each(|one| finish(db, one))).await
    }

    async fn replay(&self, request: Replay) -> Result<Replayed, StoreError> {
        self.writer.write(move |db| replay(db, request)).await
    }
}
