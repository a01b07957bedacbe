//! Webhooks and their deliveries.

use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::ids::{ProjectId, WebhookId};
use journeyman_core::ports::{DeliveryBacklog, DeliveryFilter, StoreError, WebhookStore};
use journeyman_core::resource::{Key, Put};
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::{
    Claim, ClaimedDelivery, Delivery, Finished, Replay, Replayed, SecretChange, Webhook, WebhookSecrets,
};

use super::admin::Sealing;
use super::feed::{ASSIGN, LOCK};
use super::resource::{ResourceTable, statements};
use super::{Database, Row, SqlStore, Statement, decoded, deliveries, sql};
use crate::rows::{self, Columns as _, name_of, to_json};
use crate::vault;

#[async_trait]
impl<B: Database> WebhookStore for SqlStore<B> {
    async fn webhooks_after(
        &self,
        project: ProjectId,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, StoreError> {
        let query = sql!(
            "SELECT * FROM webhooks
             WHERE project = $1 AND ($2 = '' OR
                 (created_at, id) > (SELECT created_at, id FROM webhooks WHERE id = $2 AND project = $1))
             ORDER BY created_at, id LIMIT $3",
            project.as_str(),
            after.map(|id| id.to_string()).unwrap_or_default(),
            limit,
        );
        self.all(query, rows::webhook).await
    }

    async fn has_webhooks(&self) -> Result<bool, StoreError> {
        Ok(!self.look_up(sql!("SELECT 1 FROM webhooks WHERE disabled IS NULL LIMIT 1")).await?.is_empty())
    }

    async fn webhook_secrets(&self, id: WebhookId) -> Result<Option<WebhookSecrets>, StoreError> {
        let query = sql!(
            "SELECT name, value, old_secret_until FROM webhook_secrets JOIN webhooks ON id = webhook WHERE id = $1",
            id.to_string(),
        );
        let found = self.look_up(query).await?;
        let until = found.first().map(|row: &Row| row.number("old_secret_until")).transpose()?.flatten();
        let sealed = decoded(&found, rows::secret)?;
        vault::open_webhook(&self.master_keys, id, sealed, until.map(Timestamp::from_micros))
    }

    async fn make_deliveries(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.assign_positions().await?;
        // Most of the time no webhook is behind. A read shows this without a transaction.
        if self.look_up(deliveries::behind()).await?.is_empty() {
            return Ok(0);
        }
        self.transact(move |tx| Box::pin(deliveries::make(tx, now, limit))).await
    }

    async fn claim_deliveries(&self, query: Claim) -> Result<Vec<ClaimedDelivery>, StoreError> {
        if self.look_up(deliveries::any_due(query.now)).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.transact(move |tx| Box::pin(deliveries::claim(tx, query))).await
    }

    async fn finish_deliveries(&self, finished: Vec<Finished>) -> Result<(), StoreError> {
        if finished.is_empty() {
            return Ok(());
        }
        let finished = Arc::new(finished);
        let stored = self.transact(move |tx| {
            let finished = Arc::clone(&finished);
            Box::pin(async move { deliveries::finish(tx, &finished).await })
        });
        stored.await
    }

    async fn deliveries(&self, filter: DeliveryFilter) -> Result<Vec<Delivery>, StoreError> {
        let DeliveryFilter { webhook, state, before, limit } = filter;
        let query = sql!(
            "SELECT * FROM deliveries WHERE webhook = $1 AND number < $2 AND $3 IN ('', state)
             ORDER BY number DESC LIMIT $4",
            webhook.to_string(),
            before.unwrap_or(u64::MAX),
            state.map_or("", |state| state.name()),
            limit,
        );
        self.all(query, rows::delivery).await
    }

    async fn redeliver(&self, webhook: WebhookId, of: u64, now: Timestamp) -> Result<bool, StoreError> {
        let redeliver = sql!(
            "UPDATE deliveries
             SET state = 'pending', attempts = 0, due_at = $3, again = CASE WHEN leased_until > $3 THEN 1 ELSE 0 END
             WHERE webhook = $1 AND number = $2
               AND EXISTS (SELECT 1 FROM feed WHERE feed.position = deliveries.position)
             RETURNING 1",
            webhook.to_string(),
            of,
            now,
        );
        Ok(!self.run(vec![deliveries::lock(vec![webhook.to_string()]), redeliver]).await?.is_empty())
    }

    async fn replay(&self, request: Replay) -> Result<Replayed, StoreError> {
        self.transact(move |tx| Box::pin(deliveries::replay(tx, request))).await
    }

    async fn delivery_backlog(&self) -> Result<DeliveryBacklog, StoreError> {
        let count = sql!(
            "SELECT count(*) AS pending, min(due_at) AS oldest,
                 (SELECT count(*) FROM webhooks WHERE disabled IS NULL AND failing_since IS NOT NULL) AS failing
             FROM deliveries
             WHERE state = 'pending' AND webhook IN (SELECT id FROM webhooks WHERE disabled IS NULL)"
        );
        Ok(self.all(count, rows::delivery_backlog).await?.pop().unwrap_or_default())
    }
}

#[async_trait]
impl ResourceTable for Webhook {
    statements!("webhooks", of a project, by "created_at, id");

