//! Tests of submitted reviews.

use journeyman_core::conversation::Reaction;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HostReview};
use journeyman_core::message::Origin;
use journeyman_core::project::Reviews;
use journeyman_core::prompt::MAX_PROMPT_CHARS;

use super::fixtures::{InboxFixture, PULL, comment, created, review, submitted};

/// Delivers a review with comments on lines, whose webhooks arrive too.
async fn deliver(desk: &InboxFixture, id: &str, body: &str, lines: &[String]) {
    let maria = desk.maria();
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (review, lines) = review(id, &maria, body, &texts);
    desk.host.put_review(PULL, review.clone(), lines.clone());
    for line in &lines {
        let mut comment = comment(&line.id, &maria, &line.body);
        (comment.kind, comment.review) = (CommentKind::Line, Some(id.to_owned()));
        (comment.position, comment.hunk) = (Some(line.position.clone()), line.hunk.clone());
        desk.deliver(created(&comment)).await;
    }
    desk.deliver(submitted(&review)).await;
    desk.carry_out().await;
}

#[tokio::test]
async fn a_review_becomes_one_message_with_the_place_and_the_diff_of_each_comment() {
    for count in [12, 40] {
        for desk in InboxFixture::all().await {
            let name = desk.name();
            let lines: Vec<String> = (1..=count).map(|line| format!("Comment number {line}.")).collect();
            deliver(&desk, "90", "", &lines).await;
            let message = desk.message().await;
            assert!(message.prompt.contains(&format!("({count} comments)")), "{name}: {}", message.prompt);
            for line in 1..=count {
                let place = format!("on `src/file{line}.rs`, line {line} (maria)");
                let hunk = format!("@@ -{line} +{line} @@\n-old {line}\n+new {line}\n");
                let text = format!("Comment number {line}.\n");
                let counts = [place, hunk, text].map(|part| message.prompt.matches(&part).count());
                assert_eq!(counts, [1, 1, 1], "{name}: {line}: {}", message.prompt);
            }
            let source = message.source.unwrap();
            assert_eq!((source.origin, source.comments.len()), (Origin::Review, count), "{name}");
            let mut outcomes = desk.outcomes().await;
            assert_eq!(outcomes.pop().as_deref(), Some("message"), "{name}");
            assert!(outcomes.iter().all(|outcome| outcome == "part_of_review"), "{name}: {outcomes:?}");
        }
    }
}

#[tokio::test]
async fn a_review_is_answered_once_with_a_reaction_to_each_comment() {
    let desk = InboxFixture::new().await;
    let lines: Vec<String> = (1..=12).map(|line| format!("Comment number {line}.")).collect();
    deliver(&desk, "90", "Please change this.", &lines).await;
    desk.finish().await;
    desk.carry_out().await;
    let written = desk.host.written();
    assert_eq!((written.len(), written[0].text.matches("\n- [").count()), (1, 13), "{}", written[0].text);
    for line in 1..=12 {
        assert_eq!(desk.host.reactions(&format!("90-{line}")), [Reaction::Seen, Reaction::Done]);
    }
}

#[tokio::test]
async fn a_review_takes_the_comments_that_wait_with_it() {
    let desk = InboxFixture::new().await;
    desk.deliver(created(&comment("1", &desk.maria(), "@journeyman rename it"))).await;
    desk.carry_out().await;
    deliver(&desk, "90", "Please change this.", &[]).await;
    let prompt = desk.message().await.prompt;
    assert!(prompt.contains("rename it") && prompt.contains("Please change this."), "{prompt}");
    assert_eq!(desk.outcomes().await, ["message"; 2]);
}

#[tokio::test]
async fn an_empty_review_leads_to_nothing() {
    let desk = InboxFixture::new().await;
    deliver(&desk, "90", "", &[]).await;
    assert_eq!((desk.outcomes().await, desk.prompts().await.len()), (vec!["empty".to_owned()], 0));
}

#[tokio::test]
async fn a_review_without_a_mention_counts_only_if_all_reviews_do() {
    for desk in InboxFixture::all_with(|project| project.settings.comments.reviews = Reviews::Mentioned).await {
        let name = desk.name();
        deliver(&desk, "90", "Please change this.", &["Here.".to_owned()]).await;
        assert_eq!(desk.outcomes().await[1], "not_addressed", "{name}");
        deliver(&desk, "91", "@journeyman please change this.", &["There.".to_owned()]).await;
        assert!(desk.message().await.prompt.contains("There."), "{name}");
    }
}

#[tokio::test]
async fn a_review_that_was_dismissed_before_its_delivery_is_withdrawn() {
    for desk in InboxFixture::all().await {
        let name = desk.name();
        deliver(&desk, "90", "Please change this.", &["Here.".to_owned()]).await;
        assert_eq!(desk.prompts().await.len(), 1, "{name}");
        let (review, _) = review("90", &desk.maria(), "Please change this.", &[]);
        desk.deliver(HookContent::Review { number: PULL, action: CommentAction::Deleted, review }).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await[1..], ["message", "message_withdrawn"], "{name}");
        assert_eq!(desk.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn no_comment_of_a_very_long_review_is_cut_off() {
    let desk = InboxFixture::new().await;
    let maria = desk.maria();
    let texts: Vec<String> = (1..=60).map(|line| format!("Comment number {line}. {}", "x".repeat(4_000))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (review, mut lines) = review("90", &maria, "Please.", &texts);
    for line in &mut lines {
        line.hunk = Some("y".repeat(4_000));
    }
    desk.host.put_review(PULL, review.clone(), lines);
    desk.deliver(submitted(&review)).await;
    desk.carry_out().await;
    let prompt = desk.message().await.prompt;
    assert!(prompt.chars().count() <= MAX_PROMPT_CHARS);
    for line in 1..=60 {
        assert!(prompt.contains(&format!("Comment number {line}. ")), "{line} is missing");
    }
    assert!(prompt.contains("All of it: https://host.example/line/90-60)"), "{}", &prompt[90_000..]);
}

#[tokio::test]
async fn stop_as_a_comment_on_a_line_stops_the_job() {
    for desk in InboxFixture::all().await {
        let name = desk.name();
        desk.deliver(created(&comment("1", &desk.maria(), "@journeyman rename it"))).await;
        desk.carry_out().await;
        deliver(&desk, "90", "", &["@journeyman stop".to_owned()]).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["cancelled", "part_of_review", "cancelled"], "{name}");
        assert_eq!(desk.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_mention_on_a_line_counts_where_only_mentions_do() {
    for desk in InboxFixture::all_with(|project| project.settings.comments.reviews = Reviews::Mentioned).await {
        deliver(&desk, "90", "", &["@journeyman rename it".to_owned(), "And this.".to_owned()]).await;
        deliver(&desk, "91", "Looks odd.", &["Really?".to_owned()]).await;
        let prompt = desk.message().await.prompt;
        assert!(prompt.contains("rename it") && prompt.contains("And this."), "{}: {prompt}", desk.name());
    }
}

#[tokio::test]
async fn an_approval_without_a_task_leads_to_nothing() {
    let desk = InboxFixture::new().await;
    let (praise, _) = review("90", &desk.maria(), "LGTM!", &[]);
    let praise = HostReview { approves: true, ..praise };
    desk.host.put_review(PULL, praise.clone(), Vec::new());
    desk.deliver(submitted(&praise)).await;
    desk.settle().await;
    assert_eq!(desk.outcomes().await, ["not_addressed"]);
}
