//! Tests of mentions on pull requests that no job works on, and of comments on lines that are reviews of their own.

use std::time::Duration;

use journeyman_app::JobRequest;
use journeyman_core::code_host::{HostKind, PullState};
use journeyman_core::conversation::Permission;
use journeyman_core::engine::Control;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HostComment, HostReview, HostUser};
use journeyman_core::message::{Message, Origin};
use journeyman_core::ports::ForgeError;
use journeyman_core::position::{DiffSide, LineRange, Position, Thread};
use journeyman_core::project::Reviews;
use journeyman_core::pull::HostPull;
use journeyman_testkit::{HostCall, Moment};

use super::fixtures::{InboxFixture, comment, created, pull, review};
use crate::app::fixtures::{operator, shop};

/// The number of a pull request of a person.
const OTHER: u64 = 9;

fn of_person() -> HostPull {
    HostPull {
        number: OTHER,
        url: format!("https://host.example/acme/shop/pull/{OTHER}"),
        title: "Sort the list".to_owned(),
        head: "sort".to_owned(),
        ..pull(PullState::Open)
    }
}

fn on_other(comment: HostComment) -> HookContent {
    HookContent::Comment { number: OTHER, action: CommentAction::Created, comment }
}

/// Returns the messages of all jobs but that of the fixture.
async fn of_new_jobs(inbox: &InboxFixture) -> Vec<Message> {
    let mut found = Vec::new();
    for job in inbox.jobs().await.into_iter().filter(|job| job.id != inbox.job) {
        found.extend(inbox.fixture.store.messages(job.id).await.unwrap());
    }
    found
}

#[tokio::test]
async fn a_mention_on_a_pull_request_of_a_person_starts_work_on_it() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        inbox.host.put_pull(of_person());
        inbox.deliver(on_other(comment("1", &maria, "Nice."))).await;
        inbox.deliver(on_other(comment("2", &maria, "@journeyman add a test"))).await;
        inbox.settle().await;
        inbox.deliver(on_other(comment("3", &maria, "@journeyman and a comment"))).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["no_job", "job_created", "message"], "{name}");
        let jobs = inbox.jobs().await;
        let job = jobs.iter().find(|job| job.id != inbox.job).unwrap();
        assert_eq!(
            (jobs.len(), job.branch_name().as_str(), job.title.as_str()),
            (2, "sort", "Sort the list"),
            "{name}"
        );
        assert_eq!(job.pull.as_ref().unwrap().number, OTHER, "{name}");
        let messages = inbox.fixture.store.messages(job.id).await.unwrap();
        let prompts: Vec<&str> = messages.iter().map(|message| message.prompt.as_str()).collect();
        assert_eq!(prompts, ["@journeyman add a test", "@journeyman and a comment"], "{name}");
        let source = messages[0].source.clone().unwrap();
        assert_eq!(
            (source.origin, source.number, source.author.unwrap().id),
            (Origin::Comment, OTHER, maria.id),
            "{name}"
        );
        assert!(inbox.host.written().iter().all(|written| written.text.starts_with("⏳")), "{name}: only the progress");
    }
}

#[tokio::test]
async fn mentions_that_arrive_at_the_same_time_become_messages_of_one_job_in_their_order() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        inbox.host.put_pull(of_person());
        for id in ["1", "2", "3"] {
            inbox.deliver(on_other(comment(id, &maria, &format!("@journeyman do {id}")))).await;
        }
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["job_created", "message", "message"], "{name}");
        assert_eq!(inbox.jobs().await.len(), 2, "{name}");
        let all: String = of_new_jobs(&inbox).await.into_iter().map(|message| message.prompt).collect();
        let positions = ["1", "2", "3"].map(|id| all.find(&format!("@journeyman do {id}")));
        assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{name}: {all}");
    }
}

#[tokio::test]
async fn a_mention_on_a_line_of_a_review_starts_work_with_the_whole_review() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        inbox.host.put_pull(of_person());
        let (ignored, lines) = review("80", &maria, "Odd.", &["Really?"]);
        inbox.host.put_review(OTHER, ignored.clone(), lines);
        let (review, lines) = review("90", &maria, "Please.", &["@journeyman rename it", "This too."]);
        inbox.host.put_review(OTHER, review.clone(), lines.clone());
        for review in [ignored, review] {
            inbox.deliver(HookContent::Review { number: OTHER, action: CommentAction::Created, review }).await;
        }
        let line = HostComment {
            kind: CommentKind::Line,
            position: Some(lines[0].position.clone()),
            review: Some("90".to_owned()),
            ..comment("90-1", &maria, "@journeyman rename it")
        };
        inbox.deliver(on_other(line)).await;
        inbox.settle().await;
        let mut outcomes = inbox.outcomes().await;
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["job_created", "no_job", "part_of_review"], "{name}");
        let messages = of_new_jobs(&inbox).await;
        let prompt = &messages[0].prompt;
        assert!(["Please.", "rename it", "This too."].iter().all(|text| prompt.contains(text)), "{name}: {prompt}");
    }
}

