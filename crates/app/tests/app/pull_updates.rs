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
    for inbox in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 20)).await {
        let name = inbox.name();
        inbox.keep().await;
        inbox.stands(comparison("1", 3, &[]));
        inbox.keep().await;
        assert_eq!(inbox.updates().await.len(), 0, "{name}: it is only behind");
        inbox.stands(comparison("2", 4, &["src/a.rs"]));
        inbox.keep().await;
        inbox.keep().await;
        let updates = inbox.updates().await;
        assert_eq!(updates.len(), 1, "{name}: while the job is active, it is not asked again");
        let (update, source) = (&updates[0], updates[0].source.clone().unwrap());
        assert!(update.prompt.contains("Merge `origin/main`") && update.prompt.contains("- `src/a.rs`"), "{update:?}");
        assert_eq!((&update.author, source.number), (&None, PULL), "{name}");
        assert_eq!(source.id, format!("{}..{}", sha("2"), sha("f")), "{name}");
        inbox.finish().await;
        inbox.carry_out().await;
        assert_eq!(inbox.host.written().len(), 1, "{name}: it is answered on the code host");
        inbox.keep().await;
        assert_eq!(inbox.updates().await.len(), 1, "{name}: not twice for the same commits");
        inbox.stands(comparison("3", 5, &["src/a.rs"]));
        inbox.keep().await;
        assert_eq!(inbox.updates().await.len(), 2, "{name}");
    }
}

#[tokio::test]
async fn always_means_also_without_a_conflict_and_off_never() {
    for (mode, expected) in [(KeepUpToDate::Always, 1), (KeepUpToDate::Off, 0)] {
        for inbox in InboxFixture::all_with(keeps(mode, 20)).await {
            inbox.stands(comparison("1", 0, &[]));
            inbox.keep().await;
            assert_eq!(inbox.updates().await.len(), 0, "{}: it is up to date", inbox.name());
            inbox.stands(comparison("2", 3, &[]));
            inbox.keep().await;
            assert_eq!(inbox.updates().await.len(), expected, "{} {mode:?}", inbox.name());
        }
    }
}

#[tokio::test]
async fn a_pull_request_that_a_person_has_closed_is_left_alone() {
    for inbox in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 20)).await {
        inbox.stands(comparison("1", 1, &["a"]));
        // No webhook has told of it yet.
        for changed in [
            pull(PullState::Closed),
            pull(PullState::Merged),
            HostPull { base: "v2".to_owned(), ..pull(PullState::Open) },
        ] {
            inbox.host.put_pull(changed.clone());
            inbox.keep().await;
            assert_eq!(inbox.updates().await.len(), 0, "{}: {changed:?}", inbox.name());
        }
        inbox.host.put_pull(pull(PullState::Open));
        inbox.keep().await;
        assert_eq!(inbox.updates().await.len(), 1, "{}", inbox.name());
    }
}

#[tokio::test]
async fn the_limit_of_automatic_messages_is_told_once() {
    for inbox in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 1)).await {
        let name = inbox.name();
        inbox.stands(comparison("1", 1, &["a"]));
        inbox.keep().await;
        inbox.finish().await;
        inbox.carry_out().await;
        for base in ["2", "3"] {
            inbox.stands(comparison(base, 2, &["a"]));
            inbox.keep().await;
        }
        assert_eq!(inbox.updates().await.len(), 1, "{name}");
        assert_eq!(inbox.job().await.updates.unwrap().stop, Some(UpdateStop::DailyLimit), "{name}");
        let comments: Vec<String> = inbox.host.written().into_iter().map(|written| written.text).collect();
        let told = comments.iter().filter(|text| text.contains("the limit of automatic messages in a day is used up"));
        assert_eq!(told.count(), 1, "{name}: {comments:?}");
        let log = inbox.fixture.store.log(inbox.job, 0, 1000).await.unwrap();
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
    for inbox in InboxFixture::all_with(keeps(KeepUpToDate::Conflicts, 20)).await {
        inbox.fixture.comparisons.refuse(true);
        inbox.stands(comparison("1", 1, &["a"]));
        inbox.keep().await;
        assert_eq!(inbox.updates().await.len(), 0, "{}", inbox.name());
        inbox.fixture.comparisons.refuse(false);
        inbox.keep().await;
        assert_eq!(inbox.updates().await.len(), 1, "{}: it is tried again", inbox.name());
    }
}
