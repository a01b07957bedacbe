//! Tests of what causes comparisons of pull requests with their bases, over each kind of store.

use std::time::Duration;

use journeyman_core::code_host::{PullRef, PullRepository, PullState};
use journeyman_core::hook::HookContent;
use journeyman_core::ids::Sha;
use journeyman_core::ports::Forges as _;
use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts};
use journeyman_core::pull::compared::{COMPARISON_PAUSE, NoComparison, SEEN_AGE};
use journeyman_core::time::Clock as _;
use journeyman_testkit::MemoryHost;

use super::fixtures::shop;
use super::inbox::fixtures::{InboxFixture, PULL};

fn behind(count: u64) -> BaseComparison {
    let sha = |digit: &str| -> Sha { digit.repeat(40).parse().unwrap() };
    let (base, conflicts) = ("main".to_owned(), Conflicts::default());
    BaseComparison { base, base_sha: sha("1"), head_sha: sha("f"), behind: count, conflicts }
}

fn push(branches: &[&str]) -> HookContent {
    HookContent::Push { branches: branches.iter().map(|branch| (*branch).to_owned()).collect() }
}

impl InboxFixture {
    /// Compares what is due after a pause.
    async fn compare(&self) {
        self.fixture.world.advance(COMPARISON_PAUSE);
        self.fixture.cases.carry_out_due_comparisons().await.unwrap();
    }

    async fn reference(&self) -> PullRef {
        let project = self.fixture.store.project(shop().id).await.unwrap().unwrap();
        let forge = self.host.of(&project).await.unwrap();
        let id = MemoryHost::repository().id;
        PullRef { repository: PullRepository { host: forge.host(), id }, number: PULL }
    }

    /// Returns the stored number of commits by which the pull request is behind.
    async fn behind(&self) -> Result<u64, NoComparison> {
        let found = self.fixture.store.comparisons(vec![self.reference().await]).await.unwrap();
        let found = found.into_iter().next().map_or(Err(NoComparison::NotYet), |known| known.result);
        found.map(|found| found.behind)
    }
}

#[tokio::test]
async fn webhooks_about_the_base_cause_a_comparison_at_once() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        assert_eq!(inbox.behind().await, Err(NoComparison::NotYet), "{name}");
        inbox.fixture.comparisons.put(PULL, behind(0));
        inbox.compare().await;
        assert_eq!(inbox.behind().await, Ok(0), "{name}: the job has opened it");
        let other = HookContent::Pull { number: 99, state: PullState::Merged, head: "x".to_owned(), head_sha: None };
        let opened = HookContent::Pull { number: 98, state: PullState::Open, head: "y".to_owned(), head_sha: None };
        for (index, (content, outcome, is_compared)) in [
            (push(&["main"]), "comparison_queued", true),
            (push(&["unrelated"]), "no_job", false),
            (push(&["a", "main"]), "comparison_queued", true),
            (other, "no_job", true),
            (opened, "no_job", false),
        ]
        .into_iter()
        .enumerate()
        {
            let count = u64::try_from(index).unwrap() + 1;
            inbox.fixture.comparisons.put(PULL, behind(count));
            let before = inbox.behind().await;
            inbox.deliver(content.clone()).await;
            inbox.carry_out().await;
            assert_eq!(inbox.outcomes().await.last().unwrap(), outcome, "{name}: {content:?}");
            inbox.compare().await;
            let expected = if is_compared { Ok(count) } else { before };
            assert_eq!(inbox.behind().await, expected, "{name}: {content:?}");
        }
        let events = inbox.events().await;
        assert!(events[0].read().is_none() && events[0].project == Some(shop().id), "{name}: {:?}", events[0]);
    }
}

#[tokio::test]
async fn a_person_who_looks_gets_what_is_stored_and_causes_the_next_comparison() {
    for inbox in InboxFixture::all().await {
        let (name, cases) = (inbox.name(), &inbox.fixture.cases);
        let project = inbox.fixture.store.project(shop().id).await.unwrap().unwrap();
        let look = async || {
            let [known] =
                cases.known_comparisons(&project, &[inbox.reference().await]).await.unwrap().try_into().unwrap();
            (known.result.map(|found| found.behind), known.at)
        };
        assert_eq!(look().await, (Err(NoComparison::NotYet), None), "{name}");
        inbox.fixture.comparisons.put(PULL, behind(1));
        inbox.compare().await;
        let at = inbox.fixture.world.now();
        inbox.fixture.comparisons.put(PULL, behind(2));
        inbox.compare().await;
        assert_eq!(look().await, (Ok(1), Some(at)), "{name}: nothing has happened");
        inbox.fixture.world.advance(SEEN_AGE + COMPARISON_PAUSE);
        assert_eq!(look().await, (Ok(1), Some(at)), "{name}: nobody waits");
        inbox.compare().await;
        assert_eq!(look().await, (Ok(2), Some(inbox.fixture.world.now())), "{name}");
    }
}

#[tokio::test]
async fn what_is_known_stays_while_a_repository_cannot_be_read() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.fixture.comparisons.put(PULL, behind(1));
        inbox.compare().await;
        inbox.fixture.comparisons.refuse(true);
        inbox.fixture.comparisons.put(PULL, behind(2));
        inbox.deliver(push(&["main"])).await;
        inbox.carry_out().await;
        inbox.compare().await;
        assert_eq!(inbox.behind().await, Ok(1), "{name}");
        inbox.fixture.comparisons.refuse(false);
        inbox.fixture.world.advance(Duration::from_secs(60));
        inbox.compare().await;
        assert_eq!(inbox.behind().await, Ok(2), "{name}: it is tried again soon");
        inbox.host.put_pull(journeyman_core::pull::HostPull {
            state: PullState::Closed,
            ..super::inbox::fixtures::pull(PullState::Open)
        });
        inbox
            .deliver(HookContent::Pull { number: PULL, state: PullState::Closed, head: "x".to_owned(), head_sha: None })
            .await;
        inbox.carry_out().await;
        inbox.fixture.world.advance(Duration::from_secs(3600));
        inbox.compare().await;
        assert_eq!(inbox.behind().await, Err(NoComparison::NotYet), "{name}: an ended one needs no row");
    }
}