#[tokio::test]
async fn an_approval_that_mentions_no_one_starts_nothing() {
    let inbox = InboxFixture::new().await;
    inbox.host.put_pull(of_person());
    let (praise, _) = review("90", &inbox.maria(), "LGTM!", &[]);
    let review = HostReview { approves: true, ..praise };
    inbox.host.put_review(OTHER, review.clone(), Vec::new());
    inbox.deliver(HookContent::Review { number: OTHER, action: CommentAction::Created, review }).await;
    inbox.settle().await;
    assert_eq!((inbox.outcomes().await, inbox.jobs().await.len()), (vec!["no_job".to_owned()], 1));
}

#[tokio::test]
async fn people_are_told_on_which_pull_requests_no_job_can_work() {
    let with = |change: fn(&mut HostPull)| {
        let mut pull = of_person();
        change(&mut pull);
        pull
    };
    for (pull, reason) in [
        (with(|pull| pull.is_from_fork = true), "is in another repository; journeyman pushes only to acme/shop"),
        (with(|pull| pull.state = PullState::Merged), "is merged"),
        (with(|pull| pull.head = "main".to_owned()), "jobs do not push to those"),
    ] {
        for inbox in InboxFixture::all().await {
            let name = inbox.name();
            inbox.host.put_pull(pull.clone());
            inbox.deliver(on_other(comment("1", &inbox.maria(), "@journeyman add a test"))).await;
            inbox.settle().await;
            assert_eq!((inbox.outcomes().await, inbox.jobs().await.len()), (vec!["no_job".to_owned()], 1), "{name}");
            let written = inbox.host.written();
            assert!(written[0].text.contains(reason), "{name}: {written:?}");
        }
    }
}

#[tokio::test]
async fn only_people_who_may_push_start_work() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.host.put_pull(of_person());
        let eve = inbox.host.user("eve", Permission::Read);
        let bot = HostUser { is_bot: true, ..inbox.host.user("ci", Permission::Write) };
        inbox.deliver(on_other(comment("1", &eve, "@journeyman add a test"))).await;
        inbox.deliver(on_other(comment("2", &bot, "@journeyman add a test"))).await;
        inbox.deliver(on_other(comment("3", &inbox.maria(), "@journeyman"))).await;
        inbox.settle().await;
        let mut outcomes = inbox.outcomes().await;
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["helped", "ignored_bot", "not_permitted"], "{name}");
        assert_eq!(inbox.jobs().await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_job_with_the_same_branch_is_named() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.host.put_pull(of_person());
        let request =
            JobRequest { prompt: "Sort".to_owned(), branch: Some("sort".to_owned()), ..JobRequest::default() };
        let job = inbox.fixture.cases.create_job(&operator(), &shop().id, request, None).await.unwrap().record.id;
        inbox.deliver(on_other(comment("1", &inbox.maria(), "@journeyman add a test"))).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["no_job"], "{name}");
        let text = inbox.host.written().remove(0).text;
        assert!(text.contains(&format!("the job {job} works on the branch")), "{name}: {text}");
        inbox.fixture.cases.control_job(&operator(), &shop().id, job, Control::Archive, None).await.unwrap();
        inbox.deliver(on_other(comment("2", &inbox.maria(), "@journeyman add a test"))).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await[1..], ["job_created"], "{name}");
    }
}

#[tokio::test]
async fn a_mention_makes_one_job_whatever_fails() {
    for call in [HostCall::Pulls, HostCall::Repository, HostCall::Me, HostCall::Permission] {
        for moment in [Moment::Before, Moment::After] {
            let inbox = InboxFixture::new().await;
            inbox.host.put_pull(of_person());
            inbox.host.fail(call, moment, ForgeError::Unclear("no answer".to_owned()), 2);
            let mention = on_other(comment("1", &inbox.maria(), "@journeyman add a test"));
            inbox.deliver(mention.clone()).await;
            inbox.deliver(mention).await;
            inbox.carry_out().await;
            for _ in 0..20 {
                inbox.wait(Duration::from_secs(30)).await;
            }
            let mut outcomes = inbox.outcomes().await;
            outcomes.sort_unstable();
            assert_eq!(outcomes, ["duplicate", "job_created"], "{call:?} {moment:?}");
            assert_eq!(of_new_jobs(&inbox).await.len(), 1, "{call:?} {moment:?}");
        }
    }
}

#[tokio::test]
async fn a_mention_makes_one_job_whenever_the_process_ends() {
    for polls in (0..400).step_by(3) {
        let inbox = InboxFixture::crashing().await;
        inbox.host.put_pull(of_person());
        inbox.deliver(on_other(comment("1", &inbox.maria(), "@journeyman add a test"))).await;
        inbox.crash(polls).await;
        for _ in 0..4 {
            inbox.wait(Duration::from_secs(60)).await;
        }
        assert_eq!(inbox.outcomes().await, ["job_created"], "after {polls} polls");
        assert_eq!(of_new_jobs(&inbox).await.len(), 1, "after {polls} polls");
    }
}

