//! Use cases about webhooks, and the loop that delivers events.

mod deliver;

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::decision::{Once, resource};
use journeyman_core::ids::{ProjectId, WebhookId};
use journeyman_core::job::feed::example_event;
use journeyman_core::ports::{AdminError, Administered, DeliveryFilter};
use journeyman_core::resource::{Key, Locked, Put, Resource as _, not_found};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::version::{FIRST_VERSION, Precondition};
use journeyman_core::webhook::{
    AttemptResult, Delivery, Replay, SecretChange, Webhook, WebhookSecret, WebhookSettings,
};

use crate::{Answered, Caller, Error, Idempotency, RefusalKind, UseCases, claim};

pub use deliver::Deliverer;

/// The longest time for which requests are signed with the old secret too.
const LONGEST_OVERLAP: Duration = Duration::from_hours(7 * 24);

/// The maximum number of events that are stored for another delivery in one transaction.
const REPLAY_STEP: usize = 1000;

/// A webhook, and its secret, which is shown once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedWebhook {
    /// The webhook.
    pub webhook: Webhook,
    /// The secret.
    pub secret: WebhookSecret,
}

impl UseCases {
    /// Returns the webhooks of a project after the webhook `after`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// The caller is not an administrator, the project does not exist, or the store failed.
    pub async fn webhooks_after(
        &self,
        caller: &Caller,
        project: &ProjectId,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, Error> {
        self.needs_webhooks(caller, project).await?;
        Ok(self.parts().store.webhooks_after(project.clone(), after, limit).await?)
    }

    /// Returns a webhook.
    ///
    /// # Errors
    /// The caller is not an administrator, the project has no such webhook, or the store failed.
    pub async fn webhook(&self, caller: &Caller, project: &ProjectId, id: WebhookId) -> Result<Webhook, Error> {
        self.needs_webhooks(caller, project).await?;
        let found: Option<Webhook> = self.parts().store.resource(id).await?;
        let found = found.filter(|webhook| webhook.project == *project);
        found.ok_or_else(|| Error::Admin(not_found::<Webhook>()))
    }

    /// Creates a webhook, which receives the events from now on. `answer` renders the answer that is stored, encrypted,
    /// for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, the project does not exist, a setting is not valid, or the store failed.
    pub async fn create_webhook(
        &self,
        caller: &Caller,
        project: &ProjectId,
        settings: WebhookSettings,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&CreatedWebhook) -> String,
    ) -> Result<Answered<CreatedWebhook>, Error> {
        self.may_change_webhooks(caller, project).await?;
        let claim = claim(caller, Some(project.clone()), idempotency);
        let now = self.parts().engine.now();
        let webhook = Webhook {
            id: WebhookId::from_uuid(self.parts().ids.uuid(now)),
            project: project.clone(),
            settings,
            disabled: None,
            failing_since: None,
            created_at: now,
            old_secret_until: None,
            version: FIRST_VERSION,
        };
        let created = CreatedWebhook { webhook, secret: WebhookSecret::random(&*self.parts().ids) };
        let once = claim.map(|claim| Once { claim, answer: answer(&created) });
        let audit = self.audit(caller, "webhook.created", created.webhook.id);
        let secrets = SecretChange::New(created.secret.clone());
        let new = Put { resource: created.webhook.clone(), secrets };
        Ok(self.create_resource(new, once, audit).await?.map(|_| created))
    }

    /// Changes a webhook, and enables or disables it.
    ///
    /// # Errors
    /// The caller is not an administrator, the project has no such webhook, a setting is not valid, or the store failed.
    pub async fn change_webhook(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: WebhookId,
        precondition: Precondition,
        edit: impl Fn(&WebhookSettings) -> WebhookSettings + Send + 'static,
        enable: Option<bool>,
    ) -> Result<Webhook, Error> {
        self.may_change_webhooks(caller, project).await?;
        let audit = self.audit(caller, "webhook.changed", id);
        let edit = move |known: &Webhook| {
            let secrets = SecretChange::Keep;
            Ok(Put { resource: known.edited(edit(&known.settings), enable), secrets })
        };
        self.change_resource(Key::new(id, Some(project.clone())), precondition, edit, audit).await?;
        self.webhook(caller, project, id).await
    }

