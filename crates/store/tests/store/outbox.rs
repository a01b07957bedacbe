//! Tests of the outbox and the duties, on all stores.

use std::time::Duration;

use journeyman_core::job::Token;
use journeyman_core::job::effect::Effect;
use journeyman_core::outbox::{Backlog, LONGEST_DELAY, Task};
use journeyman_core::ports::{Retention, TaskQuery, WorkStore};
use journeyman_core::time::Clock as _;
use journeyman_testkit::Seeds as _;

use super::conformance::complete_next_job;
use super::fixtures::{Fixture, all, all_for_work, free, prompt, shop};

const KINDS: &[&str] = &[Effect::REMOVE_BLOBS];
const LEASE: Duration = Duration::from_secs(60);

impl<S: WorkStore + ?Sized> Fixture<S> {
    async fn claim(&self, limit: usize) -> Vec<Task> {
        self.store.claim_tasks(TaskQuery { kinds: KINDS, now: self.world.now(), lease: LEASE, limit }).await.unwrap()
    }
}

impl Fixture {
    async fn begin(&self, name: &'static str) -> Option<u64> {
        self.store.begin_duty(name, self.world.now(), LEASE, Duration::from_secs(600)).await.unwrap()
    }
}

#[tokio::test]
async fn a_task_is_stored_with_the_end_of_a_run_and_with_nothing_else() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let id = fixture.job().await;
        fixture.engine.add_message(&shop(), id, prompt("y"), free()).await.unwrap();
        assert_eq!(fixture.store.backlog().await.unwrap(), Backlog::default(), "{name}: accepting has no effects");
        complete_next_job(&fixture).await;
        let backlog = fixture.store.backlog().await.unwrap();
        assert_eq!(backlog, Backlog { tasks: 1, retried: 0, oldest: Some(fixture.world.now()) }, "{name}");
        let effect = Effect::RemoveBlobs { job: id, up_to: Some(Token(1)) };
        let tasks = fixture.claim(10).await;
        assert_eq!(tasks.len(), 1, "{name}");
        assert_eq!(
            (&tasks[0].effect, tasks[0].attempt, tasks[0].created_at),
            (&effect, 1, fixture.world.now()),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_task_has_one_owner_until_its_lease_expires() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        fixture.job().await;
        complete_next_job(&fixture).await;
        let first = fixture.claim(10).await.remove(0);
        assert_eq!(fixture.claim(10).await, [], "{name}: it is claimed");
        fixture.world.advance(LEASE);
        let second = fixture.claim(10).await.remove(0);
        assert_eq!((second.number, second.attempt), (first.number, 2), "{name}");
        for next in [None, Some(fixture.world.now())] {
            let ended = fixture.store.end_task(first.number, first.attempt, next).await.unwrap();
            assert!(!ended, "{name}: its lease has expired");
        }
        assert_eq!(fixture.claim(10).await, [], "{name}: the second owner has it");
        assert_eq!(fixture.store.backlog().await.unwrap().retried, 1, "{name}");

        let later = fixture.world.now() + Duration::from_secs(5);
        assert!(fixture.store.end_task(second.number, second.attempt, Some(later)).await.unwrap(), "{name}");
        assert_eq!(fixture.claim(10).await, [], "{name}: it is not due yet");
        fixture.world.advance(Duration::from_secs(5));
        let third = fixture.claim(10).await.remove(0);
        assert_eq!(third.attempt, 3, "{name}");
        assert!(fixture.store.end_task(third.number, third.attempt, None).await.unwrap(), "{name}");
        assert_eq!(fixture.store.backlog().await.unwrap(), Backlog::default(), "{name}");
    }
}

#[tokio::test]
async fn tasks_are_claimed_in_order_and_only_if_their_kind_is_known() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        for _ in 0..3 {
            fixture.job().await;
            complete_next_job(&fixture).await;
            fixture.world.advance(Duration::from_secs(1));
        }
        let query = TaskQuery { kinds: &["send_webhook"], now: fixture.world.now(), lease: LEASE, limit: 10 };
        let unknown = fixture.store.claim_tasks(query).await.unwrap();
        assert_eq!(unknown, [], "{name}");
        let (two, one) = (fixture.claim(2).await, fixture.claim(2).await);
        let numbers: Vec<u64> = two.iter().chain(&one).map(|task| task.number).collect();
        assert_eq!((two.len(), one.len()), (2, 1), "{name}");
        assert!(numbers.is_sorted(), "{name}: {numbers:?}");
    }
}

