//! Tests of the comparisons of pull requests with their bases, on both databases.

use std::time::Duration;

use journeyman_core::code_host::{HostName, PullRef, PullRepository, PullState};
use journeyman_core::ids::{ProjectId, Sha};
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts};
use journeyman_core::pull::compared::{
    COMPARISON_LEASE, COMPARISON_PAUSE, Compared, ComparedPull, DueComparison, EndedComparison,
    LONGEST_COMPARISON_DELAY, MovedBranch, NoComparison,
};
use journeyman_core::pull::{NewPull, Pull};
use journeyman_core::run::Usage;
use journeyman_core::time::{Clock as _, Timestamp};

use super::fixtures::{Fixture, all, shop, worker};

fn sha(digit: &str) -> Sha {
    digit.repeat(40).parse().unwrap()
}

fn remote() -> PullRepository {
    PullRepository { host: HostName("github.com".to_owned()), id: "17".to_owned() }
}

fn pull() -> PullRef {
    PullRef { repository: remote(), number: 1 }
}

fn into(base: &str, files: &[&str]) -> Compared {
    let conflicts = Conflicts { files: files.iter().map(|file| (*file).to_owned()).collect(), more: 1 };
    Ok(BaseComparison { base: base.to_owned(), base_sha: sha("1"), head_sha: sha("2"), behind: 7, conflicts })
}

fn moved(branch: Option<&str>) -> MovedBranch {
    MovedBranch { repository: remote(), branch: branch.map(str::to_owned), project: None }
}

impl Fixture {
    /// Lets a job open the pull request from the branch `topic`.
    async fn open_of_job(&self) {
        self.job().await;
        let claimed = self.engine.claim(worker(1), Duration::from_secs(30)).await.unwrap().unwrap();
        let begun = TurnBegun {
            branch: "topic".to_owned(),
            generation: 1,
            base: sha("0"),
            head: sha("0"),
            pushed: None,
            default_branch: None,
            repository: None,
        };
        let (artifacts, ending) = (TurnArtifacts::default(), Ending::Done);
        let ended = Report::TurnEnded { head: sha("2"), commits: vec![sha("2")], artifacts, ending };
        let pull = Pull { repository: Some(remote()), ..Pull::new(1, "https://github.com/a/b/pull/1") };
        let outcome = Outcome::Published { pushed: Some(sha("2")), pull: Published::Opened(pull, None) };
        let finished = Report::Finished { outcome, usage: Usage::default() };
        let reports = vec![Report::TurnBegun(begun), ended, finished];
        self.engine.report_all(claimed.job.id, claimed.lease.token, reports).await.unwrap();
    }

    async fn due(&self) -> Vec<DueComparison> {
        self.store.claim_comparisons(self.world.now(), COMPARISON_LEASE, 10).await.unwrap()
    }

    async fn due_projects(&self) -> Vec<ProjectId> {
        self.due().await.into_iter().map(|due| due.project).collect()
    }

    fn end(&self, next: Option<Duration>, result: Option<Compared>) -> EndedComparison {
        let now = self.world.now();
        let changed = result.map(|result| ComparedPull { pull: pull(), result, at: now });
        EndedComparison {
            changed: changed.into_iter().collect(),
            removed: Vec::new(),
            next: next.map(|time| now + time),
            held_until: now + COMPARISON_PAUSE,
        }
    }