#[tokio::test]
async fn an_edit_changes_the_message_that_began_the_job() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        inbox.host.put_pull(of_person());
        let first = comment("1", &maria, "@journeyman add a test");
        inbox.deliver(on_other(first.clone())).await;
        inbox.settle().await;
        let (version, body) = ("2027-01-15T08:00:09Z".to_owned(), "@journeyman add two tests".to_owned());
        let edited = HostComment { version, body, ..first };
        inbox.deliver(HookContent::Comment { number: OTHER, action: CommentAction::Edited, comment: edited }).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["job_created", "message_changed"], "{name}");
        assert_eq!(of_new_jobs(&inbox).await[0].prompt, "@journeyman add two tests", "{name}");
    }
}

fn on_line(id: &str, author: &HostUser, body: &str) -> HostComment {
    let position = Position::lines("src/a.rs".to_owned(), LineRange::line(3), DiffSide::New);
    HostComment { kind: CommentKind::Line, position: Some(position), ..comment(id, author, body) }
}

#[tokio::test]
async fn comments_on_lines_are_reviews_where_the_host_reports_none() {
    for (kind, reviews, expected) in [
        (HostKind::Gitlab, Reviews::All, ["message", "message", "not_addressed", "not_permitted"]),
        (HostKind::Bitbucket, Reviews::All, ["message", "message", "not_addressed", "not_permitted"]),
        (HostKind::BitbucketDataCenter, Reviews::All, ["message", "message", "not_addressed", "not_permitted"]),
        (HostKind::Gitlab, Reviews::Mentioned, ["not_addressed", "message", "not_addressed", "not_addressed"]),
        (HostKind::Gitlab, Reviews::Off, ["not_addressed"; 4]),
        (HostKind::Gitea, Reviews::All, ["not_addressed", "message", "not_addressed", "not_addressed"]),
    ] {
        for inbox in InboxFixture::all_with(|project| project.settings.comments.reviews = reviews).await {
            let (name, maria) = (inbox.name(), inbox.maria());
            let eve = inbox.host.user("eve", Permission::Read);
            inbox.host.be(kind);
            for comment in [
                on_line("1", &maria, "Rename it."),
                on_line("2", &maria, "@journeyman and this"),
                comment("3", &maria, "Nice."),
                on_line("4", &eve, "Delete it."),
            ] {
                inbox.deliver(created(&comment)).await;
            }
            inbox.settle().await;
            assert_eq!(inbox.outcomes().await, expected, "{name} {kind:?} {reviews:?}");
            let messages = inbox.messages().await;
            let count = usize::from(expected.contains(&"message"));
            assert_eq!(messages.len(), count, "{name} {kind:?} {reviews:?}: they settle into one message");
            let told: Vec<String> = inbox.host.written().into_iter().map(|written| written.text).collect();
            let is_off = reviews == Reviews::Off;
            assert_eq!(told.iter().any(|text| text.contains("comments.reviews")), is_off, "{name}: {told:?}");
        }
    }
}

#[tokio::test]
async fn a_reply_whose_webhook_has_no_lines_is_a_review_too() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        inbox.host.be(HostKind::BitbucketDataCenter);
        // The host shows the lines of the reply when it is asked.
        let (known, lines) = review("90", &maria, "", &["Rename it."]);
        inbox.host.put_review(super::fixtures::PULL, known, lines);
        let reply =
            HostComment { thread: Some(Thread::answering("31".to_owned())), ..comment("90-1", &maria, "Rename it.") };
        inbox.deliver(created(&reply)).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message"], "{name}");
        assert!(inbox.message().await.prompt.contains("`src/file1.rs`, line 1"), "{name}");
    }
}

#[tokio::test]
async fn people_are_told_once_that_a_comment_waits_for_the_hourly_limit() {
    for inbox in InboxFixture::all_with(|project| project.settings.limits.message_per_hour = Some(1)).await {
        let (name, maria) = (inbox.name(), inbox.maria());
        inbox.deliver(created(&comment("1", &maria, "@journeyman rename it"))).await;
        inbox.settle().await;
        inbox.deliver(created(&comment("2", &maria, "@journeyman and this"))).await;
        inbox.settle().await;
        inbox.wait(Duration::from_secs(60)).await;
        let told =
            inbox.host.written().into_iter().filter(|written| written.text.starts_with("This waits: the hourly"));
        assert_eq!(told.count(), 1, "{name}: {:?}", inbox.host.written());
        inbox.wait(Duration::from_secs(3600)).await;
        assert_eq!(inbox.outcomes().await, ["message"; 2], "{name}");
    }
}
