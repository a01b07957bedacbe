//! Tests of comments that become messages, and of the answers to them.

use std::time::Duration;

use journeyman_app::Received;
use journeyman_core::checks::StatusState;
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::{CommentTarget, Permission, Reaction};
use journeyman_core::hook::{CommentAction, CommentKind, HookContent};
use journeyman_core::ids::Sha;
use journeyman_core::job::{JobState, JobStatus};
use journeyman_core::message::{MessageStatus, Origin};
use journeyman_core::project::RepositoryIdentity;
use journeyman_core::version::Precondition;
use journeyman_testkit::{HostCall, MemoryHost};

use super::fixtures::{InboxFixture, PULL, SETTLE, comment, created, edited, pull_event};
use crate::app::fixtures::{operator, shop};

#[tokio::test]
async fn a_comment_becomes_a_message_with_its_source_after_the_settle_time() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
        inbox.carry_out().await;
        inbox.wait(SETTLE - Duration::from_millis(1)).await;
        assert_eq!((inbox.outcomes().await, inbox.prompts().await.len()), (vec!["waiting".to_owned()], 0), "{name}");
        inbox.wait(Duration::from_millis(1)).await;
        assert_eq!(inbox.outcomes().await, ["message"], "{name}");
        let message = inbox.message().await;
        assert_eq!((message.prompt.as_str(), message.origin), ("@journeyman rename it", Origin::Comment), "{name}");
        assert_eq!(message.author.as_deref(), Some("maria"), "{name}");
        let source = message.source.unwrap();
        assert_eq!(
            (source.origin, source.number, source.url),
            (Origin::Comment, PULL, "https://host.example/comment/1".to_owned())
        );
        assert_eq!(source.repository, inbox.host.indexed(), "{name}");
        let author = source.author.unwrap();
        assert_eq!((author.id.as_str(), author.permission), ("id-maria", Permission::Write), "{name}");
        let comments: Vec<_> =
            source.comments.iter().map(|one| (one.kind, one.id.as_str(), one.title.as_str())).collect();
        assert_eq!(comments, [(CommentKind::Pull, "1", "@journeyman rename it")], "{name}");
        let event = inbox.events().await.remove(0);
        assert_eq!((event.job, event.message), (Some(inbox.job), Some(message.id)), "{name}");
    }
}

#[tokio::test]
async fn comments_that_arrive_together_become_one_message() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let (maria, ben) = (inbox.maria(), inbox.host.user("ben", Permission::Admin));
        for (id, author) in [("1", &maria), ("2", &ben), ("3", &maria)] {
            inbox.deliver(created(&comment(id, author, &format!("@journeyman do {id}.")))).await;
            inbox.carry_out().await;
            inbox.wait(SETTLE / 2).await;
        }
        assert_eq!(inbox.prompts().await.len(), 0, "{name}: each comment extends the time");
        inbox.wait(SETTLE / 2).await;
        assert_eq!(inbox.outcomes().await, ["message"; 3], "{name}");
        let message = inbox.message().await;
        for part in ["(3 comments)", "do 1.", "do 2.", "do 3.", "(ben)"] {
            assert!(message.prompt.contains(part), "{name}: {part}: {}", message.prompt);
        }
        assert_eq!(message.author.as_deref(), Some("maria, ben"), "{name}");
    }
}

#[tokio::test]
async fn comments_do_not_wait_longer_than_two_minutes() {
    let inbox = InboxFixture::new().await;
    for id in 0..8 {
        inbox.deliver(created(&comment(&id.to_string(), &inbox.maria(), "@journeyman and this"))).await;
        inbox.carry_out().await;
        inbox.wait(SETTLE - Duration::from_secs(1)).await;
    }
    assert_eq!(inbox.prompts().await.len(), 1, "{:?}", inbox.outcomes().await);
}

#[tokio::test]
async fn a_redelivery_and_a_second_subscription_change_nothing() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let content = created(&comment("1", &inbox.maria(), "@journeyman rename it"));
        assert_eq!(inbox.deliver_as("a", content.clone()).await, Received::Stored, "{name}");
        assert_eq!(inbox.deliver_as("a", content.clone()).await, Received::Known, "{name}");
        inbox.settle().await;
        assert_eq!(inbox.deliver_as("a", content.clone()).await, Received::Known, "{name}");
        assert_eq!(inbox.deliver_as("b", content).await, Received::Stored, "{name}");
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message", "duplicate"], "{name}");
        inbox.message().await;
    }
}

