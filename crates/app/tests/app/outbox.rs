//! Tests of carrying out tasks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::{JobRequest, Outbox};
use journeyman_core::ids::WorkerId;
use journeyman_core::job::command::{Outcome, Report};
use journeyman_core::job::effect::Effect;
use journeyman_core::outbox::MAX_ATTEMPTS;
use journeyman_core::ports::{EffectError, EffectHandler};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use uuid::Uuid;

use super::fixtures::{Fixture, all, operator, shop};

/// A handler that fails a number of times, and then succeeds.
#[derive(Default)]
struct Handler {
    failures: Mutex<u32>,
    done: Mutex<Vec<Effect>>,
}

#[async_trait]
impl EffectHandler for Handler {
    fn kinds(&self) -> &'static [&'static str] {
        &[Effect::REMOVE_BLOBS]
    }

    async fn carry_out(&self, effect: &Effect) -> Result<(), EffectError> {
        let mut failures = self.failures.lock().unwrap();
        if let Some(left) = failures.checked_sub(1) {
            *failures = left;
            return Err(EffectError("the bucket is unavailable".to_owned()));
        }
        self.done.lock().unwrap().push(effect.clone());
        Ok(())
    }
}

/// Stores `count` tasks, by runs that fail. Returns an outbox whose handler fails `failures` times.
async fn outbox(fixture: &Fixture, count: usize, failures: u32) -> (Outbox, Arc<Handler>) {
    fixture.create_shop().await;
    for _ in 0..count {
        let request = JobRequest { prompt: "Fix it".to_owned(), ..JobRequest::default() };
        fixture.cases.create_job(&operator(), &shop().id, request, None).await.unwrap();
        let worker = WorkerId::from_uuid(Uuid::from_u128(1));
        let claimed = fixture.engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
        let outcome = Outcome::Failed { reason: Reason::new(ReasonCode::Internal, "x"), retry: None };
        let report = Report::Finished { outcome, usage: Usage::default() };
        fixture.engine.report(claimed.job.id, claimed.lease.token, report).await.unwrap();
    }
    let handler = Arc::new(Handler { failures: Mutex::new(failures), ..Handler::default() });
    let (clock, ids) = (fixture.world.clone(), fixture.world.clone());
    (Outbox { store: fixture.store.clone(), clock, ids, handler: handler.clone() }, handler)
}

#[tokio::test]
async fn each_task_is_carried_out_and_removed() {
    for fixture in all().await {
        let (outbox, handler) = outbox(&fixture, 40, 0).await;
        while outbox.carry_out_due().await.unwrap() > 0 {}
        assert_eq!(handler.done.lock().unwrap().len(), 40, "{}", fixture.name);
        assert_eq!(fixture.store.backlog().await.unwrap().tasks, 0, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_task_that_fails_is_attempted_again_later() {
    for fixture in all().await {
        let (outbox, handler) = outbox(&fixture, 1, 2).await;
        let mut attempts = 0;
        while fixture.store.backlog().await.unwrap().tasks > 0 {
            attempts += outbox.carry_out_due().await.unwrap();
            assert_eq!(outbox.carry_out_due().await.unwrap(), 0, "{}: not at once", fixture.name);
            fixture.world.advance(Duration::from_secs(2));
        }
        assert_eq!((attempts, handler.done.lock().unwrap().len()), (3, 1), "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_task_that_always_fails_is_given_up() {
    let fixture = all().await.remove(0);
    let (outbox, handler) = outbox(&fixture, 1, u32::MAX).await;
    let mut attempts = 0;
    while fixture.store.backlog().await.unwrap().tasks > 0 {
        attempts += outbox.carry_out_due().await.unwrap();
        fixture.world.advance(Duration::from_secs(300));
    }
    assert_eq!(attempts, MAX_ATTEMPTS as usize);
    assert!(handler.done.lock().unwrap().is_empty());
}