#[tokio::test]
async fn two_processes_never_claim_the_same_task() {
    for fixture in all_for_work().await {
        for _ in 0..8 {
            fixture.job().await;
            complete_next_job(&fixture).await;
        }
        let claims = futures::future::join_all((0..8).map(|_| fixture.claim(3))).await;
        let mut numbers: Vec<u64> = claims.into_iter().flatten().map(|task| task.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let left = fixture.claim(10).await;
        assert_eq!(numbers.len() + left.len(), 8, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_tasks() {
    for fixture in all_for_work().await {
        fixture.job().await;
        complete_next_job(&fixture).await;
        fixture.world.set_back(LONGEST_DELAY + Duration::from_secs(3600));
        assert_eq!(fixture.claim(1).await.len(), 1, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_duties() {
    for fixture in all().await {
        assert!(fixture.begin("a").await.is_some(), "{}", fixture.name);
        fixture.world.set_back(LONGEST_DELAY + Duration::from_secs(3600));
        assert!(fixture.begin("a").await.is_some(), "{}", fixture.name);
    }
}

#[tokio::test]
async fn the_blobs_of_deleted_jobs_are_removed() {
    for fixture in all().await {
        let name = fixture.name;
        let expired = fixture.job().await;
        complete_next_job(&fixture).await;
        fixture.world.advance(Duration::from_secs(7200));
        let retention = Retention { jobs: Some(Duration::from_secs(3600)), ..Retention::default() };
        fixture.store.sweep(fixture.world.now(), retention, 10).await.unwrap();
        let with_project = fixture.job().await;
        complete_next_job(&fixture).await;
        fixture.store.delete_project(shop()).await.unwrap();
        let mut deleted = Vec::new();
        fixture.world.advance(Duration::from_secs(1));
        for task in fixture.claim(10).await {
            let Effect::RemoveBlobs { job, up_to } = task.effect else { continue };
            if up_to.is_none() {
                deleted.push(job);
            }
        }
        deleted.sort_unstable();
        let mut expected = [expired, with_project];
        expected.sort_unstable();
        assert_eq!(deleted, expected, "{name}");
    }
}

#[tokio::test]
async fn the_repository_of_a_deleted_project_is_removed_afterward() {
    const KINDS: &[&str] = &[Effect::REMOVE_REPOSITORY];
    for fixture in all().await {
        let name = fixture.name;
        fixture.store.delete_project(shop()).await.unwrap();
        fixture.store.delete_project(shop()).await.unwrap();
        let query = TaskQuery { kinds: KINDS, now: fixture.world.now(), lease: LEASE, limit: 10 };
        let tasks = fixture.store.claim_tasks(query).await.unwrap();
        let effects: Vec<Effect> = tasks.into_iter().map(|task| task.effect).collect();
        assert_eq!(effects, [Effect::RemoveRepository { repository: "shop".to_owned() }], "{name}");
    }
}

#[tokio::test]
async fn a_duty_has_one_owner_and_is_due_again_at_its_time() {
    for fixture in all().await {
        let name = fixture.name;
        let begun = futures::future::join_all((0..8).map(|_| fixture.begin("sweep"))).await;
        let tokens: Vec<u64> = begun.into_iter().flatten().collect();
        assert_eq!(tokens, [1], "{name}");
        assert_eq!(fixture.begin("other").await, Some(1), "{name}: duties are independent");

        fixture.world.advance(LEASE);
        assert_eq!(fixture.begin("sweep").await, Some(2), "{name}: the first owner has died");
        fixture.store.end_duty("sweep", 1, fixture.world.now()).await.unwrap();
        assert_eq!(fixture.begin("sweep").await, None, "{name}: the first owner cannot end it any more");

        let next = fixture.world.now() + Duration::from_secs(300);
        fixture.store.end_duty("sweep", 2, next).await.unwrap();
        fixture.world.advance(Duration::from_secs(299));
        assert_eq!(fixture.begin("sweep").await, None, "{name}");
        fixture.world.advance(Duration::from_secs(1));
        assert_eq!(fixture.begin("sweep").await, Some(3), "{name}");
    }
}