#[tokio::test]
async fn a_message_is_acknowledged_at_once_and_answered_once_at_its_end() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        for id in ["1", "2"] {
            inbox.deliver(created(&comment(id, &inbox.maria(), &format!("@journeyman do {id}.")))).await;
        }
        inbox.settle().await;
        assert_eq!(
            (inbox.host.reactions("1"), inbox.host.reactions("2")),
            (vec![Reaction::Seen], vec![Reaction::Seen])
        );
        let queued: Vec<String> = inbox.host.written().into_iter().map(|written| written.text).collect();
        assert!(matches!(queued.as_slice(), [text] if text.starts_with("⏳ Queued.")), "{name}: {queued:?}");
        let sha = inbox.finish().await;
        inbox.carry_out().await;
        let written = inbox.host.written();
        assert_eq!(written.len(), 1, "{name}: {written:#?}");
        assert_eq!(written[0].target, CommentTarget::Pull(PULL), "{name}");
        let done = format!("✅ Done in {}.\n\nI did it.", &sha.as_str()[..12]);
        assert!(written[0].text.starts_with(&done), "{name}: {}", written[0].text);
        for id in ["1", "2"] {
            assert!(written[0].text.contains(&format!("(https://host.example/comment/{id})")), "{name}");
            assert_eq!(inbox.host.reactions(id), [Reaction::Seen, Reaction::Done], "{name}");
        }
        let states: Vec<_> = inbox.host.statuses(&sha).into_iter().map(|status| status.description).collect();
        assert_eq!(states, ["The agent has finished"], "{name}");
    }
}

#[tokio::test]
async fn no_commit_keeps_the_status_of_work_in_progress() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let older = inbox.job().await.branch.unwrap().pushed.unwrap();
        inbox.deliver(created(&comment("1", &maria, "@journeyman rename it"))).await;
        inbox.settle().await;
        let token = inbox.take().await;
        inbox.carry_out().await;
        let last = |sha: &Sha| inbox.host.statuses(sha).pop().unwrap();
        assert_eq!(last(&older).state, StatusState::Pending, "{name}");
        let newer = inbox.publish(token).await;
        inbox.carry_out().await;
        assert_eq!((last(&older).state, last(&newer).state), (StatusState::Success, StatusState::Success), "{name}");
        // The pull request is merged while the agent works.
        inbox.deliver(created(&comment("2", &maria, "@journeyman and this"))).await;
        inbox.settle().await;
        inbox.take().await;
        inbox.carry_out().await;
        assert_eq!(last(&newer).state, StatusState::Pending, "{name}");
        inbox.deliver(pull_event(PullState::Merged)).await;
        inbox.settle().await;
        assert_eq!(last(&newer).state, StatusState::Success, "{name}");
    }
}

#[tokio::test]
async fn a_comment_without_a_mention_is_not_for_the_job() {
    let inbox = InboxFixture::new().await;
    inbox.deliver(created(&comment("1", &inbox.maria(), "Looks good to me."))).await;
    inbox.settle().await;
    assert_eq!((inbox.outcomes().await, inbox.prompts().await.len()), (vec!["not_addressed".to_owned()], 0));
    assert_eq!(inbox.host.count(HostCall::Permission), 0, "nobody's permission is asked");
}

#[tokio::test]
async fn stop_cancels_the_job_and_drops_the_comments_that_wait() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let maria = inbox.maria();
        inbox.deliver(created(&comment("1", &maria, "@journeyman rename it"))).await;
        inbox.settle().await;
        inbox.take().await;
        inbox.deliver(created(&comment("2", &maria, "@journeyman and this"))).await;
        inbox.carry_out().await;
        let stop = created(&comment("3", &maria, "@journeyman stop"));
        inbox.deliver(stop.clone()).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message", "cancelled", "cancelled"], "{name}");
        assert_eq!(inbox.message().await.status, MessageStatus::Cancelled, "{name}");
        assert_eq!(inbox.job().await.status(), JobStatus::Failed, "{name}");
        assert_eq!(inbox.host.reactions("3"), [Reaction::Done], "{name}");
        let head = inbox.job().await.branch.unwrap().pushed.unwrap();
        let status = inbox.host.statuses(&head).pop().unwrap();
        assert_eq!(
            (status.state, status.description.as_str()),
            (StatusState::Success, "The agent was stopped"),
            "{name}"
        );

        // The webhook of a second subscription arrives during the next message, which it must not stop.
        inbox.deliver(created(&comment("4", &maria, "@journeyman go on"))).await;
        inbox.settle().await;
        inbox.take().await;
        inbox.deliver(stop).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await[3..], ["message", "duplicate"], "{name}");
        assert!(matches!(inbox.job().await.state, JobState::Active(_)), "{name}");
    }
}