    /// Claims and ends the comparison of the only project that is due.
    async fn compare(&self, next: Option<Duration>, result: Option<Compared>) {
        let [due] = self.due().await.try_into().unwrap();
        assert!(self.store.end_comparison(&due, self.end(next, result)).await.unwrap(), "{}", self.name);
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_pull_request_of_a_job_is_due_at_once() {
    for fixture in all().await {
        let name = fixture.name;
        assert_eq!(fixture.due().await, [], "{name}");
        fixture.open_of_job().await;
        let [due] = fixture.due().await.try_into().unwrap();
        assert_eq!((due.project.clone(), due.claims), (shop(), 1), "{name}");
        assert_eq!(fixture.due().await, [], "{name}: it has an owner");
        fixture.world.advance(COMPARISON_LEASE);
        let [again] = fixture.due().await.try_into().unwrap();
        assert_eq!(again.claims, 2, "{name}: the owner has died");
        let late = fixture.end(None, Some(into("late", &[])));
        assert!(!fixture.store.end_comparison(&due, late).await.unwrap(), "{name}");
        assert_eq!(fixture.store.comparisons(vec![pull()]).await.unwrap(), [], "{name}: it is of a lost claim");
        let ended = fixture.end(Some(HOUR), Some(into("main", &["a"])));
        assert!(fixture.store.end_comparison(&again, ended).await.unwrap(), "{name}");
        let stored = fixture.store.comparisons(vec![pull()]).await.unwrap();
        let expected = ComparedPull { pull: pull(), result: into("main", &["a"]), at: fixture.world.now() };
        assert_eq!(stored, [expected], "{name}");
        let elsewhere = |number| PullRef { repository: PullRepository { id: "18".to_owned(), ..remote() }, number };
        let several = fixture.store.comparisons(vec![elsewhere(2), pull()]).await.unwrap();
        assert_eq!(several, stored, "{name}");
        let others = vec![elsewhere(1), PullRef { number: 2, ..pull() }];
        assert_eq!(fixture.store.comparisons(others).await.unwrap(), [], "{name}");
        assert_eq!(fixture.store.comparisons_in(shop()).await.unwrap(), stored, "{name}");
        fixture.world.advance(COMPARISON_PAUSE);
        assert_eq!(fixture.due().await, [], "{name}");
        fixture.world.advance(HOUR - COMPARISON_PAUSE);
        assert_eq!(fixture.due_projects().await, [shop()], "{name}: the timer");
    }
}

#[tokio::test]
async fn a_push_to_the_base_or_the_branch_makes_it_due() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.open_of_job().await;
        let wake = async |moved: MovedBranch| fixture.store.wake_comparisons(moved).await.unwrap();
        fixture.compare(Some(HOUR), None).await;
        assert_eq!(wake(moved(Some("other"))).await, [shop()], "{name}: the base is not known yet");
        fixture.world.advance(COMPARISON_PAUSE);
        fixture.compare(Some(HOUR), Some(into("main", &[]))).await;
        fixture.world.advance(COMPARISON_PAUSE);
        let elsewhere = PullRepository { id: "18".to_owned(), ..remote() };
        let of = |project: &str| Some(project.parse::<ProjectId>().unwrap());
        for (other, expected) in [
            (moved(Some("other")), false),
            (MovedBranch { repository: elsewhere, ..moved(None) }, false),
            (MovedBranch { project: of("zoo"), ..moved(Some("main")) }, false),
            (MovedBranch { project: of("shop"), ..moved(Some("main")) }, true),
            (moved(Some("main")), true),
            (moved(Some("topic")), true),
            (moved(None), true),
        ] {
            let woken = wake(other.clone()).await;
            assert_eq!(woken, if expected { vec![shop()] } else { vec![] }, "{name}: {other:?}");
            assert_eq!(fixture.due_projects().await, woken, "{name}: {other:?}");
            // The claim is dropped, as if its process died.
            fixture.world.advance(COMPARISON_LEASE);
            if expected {
                fixture.compare(Some(HOUR), None).await;
                fixture.world.advance(COMPARISON_PAUSE);
            }
        }
    }
}

