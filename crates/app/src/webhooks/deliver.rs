//! The loop that delivers events to endpoints. Any number of processes may run it at the same time.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::ports::{Store, StoreError, WebhookSender};
use journeyman_core::time::{Clock, IdGen};
use journeyman_core::webhook::{AttemptResult, Claim, ClaimedDelivery, Finished, MAX_WEBHOOKS, Response, finish};
use tokio::task::JoinSet;

/// The maximum number of requests of a process at a time. An endpoint that fails has at most one, and every other one at
/// most [`journeyman_core::webhook::CONCURRENT`], so that slow endpoints do not delay the others.
const REQUESTS: usize = 1000;

/// The maximum number of deliveries that are made in one transaction. One event may need as many.
const DELIVERIES: usize = MAX_WEBHOOKS;

/// The time after which the loop looks for deliveries that are due, without a wake-up.
const PERIOD: Duration = Duration::from_millis(500);

/// The time after which the loop looks for the first webhook.
const IDLE: Duration = Duration::from_secs(1);

/// The time between a change of the feed and the next look, so that many changes do not cause as many looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause after an error of the store.
const RETRY: Duration = Duration::from_secs(1);

/// Delivers events to the endpoints of webhooks.
#[derive(Clone)]
pub struct Deliverer {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The clock of this process.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness, for the delays between attempts.
    pub ids: Arc<dyn IdGen>,
    /// Sends events.
    pub sender: Arc<dyn WebhookSender>,
}

/// The requests of a process.
#[derive(Default)]
struct Requests {
    /// The requests under way.
    sends: JoinSet<Option<Finished>>,
    /// The results of requests that have ended, which were not stored yet.
    finished: Vec<Finished>,
}

impl Requests {
    fn collect(&mut self) {
        while let Some(done) = self.sends.try_join_next() {
            self.finished.extend(done.ok().flatten());
        }
    }
}

impl Deliverer {
    /// Delivers events until the future is dropped. What is under way then is attempted again after its lease.
    pub async fn run(&self) {
        let mut requests = Requests::default();
        loop {
            // An error of the store does not end the requests under way; their results are stored later.
            if let Err(error) = self.step(&mut requests).await {
                tracing::warn!(%error, "webhooks could not be delivered; the next attempt follows soon");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Delivers what is due now, and what becomes due by that, and returns the number of attempts. For tests.
    ///
    /// # Errors
    /// The store failed.
    pub async fn deliver_due(&self) -> Result<usize, StoreError> {
        let (mut requests, mut count) = (Requests::default(), 0);
        loop {
            while self.store.make_deliveries(self.clock.now(), DELIVERIES).await? > 0 {}
            count += self.start_due(&mut requests.sends).await?;
            let Some(done) = requests.sends.join_next().await else { return Ok(count) };
            requests.finished.extend(done.ok().flatten());
            self.save(&mut requests).await?;
        }
    }

    /// Stores results, makes deliveries, and starts those that are due. Returns when there may be more to do.
    async fn step(&self, requests: &mut Requests) -> Result<(), StoreError> {
        let seen = self.store.feed_version();
        requests.collect();
        self.save(requests).await?;
        // Without webhooks, changes of the feed must not cost anything.
        if requests.sends.is_empty() && !self.store.has_webhooks().await? {
            tokio::time::sleep(IDLE).await;
            return Ok(());
        }
        let events = self.store.make_deliveries(self.clock.now(), DELIVERIES).await?;
        self.start_due(&mut requests.sends).await?;
        if events > 0 {
            return Ok(());
        }
        let changed = async {
            self.store.feed_changed(seen).await;
            tokio::time::sleep(PAUSE).await;
        };
        tokio::select! {
            Some(done) = requests.sends.join_next() => requests.finished.extend(done.ok().flatten()),
            () = changed => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
        Ok(())
    }

    async fn save(&self, requests: &mut Requests) -> Result<(), StoreError> {
        if !requests.finished.is_empty() {
            self.store.finish_deliveries(requests.finished.clone()).await?;
            requests.finished.clear();
        }
        Ok(())
    }

    async fn start_due(&self, sends: &mut JoinSet<Option<Finished>>) -> Result<usize, StoreError> {
        let limit = REQUESTS.saturating_sub(sends.len());
        if limit == 0 {
            return Ok(0);
        }
        let claimed = self.store.claim_deliveries(Claim { now: self.clock.now(), limit }).await?;
        let count = claimed.len();
        for delivery in claimed {
            let own = self.clone();
            sends.spawn(async move { own.send(delivery).await });
        }
        Ok(count)
    }

    /// Sends an event. Returns `None` if the store could not be read: this is no failure of the endpoint, and the next
    /// attempt follows after the lease.
    async fn send(&self, delivery: ClaimedDelivery) -> Option<Finished> {
        let now = self.clock.now();
        let failed =
            |text: String| AttemptResult { at: now, duration: Duration::ZERO, response: Response::Failed(text) };
        let result = match self.store.webhook_secrets(delivery.webhook.id).await {
            Ok(Some(secrets)) => self.sender.send(&delivery.webhook, &secrets, &delivery.event, now).await,
            Ok(None) => failed("the webhook has no secret".to_owned()),
            Err(error @ StoreError::Corrupt { .. }) => failed(format!("the secret could not be read: {error}")),
            Err(error) => {
                tracing::warn!(%error, webhook = %delivery.webhook.id, "an event was not sent; the next attempt follows");
                return None;
            }
        };
        let mut random = [0; 4];
        self.ids.fill(&mut random);
        let done = finish(&delivery, result, u32::from_le_bytes(random) % 1000);
        if let Some(why) = done.disables {
            tracing::warn!(webhook = %done.webhook, project = %delivery.webhook.project, ?why, "a webhook was disabled");
        }
        Some(done)
    }
}
