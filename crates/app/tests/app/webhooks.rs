//! Tests of the loop that delivers events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::{Answered, JobRequest};
use journeyman_core::ports::{DeliveryFilter, StoreError};
use journeyman_core::webhook::{DELIVERY_LEASE, DeliveryState, Webhook, WebhookFormat, WebhookSettings};
use journeyman_testkit::{FakeForges, Seeds as _, StoreCall, Tap, stored};

use super::fixtures::{Stored, fixture, operator, shop};

/// Lets all reads of the store fail while it is set.
#[derive(Default)]
struct FailingReads(AtomicBool);

#[async_trait]
impl Tap for FailingReads {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), StoreError> {
        match call {
            StoreCall::Read if self.0.load(Ordering::SeqCst) => Err(StoreError::Unavailable("of the test".to_owned())),
            _ => Ok(()),
        }
    }

    async fn after(&self, _: StoreCall<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn woken(&self) {}
}

#[tokio::test]
async fn a_failure_of_the_store_is_no_failure_of_the_endpoint() {
    let reads = Arc::new(FailingReads::default());
    let fixture = fixture(Stored::sqlite().tapped(Arc::clone(&reads)), &FakeForges);
    fixture.store.create_project(shop(), [].into()).await.unwrap();
    let settings = WebhookSettings {
        url: "https://hooks.example/".to_owned(),
        kinds: Vec::new(),
        format: WebhookFormat::Standard,
        description: String::new(),
    };
    let created = fixture.cases.create_webhook(&operator(), &shop().id, settings, None, |_| String::new()).await;
    let Ok(Answered::New(created)) = created else { panic!("{created:?}") };
    let request = JobRequest { prompt: "x".to_owned(), ..JobRequest::default() };
    fixture.cases.create_job(&operator(), &shop().id, request, None).await.unwrap();
    let deliverer = fixture.cases.deliverer(fixture.world.clone());
    let webhook = created.webhook.id;
    let delivery = async || {
        let filter = DeliveryFilter { webhook, state: None, before: None, limit: 9 };
        fixture.store.deliveries(filter).await.unwrap().remove(0)
    };

    reads.0.store(true, Ordering::SeqCst);
    deliverer.deliver_due().await.unwrap();
    reads.0.store(false, Ordering::SeqCst);
    let waiting = delivery().await;
    assert_eq!((waiting.state, waiting.attempts, waiting.last), (DeliveryState::Pending, 0, None));
    assert_eq!(stored::<Webhook>(&*fixture.store, webhook).await.unwrap().failing_since, None);
    fixture.world.advance(DELIVERY_LEASE + Duration::from_secs(1));
    deliverer.deliver_due().await.unwrap();
    assert_eq!((delivery().await.state, delivery().await.attempts), (DeliveryState::Delivered, 1));
}
