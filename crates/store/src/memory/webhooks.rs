//! Webhooks and their deliveries.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::feed::FeedEntry;
use journeyman_core::ids::{ProjectId, WebhookId};
use journeyman_core::ports::{DeliveryBacklog, DeliveryFilter, StoreError, WebhookStore};
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{
    AttemptResult, CONCURRENT, Claim, ClaimedDelivery, DELIVERY_LEASE, Delivery, DeliveryState, EVENT_REMOVED,
    Finished, Replay, Replayed, Response, SecretChange, Webhook, WebhookSecret, WebhookSecrets, batch_end,
};

use super::{MemoryStore, Tables};
use crate::lists;

/// A stored webhook.
#[derive(Debug)]
pub(super) struct WebhookRow {
    pub(super) webhook: Webhook,
    pub(super) current: WebhookSecret,
    pub(super) old: Option<WebhookSecret>,
    /// The position in the feed after which events are delivered.
    pub(super) cursor: u64,
}

/// A stored delivery.
#[derive(Debug)]
pub(super) struct DeliveryRow {
    pub(super) delivery: Delivery,
    pub(super) leased_until: Option<Timestamp>,
    /// The fencing token.
    pub(super) claims: u64,
    /// `true` if it was requested again during its attempt.
    pub(super) again: bool,
}

impl Tables {
    pub(super) fn put_webhook(&mut self, webhook: Webhook, change: SecretChange) {
        let end = self.last_position;
        match (self.webhooks.get_mut(&webhook.id), change) {
            (None, SecretChange::New(current) | SecretChange::Rotate(current)) => {
                self.webhooks.insert(webhook.id, WebhookRow { webhook, current, old: None, cursor: end });
            }
            (None, SecretChange::Keep) => {}
            (Some(row), change) => {
                if row.webhook.disabled.is_some() && webhook.disabled.is_none() {
                    row.cursor = end;
                }
                match change {
                    SecretChange::Keep => {}
                    SecretChange::New(secret) => row.current = secret,
                    SecretChange::Rotate(secret) => row.old = Some(std::mem::replace(&mut row.current, secret)),
                }
                row.webhook = webhook;
            }
        }
    }

    pub(super) fn remove_webhooks(&mut self, is_it: impl Fn(&Webhook) -> bool) {
        let removed: Vec<WebhookId> =
            self.webhooks.values().filter(|row| is_it(&row.webhook)).map(|row| row.webhook.id).collect();
        self.webhooks.retain(|id, _| !removed.contains(id));
        self.deliveries.retain(|row| !removed.contains(&row.delivery.webhook));
    }

    /// Makes deliveries of events that a webhook selects; those that exist stay. Returns the number of new ones.
    fn deliver(&mut self, webhook: &Webhook, events: Vec<FeedEntry>, now: Timestamp) -> u64 {
        let mut made = 0;
        for event in events {
            let is_known =
                |row: &DeliveryRow| row.delivery.webhook == webhook.id && row.delivery.position == event.position;
            if !webhook.settings.selects(&event.kind) || self.deliveries.iter().any(is_known) {
                continue;
            }
            self.last_delivery += 1;
            let delivery = Delivery {
                number: self.last_delivery,
                webhook: webhook.id,
                position: event.position,
                kind: event.kind,
                job: event.job,
                state: DeliveryState::Pending,
                attempts: 0,
                created_at: now,
                due_at: Some(now),
                last: None,
            };
            self.deliveries.push(DeliveryRow { delivery, leased_until: None, claims: 0, again: false });
            made += 1;
        }
        made
    }

