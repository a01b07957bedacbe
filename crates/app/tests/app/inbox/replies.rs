//! Tests of what people see where they have asked: the summary with its progress, replies in threads, and resolution.

use std::sync::Arc;
use std::time::Duration;

use journeyman_app::{HostEffects, ProgressReporter};
use journeyman_core::conversation::Reaction;
use journeyman_core::hook::{CommentAction, HookContent};
use journeyman_core::job::command::Report;
use journeyman_core::job::effect::Effect;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::outbox::TASK_LEASE;
use journeyman_core::ports::{EffectHandler as _, ForgeError};
use journeyman_core::position::Thread;
use journeyman_core::project::{Answers, Resolve};
use journeyman_testkit::{HostCall, Moment, OneDiff};
use serde_json::json;

use super::fixtures::{InboxFixture, PULL, comment, created, deleted, review, submitted};

/// An answer of an agent to a review of three comments, one of which it says nothing about.
const ANSWER: &str =
    "All tests pass.\n\n### Comment 1\n\nRenamed, as @maria said.\n\n### Comment 3\n\nThis is right as it is.";

/// Delivers a review of three comments on lines, each of which begins a thread.
async fn deliver(inbox: &InboxFixture) {
    let (review, mut lines) = review("90", &inbox.maria(), "", &["Rename it.", "Add a test.", "Why?"]);
    for line in &mut lines {
        line.thread = Some(Thread::begun_by(&line.id));
    }
    inbox.host.put_review(PULL, review.clone(), lines);
    inbox.deliver(submitted(&review)).await;
    inbox.carry_out().await;
}

/// Returns the texts of the comments in the conversation.
fn written(inbox: &InboxFixture) -> Vec<String> {
    inbox.host.written().into_iter().map(|written| written.text).collect()
}

/// Returns the replies, each with the comment that it answers.
fn replies(inbox: &InboxFixture) -> Vec<(String, String)> {
    inbox.host.replies().into_iter().map(|reply| (reply.to, reply.text)).collect()
}

