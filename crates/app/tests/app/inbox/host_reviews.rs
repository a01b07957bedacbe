//! Tests of reviews that people ask for on pull requests.

use journeyman_core::code_host::{HostKind, PullState};
use journeyman_core::conversation::{DiffLine, Permission, Reaction};
use journeyman_core::hook::{CommentAction, HookContent, HostComment};
use journeyman_core::message::MessageStatus;
use journeyman_core::project::ReviewRequests;
use journeyman_core::pull::HostPull;

use super::fixtures::{InboxFixture, comment, pull};

/// The number of a pull request of a person, whose branch is in a fork.
const OTHER: u64 = 9;

fn of_fork() -> HostPull {
    HostPull {
        number: OTHER,
        url: format!("https://host.example/acme/shop/pull/{OTHER}"),
        title: "Sort the list".to_owned(),
        body: "It is sorted now.".to_owned(),
        head: "sort".to_owned(),
        is_from_fork: true,
        ..pull(PullState::Open)
    }
}

fn on_other(comment: HostComment) -> HookContent {
    HookContent::Comment { number: OTHER, action: CommentAction::Created, comment }
}

#[tokio::test]
async fn a_review_of_a_pull_request_of_a_fork_is_written_once_and_approves_nothing() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        inbox.host.put_pull(of_fork());
        let request = on_other(comment("1", &maria, "@journeyman review the order, please"));
        inbox.deliver(request.clone()).await;
        inbox.deliver(request).await;
        inbox.settle().await;
        let mut outcomes = inbox.outcomes().await;
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["duplicate", "job_created"], "{name}");
        let job = inbox.jobs().await.into_iter().find(|job| job.id != inbox.job).unwrap();
        assert_eq!((job.title.as_str(), job.pull.is_none()), ("Review #9: Sort the list", true), "{name}");
        let prompt = inbox.fixture.store.messages(job.id).await.unwrap().remove(0).prompt;
        assert!(
            prompt.contains("review the order, please") && prompt.contains("It is sorted now."),
            "{name}: {prompt}"
        );
        while inbox.work().await {}
        inbox.settle().await;
        let reviews = inbox.host.written_reviews();
        let [(OTHER, review)] = reviews.as_slice() else { unreachable!("{name}: {reviews:?}") };
        assert_eq!(review.commit.as_str(), format!("{:040x}", 2), "{name}");
        let line = DiffLine { old: None, new: Some(2) };
        let on_lines: Vec<_> =
            review.comments.iter().map(|one| (one.path.as_str(), one.last, one.body.as_str())).collect();
        assert_eq!(on_lines, [("list.txt", line, "Not sorted.")], "{name}");
        assert!(
            review.text.starts_with("One mistake.\n\n**`other.txt`, line 1**\n\nMissing."),
            "{name}: {}",
            review.text
        );
        assert_eq!(inbox.host.reactions("1"), [Reaction::Seen, Reaction::Done], "{name}");
        assert!(inbox.host.written().iter().all(|written| !written.text.contains("Done")), "{name}");
    }
}

#[tokio::test]
async fn the_project_says_who_may_ask_for_a_review() {
    for (setting, expected) in [
        (ReviewRequests::Write, ["job_created", "not_permitted", "not_permitted"]),
        (ReviewRequests::Read, ["job_created", "job_created", "not_permitted"]),
        // It is a task, and no job can push to the fork.
        (ReviewRequests::Off, ["no_job", "not_permitted", "not_permitted"]),
    ] {
        for inbox in InboxFixture::all_with(|project| project.settings.comments.review_requests = setting).await {
            let name = inbox.name();
            inbox.host.put_pull(of_fork());
            let eve = inbox.host.user("eve", Permission::Read);
            let mallory = inbox.host.user("mallory", Permission::None);
            for (id, author) in [("1", &inbox.maria()), ("2", &eve), ("3", &mallory)] {
                inbox.deliver(on_other(comment(id, author, "@journeyman review"))).await;
            }
            inbox.settle().await;
            assert_eq!(inbox.outcomes().await, expected, "{name} {setting:?}");
        }
    }
}

