//! Tests of the index of pull requests, on both databases.

use std::time::Duration;

use journeyman_core::code_host::{HostName, PullRef, PullRepository, PullState};
use journeyman_core::engine::NewJob;
use journeyman_core::ids::JobId;
use journeyman_core::job::JobOptions;
use journeyman_core::ports::{PullCounts, PullCursor, PullFilter};
use journeyman_core::pull::existing::ExistingPull;
use journeyman_core::pull::{IndexedPull, Pull, PullSummary};
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_testkit::Seeds as _;

use super::fixtures::{Fixture, all, free, new_job, project, shop};

pub(crate) fn remote() -> PullRepository {
    PullRepository { host: HostName("git.example".to_owned()), id: "7".to_owned() }
}

pub(super) fn pull(repository: PullRepository, number: u64) -> Pull {
    let known = Pull::new(number, format!("https://git.example/a/b/pull/{number}"));
    Pull { repository: Some(repository), title: Some(format!("Title {number}")), ..known }
}

impl Fixture {
    /// Creates a job of a project that works on an existing pull request, a second after the last one.
    pub(crate) async fn on_pull(&self, of: &str, repository: PullRepository, number: u64) -> JobId {
        self.world.advance(Duration::from_secs(1));
        let pull = pull(repository, number);
        let (head, base) = (format!("branch-{number}"), "main".to_owned());
        let existing = Some(Box::new(ExistingPull { pull, head, head_sha: None, base }));
        let new = NewJob { options: JobOptions { pull: existing, ..JobOptions::default() }, ..new_job("a") };
        self.engine.create_job(&project(of), new, free()).await.unwrap().record.id
    }

    pub(super) async fn record(
        &self,
        job: JobId,
        number: u64,
        state: PullState,
        summary: Option<PullSummary>,
    ) -> Timestamp {
        self.world.advance(Duration::from_secs(1));
        let pull = PullRef { repository: remote(), number };
        self.engine.record_pull(&shop(), job, pull, state, false, summary).await.unwrap();
        self.world.now()
    }

    async fn indexed(&self, number: u64) -> IndexedPull {
        self.store.indexed_pull(remote(), number).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn the_end_of_a_pull_request_has_the_time_at_which_it_was_recorded() {
    for fixture in all().await {
        let name = fixture.name;
        let job = fixture.on_pull("shop", remote(), 1).await;
        assert_eq!(fixture.indexed(1).await.ended_at, None, "{name}");
        let closed = fixture.record(job, 1, PullState::Closed, None).await;
        fixture.record(job, 1, PullState::Closed, None).await;
        assert_eq!(fixture.indexed(1).await.ended_at, Some(closed), "{name}: the first time stays");
        fixture.record(job, 1, PullState::Open, None).await;
        assert_eq!(fixture.indexed(1).await.ended_at, None, "{name}");
        let merged = fixture.record(job, 1, PullState::Merged, None).await;
        let found = fixture.indexed(1).await;
        assert_eq!((found.state, found.ended_at), (PullState::Merged, Some(merged)), "{name}");
    }
}

#[tokio::test]
async fn the_title_is_the_one_that_the_host_has_told_last() {
    for fixture in all().await {
        let name = fixture.name;
        let job = fixture.on_pull("shop", remote(), 1).await;
        assert_eq!(fixture.indexed(1).await.title.as_deref(), Some("Title 1"), "{name}");
        let summary = PullSummary { title: "Other title".to_owned(), draft: true };
        fixture.record(job, 1, PullState::Open, Some(summary)).await;
        let found = fixture.indexed(1).await;
        assert_eq!((found.title.as_deref(), found.draft), (Some("Other title"), true), "{name}");
        fixture.record(job, 1, PullState::Merged, None).await;
        assert_eq!(fixture.indexed(1).await.title.as_deref(), Some("Other title"), "{name}");
    }
}

#[tokio::test]
async fn the_list_has_the_pull_requests_of_a_project_in_a_state_on_pages() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.store.create_project(project("blog"), [].into()).await.unwrap();
        for number in 1..=5 {
            let job = fixture.on_pull("shop", remote(), number).await;
            if number == 2 {
                fixture.record(job, number, PullState::Merged, None).await;
            }
        }
        fixture.on_pull("blog", remote(), 6).await;
        fixture.on_pull("shop", PullRepository::local("shop"), 7).await;
        let list = async |state, after, limit| {
            fixture.store.remote_pulls(PullFilter { project: shop(), state, after, limit }).await.unwrap()
        };
        let numbers = |pulls: &[IndexedPull]| pulls.iter().map(|pull| pull.number).collect::<Vec<_>>();
        let page = list(PullState::Open, None, 2).await;
        assert_eq!(numbers(&page), [5, 4], "{name}");
        let after = Some(PullCursor { created_at: page[1].created_at, number: 4 });
        assert_eq!(numbers(&list(PullState::Open, after, 9).await), [3, 1], "{name}");
        assert_eq!(numbers(&list(PullState::Merged, None, 9).await), [2], "{name}");
        assert_eq!(numbers(&list(PullState::Closed, None, 9).await), Vec::<u64>::new(), "{name}");
        let counts = fixture.store.count_remote_pulls(shop()).await.unwrap();
        assert_eq!(counts, PullCounts { open: 4, merged: 1, closed: 0 }, "{name}");
    }
}