#[tokio::test]
async fn each_thread_of_a_review_gets_one_reply_and_the_conversation_one_summary() {
    for inbox in InboxFixture::all_with(|project| project.settings.comments.resolve = Resolve::Answered).await {
        let name = inbox.name();
        deliver(&inbox).await;
        let token = inbox.take().await;
        let sha = inbox.publish_with(token, ANSWER, &["src/file1.rs", "src/file2.rs"]).await;
        inbox.carry_out().await;
        let short = &sha.as_str()[..12];
        let expected = [
            ("90-1", format!("Renamed, as @`maria` said.\n\nCommit: {short}")),
            ("90-2", format!("✅ Done in {short}.")),
            ("90-3", "This is right as it is.".to_owned()),
        ];
        let expected = expected.map(|(to, text)| (to.to_owned(), text));
        assert_eq!(replies(&inbox), expected, "{name}");
        let summaries = written(&inbox);
        let [summary] = summaries.as_slice() else { panic!("{name}: {summaries:#?}") };
        assert!(
            summary.starts_with(&format!("✅ Done in {short}.\n\nAll tests pass.\n\nFor:\n\n- [Rename it.]")),
            "{summary}"
        );
        assert!(!summary.contains("as it is"), "{name}: {summary}");
        let before: Vec<String> = inbox.host.replaced().into_iter().map(|written| written.text).collect();
        assert!(matches!(before.as_slice(), [text] if text.starts_with("⏳ Queued.")), "{name}: {before:?}");
        assert_eq!(inbox.host.resolved(), ["90-1", "90-2"], "{name}: a thread without a commit stays open");

        // Effects may be repeated.
        let message = inbox.message().await;
        let handler = HostEffects::new(inbox.fixture.cases.clone(), Arc::new(OneDiff(String::new())));
        for effect in [
            Effect::Acknowledge { job: inbox.job, message: message.id },
            Effect::Answer { job: inbox.job, message: message.id },
        ] {
            handler.carry_out(&effect).await.unwrap();
        }
        assert_eq!((written(&inbox), replies(&inbox)), (summaries, expected.to_vec()), "{name}");
        assert_eq!(inbox.host.replaced().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn threads_stay_open_without_the_setting() {
    let inbox = InboxFixture::new().await;
    deliver(&inbox).await;
    inbox.finish().await;
    inbox.carry_out().await;
    assert_eq!((inbox.host.replies().len(), inbox.host.count(HostCall::Resolve)), (3, 0));
}

#[tokio::test]
async fn what_no_thread_accepts_is_in_the_summary() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.host.remove_replies();
        deliver(&inbox).await;
        let token = inbox.take().await;
        let sha = inbox.publish_with(token, ANSWER, &["src/file2.rs"]).await;
        inbox.carry_out().await;
        let summaries = written(&inbox);
        let [summary] = summaries.as_slice() else { panic!("{name}: {summaries:#?}") };
        let done = format!("Done in {}.", &sha.as_str()[..12]);
        for part in [
            "\n\nRenamed, as @`maria` said.\n\n",
            &done,
            "This is right as it is.",
            "replies in the threads of 3 comments",
        ] {
            assert!(summary.contains(part), "{name}: {part}: {summary}");
        }
        assert_eq!(inbox.host.reactions("90-1"), [Reaction::Seen, Reaction::Done], "{name}");
    }
}

#[tokio::test]
async fn a_refused_reply_is_not_tried_again() {
    let inbox = InboxFixture::new().await;
    deliver(&inbox).await;
    let token = inbox.take().await;
    inbox.publish_with(token, ANSWER, &["src/file1.rs"]).await;
    inbox.host.fail(HostCall::Reply, Moment::Before, ForgeError::Denied("the conversation is locked".to_owned()), 1);
    inbox.carry_out().await;
    inbox.wait(TASK_LEASE).await;
    assert_eq!((inbox.host.replies().len(), inbox.host.count(HostCall::Reply)), (2, 3));
    let summary = written(&inbox).remove(0);
    assert!(
        summary.contains("accepts no reply in the thread of a comment") && summary.contains("Renamed, as"),
        "{summary}"
    );
    assert!(!summary.contains("locked"), "{summary}");
}

#[tokio::test]
async fn a_process_that_dies_at_any_moment_doubles_nothing() {
    for polls in (0..80).step_by(3) {
        let inbox = InboxFixture::crashing().await;
        deliver(&inbox).await;
        inbox.finish().await;
        inbox.crash(polls).await;
        for _ in 0..3 {
            inbox.wait(TASK_LEASE).await;
        }
        let summaries = written(&inbox);
        assert!(matches!(summaries.as_slice(), [text] if text.starts_with("✅ Done in ")), "{polls}: {summaries:#?}");
        let answered: Vec<String> = replies(&inbox).into_iter().map(|(to, _)| to).collect();
        assert_eq!(answered, ["90-1", "90-2", "90-3"], "{polls}");
    }
}

#[tokio::test]
async fn the_summary_shows_the_progress_and_then_the_answer() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let reporter = ProgressReporter::new(inbox.fixture.cases.clone());
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
        inbox.settle().await;
        let token = inbox.take().await;
        assert!(!reporter.is_needed().await.unwrap(), "{name}: short work shows no progress");
        inbox.wait(ProgressReporter::PERIOD).await;
        assert!(reporter.is_needed().await.unwrap(), "{name}");
        reporter.report().await.unwrap();
        assert!(written(&inbox)[0].starts_with("⚙️ Working on it."), "{name}: {:?}", written(&inbox));
        let step = |content: &str, status: &str| json!({"content": content, "status": status});
        let steps = [step("Look", "completed"), step("Rename the @type", "in_progress"), step("Test", "pending")];
        let data = json!({"entries": steps});
        let plan = TranscriptEntry { kind: TranscriptKind::Plan, data, at: inbox.now() };
        inbox.fixture.engine.report(inbox.job, token, Report::Transcript(vec![plan])).await.unwrap();
        let requests = || inbox.host.count(HostCall::Comment);
        reporter.report().await.unwrap();
        let text = written(&inbox).remove(0);
        assert!(text.starts_with("⚙️ Working, step 2 of 3: Rename the @`type`\n\n[Job]("), "{name}: {text}");
        let before = requests();
        reporter.report().await.unwrap();
        assert_eq!(requests(), before, "{name}: the text has not changed");
        // Another process does not know what was shown.
        ProgressReporter::new(inbox.fixture.cases.clone()).report().await.unwrap();
        assert_eq!((requests(), inbox.host.replaced().len()), (before + 1, 2), "{name}");
        inbox.publish(token).await;
        inbox.carry_out().await;
        reporter.report().await.unwrap();
        assert!(!reporter.is_needed().await.unwrap(), "{name}");
        let texts = written(&inbox);
        assert!(matches!(texts.as_slice(), [text] if text.starts_with("✅ Done in ")), "{name}: {texts:?}");
    }
}

