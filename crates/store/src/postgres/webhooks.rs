//! The statements of webhooks that need locks of the feed, and the work on deliveries.

use std::collections::HashMap;

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::feed::FeedEntry;
use journeyman_core::ids::WebhookId;
use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{
    CONCURRENT, Claim, ClaimedDelivery, DELIVERY_LEASE, Delivery, EVENT_REMOVED, Finished, Replay, Replayed, Response,
    Webhook,
};

use super::Postgres;
use super::error::PgError;
use super::pipeline::{Query, call};
use crate::lists;
use crate::rows::{self, name_of};
use crate::sql::Database as _;
use crate::sql::feed::LOCK;
use crate::sql::webhooks::{self, Deliveries, EVENTS};

/// Makes deliveries of the next events, under the lock of the feed. `$1` is the time, `$2` the maximum number of
/// deliveries, if there is more than one event, `$3` the maximum number of events.
const MAKE: &str = "
    WITH events AS MATERIALIZED (
        SELECT position, project, type, job FROM feed
        WHERE position > (
            SELECT GREATEST(made, (SELECT min(cursor) FROM webhooks WHERE disabled IS NULL)) FROM feed_position
        )
        ORDER BY position LIMIT $3
    ), readers AS (
        SELECT project, count(*) AS webhooks FROM webhooks
        WHERE disabled IS NULL AND project IN (SELECT project FROM events) GROUP BY project
    ), counted AS (
        SELECT events.*, row_number() OVER in_order AS place,
            sum(coalesce(readers.webhooks, 0)) OVER in_order AS deliveries
        FROM events LEFT JOIN readers USING (project) WINDOW in_order AS (ORDER BY position)
    ), batch AS (
        SELECT * FROM counted WHERE place = 1 OR deliveries <= $2::bigint
    ), inserted AS (
        INSERT INTO deliveries (webhook, position, type, job, state, created_at, due_at)
        SELECT webhooks.id, batch.position, batch.type, batch.job, 'pending', $1::bigint, $1::bigint
        FROM batch JOIN webhooks ON webhooks.project = batch.project
        WHERE webhooks.disabled IS NULL AND webhooks.cursor < batch.position
          AND (json_array_length(webhooks.settings::json -> 'kinds') = 0
               OR (webhooks.settings::jsonb -> 'kinds') ? batch.type)
        ORDER BY batch.position, webhooks.id
        ON CONFLICT DO NOTHING
    )
    UPDATE feed_position SET made = coalesce((SELECT max(position) FROM batch), last)
    RETURNING (SELECT count(*) FROM batch) AS events";

/// Claims deliveries. `$1` is the time, `$2` the end of the lease, `$3` the number of requests to one endpoint at a time,
/// `$4` the maximum number of deliveries. Two processes that claim at the same time may exceed `$3`, but they never take
/// the same delivery, or two about one job.
const CLAIM: &str = "
    WITH open AS (
        SELECT id, CASE WHEN failing_since IS NULL THEN $3::bigint ELSE 1 END - (
            SELECT count(*) FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND leased_until > $1
        ) AS free
        FROM webhooks
        WHERE disabled IS NULL
          AND EXISTS (SELECT 1 FROM deliveries WHERE webhook = webhooks.id AND state = 'pending' AND due_at <= $1)
    ), picked AS (
        SELECT due.number FROM open CROSS JOIN LATERAL (
            SELECT number FROM deliveries AS one
            WHERE webhook = open.id AND state = 'pending' AND due_at <= $1
              AND (leased_until IS NULL OR leased_until <= $1)
              AND NOT EXISTS (
                  SELECT 1 FROM deliveries AS earlier
                  WHERE earlier.webhook = one.webhook AND earlier.job = one.job AND earlier.state = 'pending'
                    AND earlier.position < one.position
              )
            ORDER BY position LIMIT GREATEST(open.free, 0)
        ) AS due ORDER BY open.free DESC LIMIT $4
    ), locked AS (
        SELECT deliveries.number FROM deliveries JOIN picked ON picked.number = deliveries.number
        WHERE state = 'pending' AND due_at <= $1 AND (leased_until IS NULL OR leased_until <= $1)
        FOR UPDATE OF deliveries SKIP LOCKED
    )
    UPDATE deliveries SET leased_until = $2, again = 0, claims = claims + 1
    FROM locked WHERE deliveries.number = locked.number
    RETURNING deliveries.*";