#[tokio::test]
async fn a_reader_may_ask_for_nothing_else() {
    for inbox in
        InboxFixture::all_with(|project| project.settings.comments.review_requests = ReviewRequests::Read).await
    {
        let name = inbox.name();
        inbox.host.put_pull(HostPull { is_from_fork: false, ..of_fork() });
        let eve = inbox.host.user("eve", Permission::Read);
        inbox.deliver(on_other(comment("1", &eve, "@journeyman fix it"))).await;
        inbox.deliver(on_other(comment("2", &eve, "Please @journeyman fix it and review"))).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["not_permitted"; 2], "{name}");
    }
}

#[tokio::test]
async fn what_cannot_be_reviewed_is_answered_with_the_reason() {
    for (pull, kind, reason) in [
        (of_fork(), HostKind::Bitbucket, "the code host has no ref for its commits"),
        (HostPull { state: PullState::Merged, ..of_fork() }, HostKind::Github, "so there is nothing to review"),
    ] {
        for inbox in InboxFixture::all().await {
            let name = inbox.name();
            inbox.host.be(kind);
            inbox.host.put_pull(pull.clone());
            inbox.deliver(on_other(comment("1", &inbox.maria(), "@journeyman review"))).await;
            inbox.settle().await;
            assert_eq!((inbox.outcomes().await, inbox.jobs().await.len()), (vec!["no_job".to_owned()], 1), "{name}");
            let told = inbox.host.written().remove(0).text;
            assert!(told.contains(reason), "{name}: {told}");
        }
    }
}

fn changed(comment: &HostComment, action: CommentAction, seconds: u64, body: &str) -> HookContent {
    let (version, body) = (format!("2027-01-15T08:00:{seconds:02}Z"), body.to_owned());
    HookContent::Comment { number: OTHER, action, comment: HostComment { version, body, ..comment.clone() } }
}

/// Returns the statuses of the messages of the jobs that review, oldest first.
async fn statuses(inbox: &InboxFixture) -> Vec<MessageStatus> {
    let mut found = Vec::new();
    for job in inbox.jobs().await.into_iter().filter(|job| job.options.review.is_some()) {
        let messages = inbox.fixture.store.messages(job.id).await.unwrap();
        found.extend(messages.into_iter().map(|message| message.status));
    }
    found
}

#[tokio::test]
async fn an_edit_of_a_request_replaces_a_review_that_waits_and_a_deletion_withdraws_it() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.host.put_pull(of_fork());
        let request = comment("1", &inbox.maria(), "@journeyman review");
        inbox.deliver(on_other(request.clone())).await;
        inbox.settle().await;
        inbox.deliver(changed(&request, CommentAction::Edited, 5, "@journeyman review the order")).await;
        inbox.settle().await;
        assert_eq!(statuses(&inbox).await, [MessageStatus::Withdrawn, MessageStatus::Queued], "{name}");
        inbox.deliver(changed(&request, CommentAction::Deleted, 9, "")).await;
        inbox.settle().await;
        assert_eq!(statuses(&inbox).await, [MessageStatus::Withdrawn; 2], "{name}");
        assert_eq!(inbox.outcomes().await, ["job_created", "job_created", "message_withdrawn"], "{name}");
        while inbox.work().await {}
        inbox.settle().await;
        assert_eq!(inbox.host.written_reviews(), [], "{name}");
    }
}

#[tokio::test]
async fn an_edit_of_a_request_after_the_review_has_begun_comes_too_late() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.host.put_pull(of_fork());
        let request = comment("1", &inbox.maria(), "@journeyman review");
        inbox.deliver(on_other(request.clone())).await;
        inbox.settle().await;
        while inbox.work().await {}
        inbox.deliver(changed(&request, CommentAction::Edited, 5, "@journeyman review the order")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["job_created", "too_late"], "{name}");
        assert_eq!((statuses(&inbox).await.len(), inbox.host.written_reviews().len()), (1, 1), "{name}");
    }
}

#[tokio::test]
async fn an_edit_by_someone_who_may_not_ask_changes_nothing() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.host.put_pull(of_fork());
        let request = comment("1", &inbox.maria(), "@journeyman review");
        inbox.deliver(on_other(request.clone())).await;
        inbox.settle().await;
        let eve = inbox.host.user("eve", Permission::Read);
        inbox.deliver_by(&eve, changed(&request, CommentAction::Edited, 5, "@journeyman review nothing")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["job_created", "not_permitted"], "{name}");
        assert_eq!(statuses(&inbox).await, [MessageStatus::Queued], "{name}");
    }
}