#[tokio::test]
async fn a_quiet_project_writes_only_the_answer() {
    for inbox in InboxFixture::all_with(|project| project.settings.comments.answers = Answers::Quiet).await {
        let name = inbox.name();
        let reporter = ProgressReporter::new(inbox.fixture.cases.clone());
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
        inbox.settle().await;
        let token = inbox.take().await;
        inbox.wait(Duration::from_secs(60)).await;
        reporter.report().await.unwrap();
        assert_eq!((written(&inbox), inbox.host.reactions("1")), (Vec::new(), vec![Reaction::Seen]), "{name}");
        inbox.publish(token).await;
        inbox.carry_out().await;
        assert_eq!((written(&inbox).len(), inbox.host.replaced().len()), (1, 0), "{name}");
    }
}

#[tokio::test]
async fn the_summary_of_a_withdrawn_message_does_not_wait() {
    for answers in [Answers::Full, Answers::Quiet] {
        for inbox in InboxFixture::all_with(|project| project.settings.comments.answers = answers).await {
            let name = inbox.name();
            let first = comment("1", &inbox.maria(), "@journeyman rename it");
            inbox.deliver(created(&first)).await;
            inbox.settle().await;
            inbox.deliver(deleted(&first)).await;
            inbox.carry_out().await;
            let texts = written(&inbox);
            let is_told = |text: &String| text.starts_with("🗑️ This was withdrawn");
            assert_eq!(texts.len(), usize::from(answers == Answers::Full), "{name}: {texts:?}");
            assert!(texts.iter().all(is_told), "{name}: {texts:?}");
            assert_eq!(inbox.host.reactions("1"), [Reaction::Seen], "{name}");
        }
    }
}

#[tokio::test]
async fn the_summary_waits_for_the_process_that_writes_it() {
    let inbox = InboxFixture::new().await;
    inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
    inbox.settle().await;
    let message = inbox.message().await.id;
    // A process has died while it wrote the summary.
    let lock = format!("summary/{message}");
    assert!(inbox.fixture.store.lock(lock, uuid::Uuid::from_u128(9), inbox.now(), TASK_LEASE).await.unwrap());
    inbox.finish().await;
    inbox.carry_out().await;
    assert!(written(&inbox)[0].starts_with('⏳'), "{:?}", written(&inbox));
    inbox.wait(TASK_LEASE + Duration::from_secs(1)).await;
    assert!(written(&inbox)[0].starts_with("✅ Done"), "{:?}", written(&inbox));
}

#[tokio::test]
async fn a_reply_in_a_thread_is_answered_there() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        let mut reply = comment("7", &inbox.maria(), "@journeyman do that");
        reply.thread = Some(Thread { parent: Some("5".to_owned()), ..Thread::begun_by("5") });
        inbox.deliver(HookContent::Comment { number: PULL, action: CommentAction::Created, comment: reply }).await;
        inbox.settle().await;
        let sha = inbox.finish().await;
        inbox.carry_out().await;
        let short = &sha.as_str()[..12];
        assert_eq!(replies(&inbox), [("7".to_owned(), format!("I did it.\n\nCommit: {short}"))], "{name}");
        assert!(written(&inbox)[0].starts_with(&format!("✅ Done in {short}.\n\nFor:\n\n")), "{name}");
    }
}