    /// A webhook may have many deliveries.
    const HAS_MANY_ROWS: bool = true;

    fn read(row: &Row) -> Result<Self, StoreError> {
        rows::webhook(row)
    }

    /// A webhook that is new, or was disabled, begins at the end of the feed.
    fn put(Put { resource: webhook, secrets }: &Put<Self>, sealing: Sealing<'_>) -> Result<Vec<Statement>, StoreError> {
        let store = sql!(
            "INSERT INTO webhooks (id, project, settings, disabled, failing_since, created_at, old_secret_until,
                                   version, cursor)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, coalesce((SELECT last FROM feed_position), 0))
             ON CONFLICT (id) DO UPDATE
             SET settings = excluded.settings, disabled = excluded.disabled, failing_since = excluded.failing_since,
                 old_secret_until = excluded.old_secret_until, version = excluded.version,
                 cursor = CASE WHEN webhooks.disabled IS NOT NULL AND excluded.disabled IS NULL THEN excluded.cursor
                               ELSE webhooks.cursor END",
            webhook.id.to_string(),
            webhook.project.as_str(),
            to_json(&webhook.settings)?,
            webhook.disabled.as_ref().map(name_of).transpose()?,
            webhook.failing_since,
            webhook.created_at,
            webhook.old_secret_until,
            webhook.version,
        );
        // Events that were stored before the webhook must have positions before its cursor.
        let mut statements = vec![sql!(sqlite: "", postgres: LOCK), sql!(sqlite: "", postgres: ASSIGN), store];
        let secret = match secrets {
            SecretChange::Keep => return Ok(statements),
            SecretChange::New(secret) => secret,
            SecretChange::Rotate(secret) => {
                statements.push(keep_secret(webhook.id));
                secret
            }
        };
        let sealed = vault::seal_webhook(sealing.keys, sealing.ids, webhook.id, secret)?;
        statements.push(put_secret(webhook.id, sealed));
        Ok(statements)
    }

    fn remove(key: &Key<Self>) -> Vec<Statement> {
        key.project.as_ref().map(|project| remove(Some(key.id), project)).unwrap_or_default()
    }
}

/// Returns the statement that stores the current secret of a webhook.
fn put_secret(id: WebhookId, value: Vec<u8>) -> Statement {
    sql!(
        "INSERT INTO webhook_secrets (webhook, name, value) VALUES ($1, 'current', $2)
         ON CONFLICT (webhook, name) DO UPDATE SET value = excluded.value",
        id.to_string(),
        value,
    )
}

/// Returns the statement that keeps the current secret of a webhook as the old one.
fn keep_secret(id: WebhookId) -> Statement {
    sql!(
        "INSERT INTO webhook_secrets (webhook, name, value)
         SELECT webhook, 'old', value FROM webhook_secrets WHERE webhook = $1 AND name = 'current'
         ON CONFLICT (webhook, name) DO UPDATE SET value = excluded.value",
        id.to_string(),
    )
}

/// Returns the statements that delete webhooks with their secrets and deliveries: one, or all of a project.
pub(crate) fn remove(id: Option<WebhookId>, project: &ProjectId) -> Vec<Statement> {
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    let deliveries = || {
        sql!(
            "DELETE FROM deliveries WHERE webhook IN (SELECT id FROM webhooks WHERE project = $2 AND $1 IN ('', id))",
            &id,
            project.as_str(),
        )
    };
    let webhooks = sql!(
        sqlite: "",
        postgres: "SELECT 1 FROM webhooks WHERE project = $2 AND $1 IN ('', id) ORDER BY id FOR UPDATE";
        &id,
        project.as_str(),
    );
    // The database deletes the secrets with the webhook.
    let delete = sql!("DELETE FROM webhooks WHERE project = $2 AND $1 IN ('', id)", &id, project.as_str());
    // Deliveries are made under the lock of the feed, which is taken only for the few that were made meanwhile.
    vec![webhooks, deliveries(), sql!(sqlite: "", postgres: LOCK), deliveries(), delete]
}