    /// Gives a webhook a new secret. Requests are signed with the old one too for `overlap`. `answer` renders the answer
    /// that is stored, encrypted, for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, the project has no such webhook, the overlap is too long, or the store failed.
    #[expect(clippy::too_many_arguments, reason = "a request with its project, its condition and its idempotency key")]
    pub async fn rotate_webhook(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: WebhookId,
        overlap: Duration,
        precondition: Precondition,
        idempotency: Option<Idempotency>,
        answer: impl Fn(&CreatedWebhook) -> String,
    ) -> Result<Answered<CreatedWebhook>, Error> {
        self.may_change_webhooks(caller, project).await?;
        if overlap > LONGEST_OVERLAP {
            let text = format!("keepOldSeconds: must be at most {}", LONGEST_OVERLAP.as_secs());
            return Err(Error::invalid(text));
        }
        let claim = claim(caller, Some(project.clone()), idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        loop {
            let webhook = self.webhook(caller, project, id).await?;
            precondition.check(Webhook::KIND, webhook.version).map_err(Error::Admin)?;
            let secret = WebhookSecret::random(&*self.parts().ids);
            let audit = self.audit(caller, "webhook.rotated", id);
            let rotated = CreatedWebhook { webhook: webhook.rotated(overlap, audit.at), secret: secret.clone() };
            let once = claim.clone().map(|claim| Once { claim, answer: answer(&rotated) });
            // The answer shows the webhook as it was read, so the change must be one of this version.
            let read = Precondition::Version(vec![webhook.version]);
            let decide = move |locked: &Locked<Webhook>| {
                let rotate = |known: &Webhook| {
                    let secrets = SecretChange::Rotate(secret.clone());
                    Ok(Put { resource: known.rotated(overlap, audit.at), secrets })
                };
                resource::change(locked, &read, rotate, audit.clone())
            };
            match self.administer(webhook.key(), once, decide).await {
                Ok(Administered::Replayed(answer)) => return Ok(Answered::Replayed(answer)),
                Ok(Administered::Done(_)) => return Ok(Answered::New(rotated)),
                // Another request has changed the webhook meanwhile.
                Err(AdminError::Refused(refusal)) if refusal.is_version_mismatch() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes a webhook with its deliveries. Removing it again changes nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the project never had such a webhook, or the store failed.
    pub async fn remove_webhook(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: WebhookId,
        precondition: Precondition,
    ) -> Result<(), Error> {
        self.may_change_webhooks(caller, project).await?;
        let audit = self.audit(caller, "webhook.removed", id);
        self.remove_resource(Key::<Webhook>::new(id, Some(project.clone())), precondition, audit).await
    }

    /// Sends an example event to the endpoint of a webhook, once, and returns the result. Stores nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the project has no such webhook, or the store failed.
    pub async fn test_webhook(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: WebhookId,
    ) -> Result<AttemptResult, Error> {
        self.may_change_webhooks(caller, project).await?;
        let webhook = self.webhook(caller, project, id).await?;
        let secrets = self.parts().store.webhook_secrets(id).await?;
        let secrets = secrets.ok_or_else(|| Error::Admin(not_found::<Webhook>()))?;
        let now = self.parts().engine.now();
        Ok(self.parts().webhooks.send(&webhook, &secrets, &example_event(project, now), now).await)
    }

    /// Returns deliveries of a webhook, newest first.
    ///
    /// # Errors
    /// The caller is not an administrator, the project has no such webhook, or the store failed.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        project: &ProjectId,
        filter: DeliveryFilter,
    ) -> Result<Vec<Delivery>, Error> {
        self.webhook(caller, project, filter.webhook).await?;
        Ok(self.parts().store.deliveries(filter).await?)
    }

    /// Delivers an event again.
    ///
    /// # Errors
    /// The caller is not an administrator, the webhook is disabled or has no such delivery, its event is no longer stored,
    /// or the store failed.
    pub async fn redeliver(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: WebhookId,
        number: u64,
    ) -> Result<(), Error> {
        self.needs_enabled_webhook(caller, project, id).await?;
        let now = self.parts().engine.now();
        if self.parts().store.redeliver(id, number, now).await? {
            return Ok(());
        }
        let text = "the webhook has no such delivery, or its event is no longer stored";
        Err(Error::refused(RefusalKind::DeliveryNotFound, text))
    }

    /// Delivers all events since a time again that the webhook selects, and returns their number. The events are stored
    /// for delivery in steps, so after an error, some of them may be delivered again.
    ///
    /// # Errors
    /// The caller is not an administrator, the project has no such webhook, it is disabled, or the store failed.
    pub async fn replay_webhook(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: WebhookId,
        since: Timestamp,
    ) -> Result<u64, Error> {
        self.needs_enabled_webhook(caller, project, id).await?;
        let now = self.parts().engine.now();
        let mut replay = Replay { webhook: id, since, after: 0, limit: REPLAY_STEP, now };
        let mut deliveries = 0;
        loop {
            let step = self.parts().store.replay(replay).await?;
            deliveries += step.deliveries;
            let Some(next) = step.next else { return Ok(deliveries) };
            replay.after = next;
        }
    }

    /// Returns the loop that delivers events.
    #[must_use]
    pub fn deliverer(&self, clock: Arc<dyn Clock>) -> Deliverer {
        let parts = self.parts();
        let (store, sender) = (Arc::clone(&parts.store), Arc::clone(&parts.webhooks));
        Deliverer { store, clock, ids: Arc::clone(&parts.ids), sender }
    }

    /// Checks that the caller may see the webhooks of a project: their URLs may contain credentials.
    async fn needs_webhooks(&self, caller: &Caller, project: &ProjectId) -> Result<(), Error> {
        caller.needs_project(project)?;
        caller.needs_administrator()?;
        self.known_project(caller, project).await.map(drop)
    }

    async fn needs_enabled_webhook(&self, caller: &Caller, project: &ProjectId, id: WebhookId) -> Result<(), Error> {
        self.may_change_webhooks(caller, project).await?;
        if self.webhook(caller, project, id).await?.disabled.is_some() {
            let text = "the webhook is disabled; enable it first: it then gets the events from that time on, and earlier \
                        ones can be delivered again";
            return Err(Error::refused(RefusalKind::WebhookDisabled, text));
        }
        Ok(())
    }

    async fn may_change_webhooks(&self, caller: &Caller, project: &ProjectId) -> Result<(), Error> {
        caller.needs_project(project)?;
        caller.needs_administrator()?;
        self.confirm(caller).await
    }
}
