//! Tests of submitted reviews.

use journeyman_core::conversation::Reaction;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HostReview};
use journeyman_core::message::Origin;
use journeyman_core::project::Reviews;
use journeyman_core::prompt::MAX_PROMPT_CHARS;

use super::fixtures::{InboxFixture, PULL, comment, created, review, submitted};

/// Delivers a review with comments on lines, whose webhooks arrive too.
async fn deliver(inbox: &InboxFixture, id: &str, body: &str, lines: &[String]) {
    let maria = inbox.maria();
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (review, lines) = review(id, &maria, body, &texts);
    inbox.host.put_review(PULL, review.clone(), lines.clone());
    for line in &lines {
        let mut comment = comment(&line.id, &maria, &line.body);
        (comment.kind, comment.review) = (CommentKind::Line, Some(id.to_owned()));
        (comment.position, comment.hunk) = (Some(line.position.clone()), line.hunk.clone());
        inbox.deliver(created(&comment)).await;
    }
    inbox.deliver(submitted(&review)).await;
    inbox.carry_out().await;
}

#[tokio::test]
async fn a_review_becomes_one_message_with_the_place_and_the_diff_of_each_comment() {
    for count in [12, 40] {
        for inbox in InboxFixture::all().await {
            let name = inbox.name();
            let lines: Vec<String> = (1..=count).map(|line| format!("Comment number {line}.")).collect();
            deliver(&inbox, "90", "", &lines).await;
            let message = inbox.message().await;
            assert!(message.prompt.contains(&format!("({count} comments)")), "{name}: {}", message.prompt);
            for line in 1..=count {
                let heading = format!("on `src/file{line}.rs`, line {line} (maria)");
                let hunk = format!("@@ -{line} +{line} @@\n-old {line}\n+new {line}\n");
                let text = format!("Comment number {line}.\n");
                let counts = [heading, hunk, text].map(|part| message.prompt.matches(&part).count());
                assert_eq!(counts, [1, 1, 1], "{name}: {line}: {}", message.prompt);
            }
            let source = message.source.unwrap();
            assert_eq!((source.origin, source.comments.len()), (Origin::Review, count), "{name}");
            let mut outcomes = inbox.outcomes().await;
            assert_eq!(outcomes.pop().as_deref(), Some("message"), "{name}");
            assert!(outcomes.iter().all(|outcome| outcome == "part_of_review"), "{name}: {outcomes:?}");
        }
    }
}

#[tokio::test]
async fn a_review_is_answered_once_with_a_reaction_to_each_comment() {
    let inbox = InboxFixture::new().await;
    let lines: Vec<String> = (1..=12).map(|line| format!("Comment number {line}.")).collect();
    deliver(&inbox, "90", "Please change this.", &lines).await;
    inbox.finish().await;
    inbox.carry_out().await;
    let written = inbox.host.written();
    assert_eq!((written.len(), written[0].text.matches("\n- [").count()), (1, 13), "{}", written[0].text);
    for line in 1..=12 {
        assert_eq!(inbox.host.reactions(&format!("90-{line}")), [Reaction::Seen, Reaction::Done]);
    }
}

#[tokio::test]
async fn a_review_takes_the_comments_that_wait_with_it() {
    let inbox = InboxFixture::new().await;
    inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
    inbox.carry_out().await;
    deliver(&inbox, "90", "Please change this.", &[]).await;
    let prompt = inbox.message().await.prompt;
    assert!(prompt.contains("rename it") && prompt.contains("Please change this."), "{prompt}");
    assert_eq!(inbox.outcomes().await, ["message"; 2]);
}

#[tokio::test]
async fn an_empty_review_leads_to_nothing() {
    let inbox = InboxFixture::new().await;
    deliver(&inbox, "90", "", &[]).await;
    assert_eq!((inbox.outcomes().await, inbox.prompts().await.len()), (vec!["empty".to_owned()], 0));
}

#[tokio::test]
async fn a_review_without_a_mention_counts_only_if_all_reviews_do() {
    for inbox in InboxFixture::all_with(|project| project.settings.comments.reviews = Reviews::Mentioned).await {
        let name = inbox.name();
        deliver(&inbox, "90", "Please change this.", &["Here.".to_owned()]).await;
        assert_eq!(inbox.outcomes().await[1], "not_addressed", "{name}");
        deliver(&inbox, "91", "@journeyman please change this.", &["There.".to_owned()]).await;
        assert!(inbox.message().await.prompt.contains("There."), "{name}");
    }
}

#[tokio::test]
async fn a_review_that_was_dismissed_before_its_delivery_is_withdrawn() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        deliver(&inbox, "90", "Please change this.", &["Here.".to_owned()]).await;
        assert_eq!(inbox.prompts().await.len(), 1, "{name}");
        let (review, _) = review("90", &inbox.maria(), "Please change this.", &[]);
        inbox.deliver(HookContent::Review { number: PULL, action: CommentAction::Deleted, review }).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await[1..], ["message", "message_withdrawn"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn no_comment_of_a_very_long_review_is_cut_off() {
    let inbox = InboxFixture::new().await;
    let maria = inbox.maria();
    let texts: Vec<String> = (1..=60).map(|line| format!("Comment number {line}. {}", "x".repeat(4_000))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (review, mut lines) = review("90", &maria, "Please.", &texts);
    for line in &mut lines {
        line.hunk = Some("y".repeat(4_000));
    }
    inbox.host.put_review(PULL, review.clone(), lines);
    inbox.deliver(submitted(&review)).await;
    inbox.carry_out().await;
    let prompt = inbox.message().await.prompt;
    assert!(prompt.chars().count() <= MAX_PROMPT_CHARS);
    for line in 1..=60 {
        assert!(prompt.contains(&format!("Comment number {line}. ")), "{line} is missing");
    }
    assert!(prompt.contains("All of it: https://host.example/line/90-60)"), "{}", &prompt[90_000..]);
}

#[tokio::test]
async fn stop_as_a_comment_on_a_line_stops_the_job() {
    for inbox in InboxFixture::all().await {
        let name = inbox.name();
        inbox.deliver(created(&comment("1", &inbox.maria(), "@journeyman rename it"))).await;
        inbox.carry_out().await;
        deliver(&inbox, "90", "", &["@journeyman stop".to_owned()]).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["cancelled", "part_of_review", "cancelled"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_mention_on_a_line_counts_where_only_mentions_do() {
    for inbox in InboxFixture::all_with(|project| project.settings.comments.reviews = Reviews::Mentioned).await {
        deliver(&inbox, "90", "", &["@journeyman rename it".to_owned(), "And this.".to_owned()]).await;
        deliver(&inbox, "91", "Looks odd.", &["Really?".to_owned()]).await;
        let prompt = inbox.message().await.prompt;
        assert!(prompt.contains("rename it") && prompt.contains("And this."), "{}: {prompt}", inbox.name());
    }
}

#[tokio::test]
async fn an_approval_without_a_task_leads_to_nothing() {
    let inbox = InboxFixture::new().await;
    let (praise, _) = review("90", &inbox.maria(), "LGTM!", &[]);
    let praise = HostReview { approves: true, ..praise };
    inbox.host.put_review(PULL, praise.clone(), Vec::new());
    inbox.deliver(submitted(&praise)).await;
    inbox.settle().await;
    assert_eq!(inbox.outcomes().await, ["not_addressed"]);
}
