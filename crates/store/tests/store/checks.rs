//! Tests of the watched commits, on both databases.

use std::time::Duration;

use journeyman_core::checks::{Check, CheckState, CheckWatch, LONGEST_DELAY, WATCH_LEASE};
use journeyman_core::code_host::{HostName, PullRepository};
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::ports::Retention;
use journeyman_core::pull::Pull;
use journeyman_core::run::Usage;
use journeyman_core::time::Clock as _;

use super::fixtures::{Fixture, all, free, prompt, shop, worker};

fn sha(digit: &str) -> Sha {
    digit.repeat(40).parse().unwrap()
}

fn check(name: &str) -> Check {
    Check { log: Some("1".to_owned()), ..Check::new(name, CheckState::Failed) }
}

impl Fixture {
    /// Carries out the next message of a job, which pushes a commit.
    async fn push(&self, digit: &str) {
        let claimed = self.engine.claim(worker(1), Duration::from_secs(30)).await.unwrap().unwrap();
        let (id, head) = (claimed.job.id, sha(digit));
        let begun = TurnBegun {
            branch: format!("b{id}"),
            generation: 1,
            base: sha("0"),
            head: claimed.job.branch.map_or(sha("0"), |branch| branch.head),
            pushed: None,
            default_branch: None,
            repository: None,
        };
        let ended = Report::TurnEnded {
            head: head.clone(),
            commits: vec![head.clone()],
            artifacts: TurnArtifacts::default(),
            ending: Ending::Done,
        };
        let repository = PullRepository { host: HostName("github.com".to_owned()), id: id.to_string() };
        let pull = Pull { repository: Some(repository), ..Pull::new(1, "https://github.com/a/b/pull/1") };
        let outcome = Outcome::Published { pushed: Some(head), pull: Published::Opened(pull, None) };
        let finished = Report::Finished { outcome, usage: Usage::default() };
        let reports = vec![Report::TurnBegun(begun), ended, finished];
        self.engine.report_all(id, claimed.lease.token, reports).await.unwrap();
    }

    async fn watches(&self) -> Vec<CheckWatch> {
        self.store.claim_watches(self.world.now(), WATCH_LEASE, 10).await.unwrap()
    }

    /// Creates a job that has pushed the commit `a`, and claims its watch.
    async fn watched(&self) -> (JobId, CheckWatch) {
        let job = self.job().await;
        self.push("a").await;
        assert_eq!(self.watches().await, [], "{}: the checks have not begun", self.name);
        self.world.advance(Duration::from_secs(15));
        let [watch] = self.watches().await.try_into().unwrap();
        (job, watch)
    }
}

#[tokio::test]
async fn a_watch_has_one_owner_until_its_lease_expires() {
    for fixture in all().await {
        let name = fixture.name;
        let (job, watch) = fixture.watched().await;
        assert_eq!((watch.job, watch.sha.clone(), watch.looks), (job, sha("a"), 1), "{name}");
        assert_eq!(fixture.watches().await, [], "{name}");
        fixture.world.advance(WATCH_LEASE);
        let [again] = fixture.watches().await.try_into().unwrap();
        assert_eq!(again.looks, 2, "{name}");
        assert!(!fixture.store.end_look(&watch, Some(vec![check("late")]), None).await.unwrap(), "{name}");
        assert!(fixture.store.end_look(&again, Some(vec![check("test")]), None).await.unwrap(), "{name}");
        let stored = fixture.store.watch_of(job).await.unwrap().unwrap();
        assert_eq!((stored.checks, stored.due_at), (vec![check("test")], None), "{name}");
    }
}

#[tokio::test]
async fn a_look_without_an_answer_keeps_the_checks() {
    for fixture in all().await {
        let (name, next) = (fixture.name, fixture.world.now() + Duration::from_secs(60));
        let (job, watch) = fixture.watched().await;
        fixture.store.end_look(&watch, Some(vec![check("test")]), Some(fixture.world.now())).await.unwrap();
        let [again] = fixture.watches().await.try_into().unwrap();
        assert!(fixture.store.end_look(&again, None, Some(next)).await.unwrap(), "{name}");
        let stored = fixture.store.watch_of(job).await.unwrap().unwrap();
        assert_eq!((stored.checks, stored.due_at), (vec![check("test")], Some(next)), "{name}");
    }
}

#[tokio::test]
async fn a_webhook_wakes_a_watch_also_during_a_look() {
    for fixture in all().await {
        let name = fixture.name;
        let (job, watch) = fixture.watched().await;
        let at = fixture.world.now() + Duration::from_secs(5);
        assert_eq!(fixture.store.wake_watches(sha("a"), at).await.unwrap(), [(job, shop())], "{name}");
        assert_eq!(fixture.store.wake_watches(sha("b"), at).await.unwrap(), [], "{name}");
        let due = || async { fixture.store.watch_of(job).await.unwrap().unwrap().due_at };
        fixture.store.end_look(&watch, None, None).await.unwrap();
        assert_eq!(due().await, Some(at), "{name}: the webhook arrived during the look");
        fixture.world.advance(Duration::from_secs(5));
        let [watch] = fixture.watches().await.try_into().unwrap();
        fixture.store.end_look(&watch, None, None).await.unwrap();
        assert_eq!(due().await, None, "{name}");
        fixture.store.wake_watches(sha("a"), at).await.unwrap();
        fixture.store.wake_watches(sha("a"), at + Duration::from_secs(9)).await.unwrap();
        assert_eq!(due().await, Some(at), "{name}: the earlier time applies");
    }
}

#[tokio::test]
async fn a_watch_survives_a_clock_that_is_set_back() {
    for fixture in all().await {
        let name = fixture.name;
        let (_, watch) = fixture.watched().await;
        let far = fixture.world.now() + LONGEST_DELAY + Duration::from_secs(1);
        fixture.store.end_look(&watch, None, Some(far)).await.unwrap();
        assert_eq!(fixture.watches().await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_push_replaces_the_watch_of_an_earlier_commit() {
    for fixture in all().await {
        let name = fixture.name;
        let (job, watch) = fixture.watched().await;
        fixture.engine.add_message(&shop(), job, prompt("more"), free()).await.unwrap();
        fixture.push("b").await;
        assert!(!fixture.store.end_look(&watch, Some(vec![check("old")]), None).await.unwrap(), "{name}");
        let stored = fixture.store.watch_of(job).await.unwrap().unwrap();
        assert_eq!((stored.sha, stored.checks, stored.looks), (sha("b"), vec![], 0), "{name}");
    }
}

#[tokio::test]
async fn the_watch_of_a_removed_job_is_removed() {
    for fixture in all().await {
        let name = fixture.name;
        let (job, _) = fixture.watched().await;
        fixture.engine.archive(&shop(), job).await.unwrap();
        fixture.world.advance(Duration::from_secs(1000));
        let retention = Retention { jobs: Some(Duration::from_secs(10)), ..Retention::default() };
        fixture.store.sweep(fixture.world.now(), retention, 10).await.unwrap();
        assert_eq!(fixture.store.job(job).await.unwrap(), None, "{name}");
        assert_eq!(fixture.store.watch_of(job).await.unwrap(), None, "{name}");
    }
}