const DUE: &str = "SELECT 1 FROM deliveries
    WHERE state = 'pending' AND due_at <= $1 AND webhook IN (SELECT id FROM webhooks WHERE disabled IS NULL) LIMIT 1";

const EVENT_IS_REMOVED: &str = "UPDATE deliveries
    SET state = 'failed', due_at = NULL, leased_until = NULL, attempted_at = $3, duration = 0,
        status = NULL, detail = $2
    WHERE number = ANY ($1) AND state = 'pending'";

/// Returns the statements that store the result of an attempt.
fn finish(one: &Finished) -> Result<Query, StoreError> {
    let (status, detail) = match &one.result.response {
        Response::Status(status, text) => (Some(i64::from(*status)), text),
        Response::Failed(text) => (None, text),
    };
    let AuditEntry { at, actor, action, subject, .. } = lists::disabled_entry(one);
    Ok(call!(
        "WITH done AS (
             UPDATE deliveries
             SET state = CASE again WHEN 0 THEN $3::text ELSE 'pending' END,
                 due_at = CASE again WHEN 0 THEN $4::bigint ELSE $5::bigint END,
                 attempts = CASE again WHEN 0 THEN attempts + 1 ELSE 0 END, again = 0, leased_until = NULL,
                 attempted_at = $5, duration = $6, status = $7, detail = $8
             WHERE number = $1 AND claims = $2 AND state = 'pending' AND webhook = $14 RETURNING webhook
         ), changed AS (
             UPDATE webhooks
             SET failing_since = CASE WHEN $9::bigint IS NULL THEN NULL ELSE coalesce(failing_since, $9) END,
                 disabled = coalesce(disabled, $10)
             FROM done
             WHERE webhooks.id = done.webhook
               AND (failing_since IS DISTINCT FROM $9 OR ($10::text IS NOT NULL AND disabled IS NULL))
             RETURNING webhooks.id
         )
         INSERT INTO audit (at, actor, action, subject)
         SELECT $11::bigint, $12::text, $13::text, $14::text FROM changed WHERE $10::text IS NOT NULL",
        number(one.number),
        number(one.claim),
        one.state.name(),
        one.due_at.map(Timestamp::as_micros),
        one.result.at.as_micros(),
        i64::try_from(one.result.duration.as_micros()).unwrap_or(i64::MAX),
        status,
        detail.clone(),
        one.failing_since.map(Timestamp::as_micros),
        one.disables.as_ref().map(name_of).transpose()?,
        at.as_micros(),
        actor,
        action,
        subject,
    ))
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[async_trait]
impl Deliveries for Postgres {
    async fn make(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.assign_all_positions().await?;
        if self.look_up(webhooks::behind()).await?.is_empty() {
            return Ok(0);
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let made = self.write(vec![call!(LOCK), call!(MAKE, now.as_micros(), limit, EVENTS)]).await?;
        let events = made.last().and_then(|rows| rows.first()).map(|row| row.try_get::<_, i64>("events")).transpose();
        Ok(usize::try_from(events.map_err(PgError::from)?.unwrap_or(0)).unwrap_or(0))
    }

    async fn take(&self, Claim { now, limit }: Claim) -> Result<Vec<ClaimedDelivery>, StoreError> {
        if self.read(call!(DUE, now.as_micros())).await?.is_empty() {
            return Ok(Vec::new());
        }
        let (most, limit) = (i64::try_from(CONCURRENT).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let until = (now + DELIVERY_LEASE).as_micros();
        let found = self.write(vec![call!(CLAIM, now.as_micros(), until, most, limit)]).await?;
        let taken: Result<Vec<(Delivery, u64)>, PgError> = found.iter().flatten().map(rows::claimed).collect();
        let mut taken = taken?;
        taken.sort_unstable_by_key(|(delivery, _)| (delivery.webhook, delivery.position));
        let webhooks: Vec<String> = taken.iter().map(|(delivery, _)| delivery.webhook.to_string()).collect();
        let positions: Vec<i64> = taken.iter().map(|(delivery, _)| number(delivery.position)).collect();
        let found = self
            .read_all(&[
                call!("SELECT * FROM webhooks WHERE id = ANY ($1)", webhooks),
                call!("SELECT * FROM feed WHERE position = ANY ($1)", positions),
            ])
            .await?;
        let webhooks: Result<Vec<Webhook>, PgError> = found.first().into_iter().flatten().map(rows::webhook).collect();
        let webhooks: HashMap<WebhookId, Webhook> = webhooks?.into_iter().map(|one| (one.id, one)).collect();
        let events: Result<Vec<FeedEntry>, PgError> =
            found.get(1).into_iter().flatten().map(rows::feed_entry).collect();
        let events: HashMap<u64, FeedEntry> = events?.into_iter().map(|one| (one.position, one)).collect();
        let (mut claimed, mut removed) = (Vec::new(), Vec::new());
        for (delivery, claim) in taken {
            let Some(event) = events.get(&delivery.position).cloned() else {
                removed.push(number(delivery.number));
                continue;
            };
            // A webhook that was removed since has no deliveries.
            let Some(webhook) = webhooks.get(&delivery.webhook).cloned() else { continue };
            let (number, attempt) = (delivery.number, delivery.attempts + 1);
            claimed.push(ClaimedDelivery { number, claim, attempt, webhook, event });
        }
        if !removed.is_empty() {
            self.write(vec![call!(EVENT_IS_REMOVED, removed, EVENT_REMOVED, now.as_micros())]).await?;
        }
        Ok(claimed)
    }

    async fn finish(&self, finished: Vec<Finished>) -> Result<(), StoreError> {
        let lock = webhooks::lock(finished.iter().map(|one| one.webhook.to_string()).collect());
        let calls = finished.iter().map(finish).collect::<Result<Vec<Query>, StoreError>>()?;
        self.write(std::iter::once(lock.into()).chain(calls).collect()).await?;
        Ok(())
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError> {
        let Replay { webhook, since, after, limit, now } = replay;
        let text = "
            WITH own AS (
                SELECT id, project, settings FROM webhooks WHERE id = $1
            ), events AS MATERIALIZED (
                SELECT feed.position, feed.type, feed.job FROM own JOIN feed ON feed.project = own.project
                WHERE feed.position > $2 AND feed.at >= $3 ORDER BY feed.position LIMIT $4
            ), made AS (
                INSERT INTO deliveries (webhook, position, type, job, state, created_at, due_at)
                SELECT own.id, events.position, events.type, events.job, 'pending', $5::bigint, $5::bigint
                FROM own CROSS JOIN events
                WHERE json_array_length(own.settings::json -> 'kinds') = 0
                   OR (own.settings::jsonb -> 'kinds') ? events.type
                   OR EXISTS (SELECT 1 FROM deliveries WHERE webhook = own.id AND position = events.position)
                ORDER BY events.position
                ON CONFLICT (webhook, position) DO UPDATE
                SET state = 'pending', attempts = 0, due_at = excluded.due_at,
                    again = CASE WHEN deliveries.leased_until > excluded.due_at THEN 1 ELSE 0 END
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM made) AS made, (SELECT count(*) FROM events) AS events,
                (SELECT max(position) FROM events) AS reached";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let id = webhook.to_string();
        let lock = webhooks::lock(vec![id.clone()]).into();
        let replay = call!(text, id, number(after), since.as_micros(), limit, now.as_micros());
        let done = self.write(vec![lock, replay]).await?;
        let Some(row) = done.last().and_then(|rows| rows.first()) else { return Ok(Replayed::default()) };
        let replayed = || {
            let (made, events): (i64, i64) = (row.try_get("made")?, row.try_get("events")?);
            let made = u64::try_from(made).unwrap_or(0);
            Ok::<_, tokio_postgres::Error>(lists::replayed(made, row.try_get("reached")?, events == limit))
        };
        Ok(replayed().map_err(PgError::from)?)
    }
}
