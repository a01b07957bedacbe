//! Tests of pull requests that the service keeps up to date, over each kind of store.

use journeyman_core::code_host::PullState;
use journeyman_core::ids::Sha;
use journeyman_core::job::updates::UpdateStop;
use journeyman_core::message::{Message, Origin};
use journeyman_core::project::{KeepUpToDate, Project};
use journeyman_core::pull::HostPull;
use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts};
use journeyman_core::pull::compared::next_comparison;

use super::inbox::fixtures::{InboxFixture, PULL, pull};

fn sha(digit: &str) -> Sha {
    digit.repeat(40).parse().unwrap()
}

fn comparison(base: &str, behind: u64, files: &[&str]) -> BaseComparison {
    let conflicts = Conflicts { files: files.iter().map(|file| (*file).to_owned()).collect(), more: 0 };
    BaseComparison { base: "main".to_owned(), base_sha: sha(base), head_sha: sha("f"), behind, conflicts }
}

fn keeps(mode: KeepUpToDate, most: u32) -> impl Fn(&mut Project) {
    move |project| {
        project.settings.pull_request.keep_up_to_date = mode;
        project.settings.limits.automatic_per_day = Some(most);
    }
}

impl InboxFixture {
    fn stands(&self, comparison: BaseComparison) {
        self.fixture.comparisons.put(PULL, comparison);
    }

    async fn keep(&self) {
        // As if the timer was the only cause.
        self.fixture.world.advance(next_comparison(KeepUpToDate::Off));
        self.fixture.cases.carry_out_due_comparisons().await.unwrap();
        self.carry_out().await;
    }

    async fn updates(&self) -> Vec<Message> {
        let mut messages = self.messages().await;
        messages.retain(|message| message.origin == Origin::Update);
        messages
    }
}

#[tokio::test]
async fn a_conflict_becomes_one_automatic_message() {
    for desk in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 20)).await {
        let name = desk.name();
        desk.keep().await;
        desk.stands(comparison("1", 3, &[]));
        desk.keep().await;
        assert_eq!(desk.updates().await.len(), 0, "{name}: it is only behind");
        desk.stands(comparison("2", 4, &["src/a.rs"]));
        desk.keep().await;
        desk.keep().await;
        let updates = desk.updates().await;
        assert_eq!(updates.len(), 1, "{name}: while the job is active, it is not asked again");
        let (update, source) = (&updates[0], updates[0].source.clone().unwrap());
        assert!(update.prompt.contains("Merge `origin/main`") && update.prompt.contains("- `src/a.rs`"), "{update:?}");
        assert_eq!((&update.author, source.number), (&None, PULL), "{name}");
        assert_eq!(source.id, format!("{}..{}", sha("2"), sha("f")), "{name}");
        desk.finish().await;
        desk.carry_out().await;
        assert_eq!(desk.host.written().len(), 1, "{name}: it is answered on the code host");
        desk.keep().await;
        assert_eq!(desk.updates().await.len(), 1, "{name}: not twice for the same commits");
        desk.stands(comparison("3", 5, &["src/a.rs"]));
        desk.keep().await;
        assert_eq!(desk.updates().await.len(), 2, "{name}");
    }
}

#[tokio::test]
async fn always_means_also_without_a_conflict_and_off_never() {
    for (mode, expected) in [(KeepUpToDate::Always, 1), (KeepUpToDate::Off, 0)] {
        for desk in InboxFixture::all_with(keeps(mode, 20)).await {
            desk.stands(comparison("1", 0, &[]));
            desk.keep().await;
            assert_eq!(desk.updates().await.len(), 0, "{}: it is up to date", desk.name());
            desk.stands(comparison("2", 3, &[]));
            desk.keep().await;
            assert_eq!(desk.updates().await.len(), expected, "{} {mode:?}", desk.name());
        }
    }
}

#[tokio::test]
async fn a_pull_request_that_a_person_has_closed_is_left_alone() {
    for desk in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 20)).await {
        desk.stands(comparison("1", 1, &["a"]));
        // No webhook has told of it yet.
        for changed in [
            pull(PullState::Closed),
            pull(PullState::Merged),
            HostPull { base: "v2".to_owned(), ..pull(PullState::Open) },
        ] {
            desk.host.put_pull(changed.clone());
            desk.keep().await;
            assert_eq!(desk.updates().await.len(), 0, "{}: {changed:?}", desk.name());
        }
        desk.host.put_pull(pull(PullState::Open));
        desk.keep().await;
        assert_eq!(desk.updates().await.len(), 1, "{}", desk.name());
    }
}

#[tokio::test]
async fn the_limit_of_automatic_messages_is_told_once() {
    for desk in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 1)).await {
        let name = desk.name();
        desk.stands(comparison("1", 1, &["a"]));
        desk.keep().await;
        desk.finish().await;
        desk.carry_out().await;
        for base in ["2", "3"] {
            desk.stands(comparison(base, 2, &["a"]));
            desk.keep().await;
        }
        assert_eq!(desk.updates().await.len(), 1, "{name}");
        assert_eq!(desk.job().await.updates.unwrap().stop, Some(UpdateStop::DailyLimit), "{name}");
        let comments: Vec<String> = desk.host.written().into_iter().map(|written| written.text).collect();
        let told = comments.iter().filter(|text| text.contains("the limit of automatic messages in a day is used up"));
        assert_eq!(told.count(), 1, "{name}: {comments:?}");
        let log = desk.fixture.store.log(desk.job, 0, 1000).await.unwrap();
        let events: Vec<_> = log.iter().filter(|entry| entry.kind == "pull_request.outdated").collect();
        assert_eq!(events.len(), 2, "{name}: {events:?}");
        assert_eq!(
            (&events[0].data["stop"], &events[1].data["stop"]),
            (&serde_json::Value::Null, &"daily_limit".into())
        );
    }
}

#[tokio::test]
async fn a_repository_that_cannot_be_read_is_read_again() {
    for desk in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 20)).await {
        desk.fixture.comparisons.refuse(true);
        desk.stands(comparison("1", 1, &["a"]));
        desk.keep().await;
        assert_eq!(desk.updates().await.len(), 0, "{}", desk.name());
        desk.fixture.comparisons.refuse(false);
        desk.keep().await;
        assert_eq!(desk.updates().await.len(), 1, "{}: it is tried again", desk.name());
    }
}