    /// Returns the deliveries of a webhook that may be claimed, in the order of the feed.
    fn due(&self, webhook: WebhookId, now: Timestamp) -> Vec<u64> {
        let own = || self.deliveries.iter().filter(|row| row.delivery.webhook == webhook);
        let pending = || own().filter(|row| row.delivery.state == DeliveryState::Pending);
        let may = |row: &&DeliveryRow| {
            row.delivery.due_at.is_some_and(|due| due <= now)
                && row.leased_until.is_none_or(|until| until <= now)
                && !pending().any(|earlier| {
                    earlier.delivery.job == row.delivery.job && earlier.delivery.position < row.delivery.position
                })
        };
        let mut due: Vec<_> = pending().filter(may).map(|row| (row.delivery.position, row.delivery.number)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, number)| number).collect()
    }

    fn finish(&mut self, one: Finished) {
        let is_it = |row: &&mut DeliveryRow| {
            let known = &row.delivery;
            known.number == one.number && row.claims == one.claim && known.state == DeliveryState::Pending
        };
        let Some(row) = self.deliveries.iter_mut().find(is_it) else { return };
        row.leased_until = None;
        let again = std::mem::take(&mut row.again);
        row.delivery.attempts = if again { 0 } else { row.delivery.attempts + 1 };
        row.delivery.state = if again { DeliveryState::Pending } else { one.state };
        row.delivery.due_at = if again { Some(one.result.at) } else { one.due_at };
        row.delivery.last = Some(one.result.clone());
        let Some(row) = self.webhooks.get_mut(&one.webhook) else { return };
        let webhook = &mut row.webhook;
        webhook.failing_since = one.failing_since.map(|since| webhook.failing_since.unwrap_or(since));
        if one.disables.is_some() && webhook.disabled.is_none() {
            webhook.disabled = one.disables;
            self.note(lists::disabled_entry(&one));
        }
    }
}

#[async_trait]
impl WebhookStore for MemoryStore {
    async fn webhooks_after(
        &self,
        project: ProjectId,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, StoreError> {
        let tables = self.tables();
        let own = tables.webhooks.values().map(|row| &row.webhook).filter(|webhook| webhook.project == project);
        let mut own: Vec<Webhook> = own.cloned().collect();
        own.sort_by_key(|webhook| (webhook.created_at, webhook.id));
        Ok(lists::after(own, after, |webhook| webhook.id, limit))
    }

    async fn webhook(&self, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
        Ok(self.tables().webhooks.get(&id).map(|row| row.webhook.clone()))
    }

    async fn has_webhooks(&self) -> Result<bool, StoreError> {
        Ok(self.tables().webhooks.values().any(|row| row.webhook.disabled.is_none()))
    }

    async fn webhook_secrets(&self, id: WebhookId) -> Result<Option<WebhookSecrets>, StoreError> {
        let secrets = |row: &WebhookRow| WebhookSecrets {
            current: row.current.clone(),
            old: row.old.clone().zip(row.webhook.old_secret_until),
        };
        Ok(self.tables().webhooks.get(&id).map(secrets))
    }

    async fn make_deliveries(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let enabled = tables.webhooks.values().filter(|row| row.webhook.disabled.is_none());
        let enabled: Vec<(Webhook, u64)> = enabled.map(|row| (row.webhook.clone(), row.cursor)).collect();
        let Some(begin) = enabled.iter().map(|(_, cursor)| tables.made.max(*cursor)).min() else { return Ok(0) };
        let next: Vec<FeedEntry> = tables.feed.iter().filter(|event| event.position > begin).cloned().collect();
        let readers = |event: &FeedEntry| enabled.iter().filter(|(one, _)| one.project == event.project).count();
        let Some(end) = batch_end(next.iter().map(|event| (event.position, readers(event))), limit) else {
            return Ok(0);
        };
        let batch: Vec<FeedEntry> = next.into_iter().filter(|event| event.position <= end).collect();
        for event in &batch {
            for (webhook, cursor) in &enabled {
                if webhook.project == event.project && *cursor < event.position {
                    tables.deliver(webhook, vec![event.clone()], now);
                }
            }
        }
        tables.made = end;
        Ok(batch.len())
    }

    async fn claim_deliveries(&self, Claim { now, limit }: Claim) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let mut tables = self.tables();
        let events = tables.feed.clone();
        let mut claimed = Vec::new();
        let open: Vec<Webhook> =
            tables.webhooks.values().map(|row| row.webhook.clone()).filter(|one| one.disabled.is_none()).collect();
        for webhook in open {
            let is_leased = |row: &&DeliveryRow| {
                row.delivery.webhook == webhook.id
                    && row.delivery.state == DeliveryState::Pending
                    && row.leased_until.is_some_and(|until| until > now)
            };
            let leased = tables.deliveries.iter().filter(is_leased).count();
            let most = if webhook.failing_since.is_some() { 1 } else { CONCURRENT };
            let free = most.saturating_sub(leased).min(limit - claimed.len());
            for number in tables.due(webhook.id, now).into_iter().take(free) {
                let Some(row) = tables.deliveries.iter_mut().find(|row| row.delivery.number == number) else {
                    continue;
                };
                let position = row.delivery.position;
                let Some(event) = events.iter().find(|entry| entry.position == position).cloned() else {
                    row.delivery.state = DeliveryState::Failed;
                    row.delivery.due_at = None;
                    let response = Response::Failed(EVENT_REMOVED.to_owned());
                    row.delivery.last = Some(AttemptResult { at: now, duration: Duration::ZERO, response });
                    continue;
                };
                row.leased_until = Some(now + DELIVERY_LEASE);
                row.claims += 1;
                row.again = false;
                let (claim, attempt) = (row.claims, row.delivery.attempts + 1);
                claimed.push(ClaimedDelivery { number, claim, attempt, webhook: webhook.clone(), event });
            }
        }
        Ok(claimed)
    }

