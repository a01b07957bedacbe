//! Projects on hold, jobs that wait or avoid a worker, and leases of a restarted worker: the same tests for every
//! store.

use std::time::Duration;

use journeyman_core::engine::Claimed;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::JobStatus;
use journeyman_core::job::command::{NextAttempt, Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::ports::{AVOIDANCE, PATIENCE, PROBE_TIME, WorkStore};
use journeyman_core::project::hold::{HoldCause, HoldFailure};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Clock;
use journeyman_testkit::Seeds as _;

use super::fixtures::{Fixture, all, all_for_work, free, new_job, project, prompt, shop, worker};

const LEASE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

fn away() -> Reason {
    Reason::new(ReasonCode::RepositoryUnreachable, "away")
}

async fn create(fixture: &Fixture<impl WorkStore + ?Sized>) -> JobId {
    fixture.engine.create_job(&project("shop"), new_job("Fix it"), free()).await.unwrap().record.id
}

async fn claim(fixture: &Fixture<impl WorkStore + ?Sized>, number: u128) -> Option<Claimed> {
    fixture.engine.claim(worker(number), LEASE).await.unwrap()
}

/// Reports that the run encountered a cause outside its message.
async fn wait(fixture: &Fixture<impl WorkStore + ?Sized>, claimed: &Claimed, reason: Reason, next: NextAttempt) {
    let outcome = Outcome::Waiting { reason, since: fixture.world.now(), patience: HOUR, next };
    let report = Report::Finished { outcome, usage: Usage::default() };
    fixture.engine.report(claimed.job.id, claimed.lease.token, report).await.unwrap();
}

/// Puts the project on hold.
pub(super) async fn put_on_hold(fixture: &Fixture<impl WorkStore + ?Sized>) {
    let at = fixture.world.now();
    let failure = HoldFailure { reason: away(), cause: HoldCause::Fetch, started_at: at, at, permille: 999 };
    fixture.store.hold_project(shop(), failure).await.unwrap().unwrap();
}

/// Like [`wait`], for a cause that affects the whole project.
async fn hold(fixture: &Fixture<impl WorkStore + ?Sized>, claimed: &Claimed) {
    put_on_hold(fixture).await;
    wait(fixture, claimed, away(), NextAttempt::AfterHold).await;
}

#[tokio::test]
async fn one_job_at_a_time_probes_a_project_on_hold() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        for _ in 0..3 {
            create(&fixture).await;
        }
        let first = claim(&fixture, 1).await.expect("a job is due");
        assert_eq!(first.hold, None, "{name}");
        hold(&fixture, &first).await;
        assert!(claim(&fixture, 2).await.is_none(), "{name}: the project is on hold");
        assert_eq!(fixture.store.holds().await.unwrap()[&shop()].attempts, 1, "{name}");

        fixture.world.advance(Duration::from_secs(2));
        let probe = claim(&fixture, 2).await.expect("the probe is due");
        assert_eq!(probe.hold.as_ref().map(|hold| hold.reason.code), Some(ReasonCode::RepositoryUnreachable), "{name}");
        assert!(claim(&fixture, 1).await.is_none(), "{name}: only one job probes");
        // The machine that runs the probe fails; another one may probe later.
        fixture.world.advance(PROBE_TIME);
        let probe = claim(&fixture, 1).await.expect("the next probe");
        hold(&fixture, &probe).await;
        assert_eq!(fixture.store.holds().await.unwrap()[&shop()].attempts, 2, "{name}");

        fixture.store.probe_project(shop(), fixture.world.now()).await.unwrap();
        assert!(claim(&fixture, 1).await.is_some(), "{name}: a probe was requested");
        fixture.store.release_project(shop()).await.unwrap();
        fixture.store.release_project(shop()).await.unwrap();
        assert!(claim(&fixture, 1).await.is_some() && claim(&fixture, 1).await.is_some(), "{name}: all are due");
        assert!(fixture.store.holds().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_hold_is_deleted_with_its_project() {
    for fixture in all().await {
        let at = fixture.world.now();
        let failure = HoldFailure { reason: away(), cause: HoldCause::Push, started_at: at, at, permille: 0 };
        assert!(fixture.store.hold_project(shop(), failure.clone()).await.unwrap().is_some(), "{}", fixture.name);
        fixture.store.delete_project(shop()).await.unwrap();
        assert!(fixture.store.holds().await.unwrap().is_empty(), "{}", fixture.name);
        assert!(
            fixture.store.hold_project(shop(), failure).await.unwrap().is_none(),
            "{}: it was deleted",
            fixture.name
        );
    }
}

#[tokio::test]
async fn waiting_jobs_are_counted() {
    for fixture in all().await {
        let name = fixture.name;
        create(&fixture).await;
        let claimed = claim(&fixture, 1).await.unwrap();
        wait(&fixture, &claimed, away(), NextAttempt::Backoff(999)).await;
        let counts = fixture.store.waiting_jobs().await.unwrap();
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("repository_unreachable".to_owned(), 1)], "{name}");
        fixture.world.advance(Duration::from_secs(2));
        assert!(claim(&fixture, 1).await.is_some(), "{name}");
        assert!(fixture.store.waiting_jobs().await.unwrap().is_empty(), "{name}: the job is running");
    }
}