#[tokio::test]
async fn an_event_during_a_comparison_causes_another_one_after_a_pause() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.open_of_job().await;
        for next in [Some(HOUR), None] {
            let [due] = fixture.due().await.try_into().unwrap();
            fixture.store.wake_comparisons(moved(None)).await.unwrap();
            assert_eq!(fixture.due().await, [], "{name}: one process at a time");
            assert!(fixture.store.end_comparison(&due, fixture.end(next, None)).await.unwrap(), "{name}");
            assert_eq!(fixture.due().await, [], "{name}: the pause");
            fixture.world.advance(COMPARISON_PAUSE);
        }
        let [due] = fixture.due().await.try_into().unwrap();
        let mut end = fixture.end(None, Some(Err(NoComparison::InFork)));
        assert!(fixture.store.end_comparison(&due, end.clone()).await.unwrap(), "{name}");
        fixture.world.advance(HOUR);
        assert_eq!(fixture.due().await, [], "{name}: nothing is open");
        assert!(!fixture.store.end_comparison(&due, end.clone()).await.unwrap(), "{name}: it is not on the schedule");
        fixture.store.plan_comparisons().await.unwrap();
        let [due] = fixture.due().await.try_into().unwrap();
        (end.changed, end.removed) = (Vec::new(), vec![pull()]);
        assert_eq!(fixture.store.comparisons(vec![pull()]).await.unwrap().len(), 1, "{name}");
        assert!(fixture.store.end_comparison(&due, end).await.unwrap(), "{name}");
        assert_eq!(fixture.store.comparisons(vec![pull()]).await.unwrap(), [], "{name}");
    }
}

#[tokio::test]
async fn a_person_who_looks_makes_an_old_comparison_due() {
    for fixture in all().await {
        let name = fixture.name;
        let look = async || {
            let before = fixture.world.now() - Duration::from_secs(60);
            fixture.store.refresh_comparison(shop(), before).await.unwrap();
            fixture.due_projects().await
        };
        assert_eq!(look().await, [], "{name}: it is not on the schedule");
        fixture.open_of_job().await;
        fixture.compare(Some(HOUR), None).await;
        fixture.world.advance(Duration::from_secs(60));
        assert_eq!(look().await, [], "{name}: the comparison is young");
        fixture.world.advance(Duration::from_secs(6));
        assert_eq!(look().await, [shop()], "{name}");
    }
}

#[tokio::test]
async fn pull_requests_of_people_on_the_built_in_host_are_planned() {
    for fixture in all().await {
        let name = fixture.name;
        let new = NewPull { title: "Mine".to_owned(), head: "mine".to_owned(), ..NewPull::default() };
        let opened = fixture.store.open_pull("shop".to_owned(), "main".to_owned(), new, fixture.world.now()).await;
        assert!(opened.unwrap().is_some(), "{name}");
        fixture.store.plan_comparisons().await.unwrap();
        fixture.store.plan_comparisons().await.unwrap();
        fixture.compare(None, None).await;
        let repository = PullRepository::local("shop");
        let push = MovedBranch { repository, branch: Some("any".to_owned()), project: None };
        assert_eq!(fixture.store.wake_comparisons(push).await.unwrap(), [shop()], "{name}");
        let other = MovedBranch { repository: PullRepository::local("zoo"), branch: None, project: None };
        assert_eq!(fixture.store.wake_comparisons(other).await.unwrap(), [], "{name}");
    }
}

#[tokio::test]
async fn the_end_of_a_pull_request_needs_no_comparison_and_its_opening_does() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.open_of_job().await;
        fixture.compare(Some(HOUR), None).await;
        fixture.world.advance(COMPARISON_PAUSE);
        let job = fixture.store.indexed_pull(remote(), 1).await.unwrap().unwrap().job;
        for (state, expected) in [(PullState::Closed, vec![]), (PullState::Open, vec![shop()])] {
            fixture.engine.record_pull(&shop(), job, pull(), state, false, None).await.unwrap();
            assert_eq!(fixture.due_projects().await, expected, "{name}: {state:?}");
        }
    }
}

#[tokio::test]
async fn a_schedule_survives_a_clock_that_is_set_back() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.open_of_job().await;
        let [due] = fixture.due().await.try_into().unwrap();
        let far: Timestamp = fixture.world.now() + LONGEST_COMPARISON_DELAY + Duration::from_secs(1);
        let end = EndedComparison { next: Some(far), held_until: far, ..EndedComparison::default() };
        assert!(fixture.store.end_comparison(&due, end).await.unwrap(), "{name}");
        assert_eq!(fixture.due_projects().await, [shop()], "{name}");
    }
}