    async fn finish_deliveries(&self, finished: Vec<Finished>) -> Result<(), StoreError> {
        let mut tables = self.tables();
        finished.into_iter().for_each(|one| tables.finish(one));
        Ok(())
    }

    async fn deliveries(&self, filter: DeliveryFilter) -> Result<Vec<Delivery>, StoreError> {
        let tables = self.tables();
        let own = tables.deliveries.iter().rev().map(|row| &row.delivery).filter(|delivery| {
            delivery.webhook == filter.webhook
                && filter.before.is_none_or(|before| delivery.number < before)
                && filter.state.is_none_or(|state| delivery.state == state)
        });
        Ok(own.take(filter.limit).cloned().collect())
    }

    async fn redeliver(&self, webhook: WebhookId, number: u64, now: Timestamp) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let positions: Vec<u64> = tables.feed.iter().map(|entry| entry.position).collect();
        let is_it = |row: &&mut DeliveryRow| row.delivery.webhook == webhook && row.delivery.number == number;
        let row = tables.deliveries.iter_mut().find(is_it).filter(|row| positions.contains(&row.delivery.position));
        let Some(row) = row else { return Ok(false) };
        again(row, now);
        Ok(true)
    }

    async fn replay(&self, Replay { webhook, since, after, limit, now }: Replay) -> Result<Replayed, StoreError> {
        let mut tables = self.tables();
        let Some(webhook) = tables.webhooks.get(&webhook).map(|row| row.webhook.clone()) else {
            return Ok(Replayed::default());
        };
        let wanted =
            |event: &&FeedEntry| event.project == webhook.project && event.position > after && event.at >= since;
        let events: Vec<FeedEntry> = tables.feed.iter().filter(wanted).take(limit).cloned().collect();
        let next = events.last().map(|event| event.position).filter(|_| events.len() == limit);
        let positions: Vec<u64> = events.iter().map(|event| event.position).collect();
        let known = tables.deliveries.iter_mut();
        let known =
            known.filter(|row| row.delivery.webhook == webhook.id && positions.contains(&row.delivery.position));
        let mut count = 0;
        for row in known {
            again(row, now);
            count += 1;
        }
        Ok(Replayed { deliveries: count + tables.deliver(&webhook, events, now), next })
    }

    async fn delivery_backlog(&self) -> Result<DeliveryBacklog, StoreError> {
        let tables = self.tables();
        let is_enabled = |id: &WebhookId| tables.webhooks.get(id).is_some_and(|row| row.webhook.disabled.is_none());
        let pending = || {
            let pending = tables.deliveries.iter().map(|row| &row.delivery);
            pending.filter(|one| one.state == DeliveryState::Pending && is_enabled(&one.webhook))
        };
        let failing = |row: &&WebhookRow| row.webhook.disabled.is_none() && row.webhook.failing_since.is_some();
        Ok(DeliveryBacklog {
            pending: pending().count() as u64,
            oldest: pending().filter_map(|delivery| delivery.due_at).min(),
            failing: tables.webhooks.values().filter(failing).count() as u64,
        })
    }
}

/// Makes a delivery pending and due again.
fn again(row: &mut DeliveryRow, now: Timestamp) {
    row.again = row.leased_until.is_some_and(|until| until > now);
    row.delivery.state = DeliveryState::Pending;
    row.delivery.attempts = 0;
    row.delivery.due_at = Some(now);
}