#[tokio::test]
async fn a_waiting_job_can_be_retried_at_once() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let job = create(&fixture).await;
        let claimed = claim(&fixture, 1).await.unwrap();
        wait(&fixture, &claimed, away(), NextAttempt::Backoff(999)).await;
        assert!(claim(&fixture, 1).await.is_none(), "{name}");
        fixture.engine.retry(&shop(), job).await.unwrap();
        assert!(claim(&fixture, 1).await.is_some(), "{name}");
    }
}

#[tokio::test]
async fn an_avoided_worker_gets_the_job_only_if_no_other_takes_it() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        create(&fixture).await;
        let claimed = claim(&fixture, 1).await.unwrap();
        wait(&fixture, &claimed, Reason::new(ReasonCode::DiskFull, "full"), NextAttempt::Backoff(999)).await;
        fixture.world.advance(Duration::from_secs(1));
        assert!(claim(&fixture, 1).await.is_none(), "{name}: it waits for another machine");
        let other = claim(&fixture, 2).await.expect("another takes it");
        wait(&fixture, &other, Reason::new(ReasonCode::DiskFull, "full"), NextAttempt::Backoff(999)).await;
        fixture.world.advance(Duration::from_secs(2) + PATIENCE);
        assert!(claim(&fixture, 2).await.is_none(), "{name}: another machine may be busy");
        fixture.world.advance(AVOIDANCE);
        assert!(claim(&fixture, 2).await.is_some(), "{name}: no other machine took it");
    }
}

#[tokio::test]
async fn a_restarted_worker_releases_only_its_own_leases() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let (mine, other) = (create(&fixture).await, create(&fixture).await);
        assert_eq!(claim(&fixture, 1).await.unwrap().job.id, mine, "{name}");
        assert_eq!(claim(&fixture, 2).await.unwrap().job.id, other, "{name}");
        assert_eq!(fixture.store.leased_jobs(worker(1)).await.unwrap(), [mine], "{name}");
        assert_eq!(fixture.engine.release_leases(worker(1)).await.unwrap(), 1, "{name}");
        assert_eq!(claim(&fixture, 1).await.unwrap().job.id, mine, "{name}: at once");
        assert!(claim(&fixture, 1).await.is_none(), "{name}: the other lease is valid");
    }
}

#[tokio::test]
async fn a_lease_expires_if_the_clock_is_set_back() {
    for fixture in all_for_work().await {
        create(&fixture).await;
        assert!(claim(&fixture, 1).await.is_some(), "{}", fixture.name);
        fixture.world.set_back(HOUR);
        assert!(claim(&fixture, 2).await.is_some(), "{}: the job need not wait for an hour", fixture.name);
    }
}

#[tokio::test]
async fn a_receipt_names_the_message_whose_push_carried_its_commits() {
    for fixture in all_for_work().await {
        let name = fixture.name;
        let sha = |digit: char| -> Sha { String::from(digit).repeat(40).parse().unwrap() };
        let job = create(&fixture).await;
        for (digit, before) in [('b', 'a'), ('c', 'b')] {
            let claimed = claim(&fixture, 1).await.unwrap();
            let token = claimed.lease.token;
            let begun = TurnBegun {
                branch: "journeyman/x".into(),
                generation: 1,
                base: sha('a'),
                head: sha(before),
                pushed: None,
                default_branch: None,
                repository: None,
            };
            let ended = Report::TurnEnded {
                head: sha(digit),
                commits: vec![sha(digit)],
                artifacts: TurnArtifacts::default(),
                ending: Ending::Done,
            };
            let outcome = match digit {
                'b' => Outcome::Failed { reason: Reason::new(ReasonCode::PushRefused, "no"), retry: None },
                _ => Outcome::Published { pushed: Some(sha('c')), pull: Published::Nothing },
            };
            let finished = Report::Finished { outcome, usage: Usage::default() };
            fixture.engine.report_all(job, token, vec![Report::TurnBegun(begun), ended, finished]).await.unwrap();
            if digit == 'b' {
                fixture.engine.add_message(&shop(), job, prompt("more"), free()).await.unwrap();
            }
        }
        let messages = fixture.store.messages(job).await.unwrap();
        assert_eq!(messages[0].published_with, Some(messages[1].id), "{name}");
        assert_eq!((&messages[0].commits, &messages[1].commits), (&vec![sha('b')], &vec![sha('c')]), "{name}");
        assert_eq!(fixture.store.job(job).await.unwrap().unwrap().status(), JobStatus::Completed, "{name}");
    }
}