#[tokio::test]
async fn help_is_written_once() {
    for inbox in InboxFixture::all().await {
        let (name, help) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman help"));
        inbox.deliver(created(&help)).await;
        inbox.deliver(created(&help)).await;
        inbox.settle().await;
        inbox.deliver(created(&help)).await;
        inbox.settle().await;
        let written = inbox.host.written();
        assert_eq!(written.len(), 1, "{name}: {written:#?}");
        assert!(
            written[0].text.contains("`@journeyman stop`") && written[0].target == CommentTarget::Pull(PULL),
            "{name}"
        );
        let mut outcomes = inbox.outcomes().await;
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["duplicate", "duplicate", "helped"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_comment_for_an_archived_job_says_that_it_is_archived() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.fixture.engine.archive(&shop().id, inbox.job).await.unwrap();
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
        inbox.settle().await;
        let event = inbox.events().await.remove(0);
        assert_eq!(inbox.outcomes().await, ["job_archived"], "{name}");
        assert!(event.detail.unwrap().contains("unarchive it"), "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_comment_on_an_unknown_pull_request_or_of_a_deleted_project_leads_to_nothing() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let comment_on = |number: u64| {
            let comment = comment(&number.to_string(), &maria, "@journeyman rename it");
            HookContent::Comment { number, action: CommentAction::Created, comment }
        };
        inbox.deliver(comment_on(99)).await;
        inbox.deliver(comment_on(PULL)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.outcomes().await, ["no_job", "waiting"], "{name}");
        inbox.fixture.cases.delete_project(&operator(), &shop().id, Precondition::None).await.unwrap();
        inbox.deliver(comment_on(2)).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await.last().unwrap(), "no_project", "{name}");
        assert!(!inbox.outcomes().await.contains(&"waiting".to_owned()), "{name}");
    }
}

#[tokio::test]
async fn events_of_another_repository_with_the_address_of_a_project_lead_to_nothing() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let seen = |id: &str| RepositoryIdentity { address: MemoryHost::REPOSITORY.to_owned(), id: id.to_owned() };
        inbox.fixture.store.identify_repository(shop().id, seen("41")).await.unwrap();
        let comment = comment("1", &inbox.maria(), "@journeyman rename it");
        inbox.deliver(HookContent::Comment { number: 99, action: CommentAction::Created, comment }).await;
        inbox.carry_out().await;
        assert_eq!(inbox.outcomes().await, ["no_project"], "{name}: the event is about repository 42");
    }
}

#[tokio::test]
async fn one_message_belongs_to_one_conversation() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let maria = inbox.maria();
        let issue = super::fixtures::issue(5, &maria, "Crash");
        inbox.deliver_by(&maria, super::fixtures::labeled(&issue)).await;
        inbox.carry_out().await;
        let job = inbox.events().await[0].job.unwrap();
        // The job of the issue has no pull request, so its only conversation is the issue.
        let mut on_issue = comment("1", &maria, "@journeyman more");
        on_issue.kind = CommentKind::Issue;
        let action = CommentAction::Created;
        inbox.deliver(HookContent::Comment { number: 5, action, comment: on_issue }).await;
        inbox.deliver(created(&comment("2", &maria, "@journeyman other"))).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["job_created", "message", "message"], "{name}");
        let messages = inbox.fixture.store.messages(job).await.unwrap();
        assert_eq!(messages.last().unwrap().prompt, "@journeyman more", "{name}");
        assert_eq!(inbox.prompts().await, ["@journeyman other"], "{name}");
    }
}

#[tokio::test]
async fn an_edit_can_address_the_service_for_the_first_time() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "Rename it."));
        inbox.deliver(created(&first)).await;
        inbox.settle().await;
        inbox.deliver(edited(&first, 5, "@journeyman rename it")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["not_addressed", "message"], "{name}");
        assert_eq!(inbox.prompts().await, ["@journeyman rename it"], "{name}");
    }
}
