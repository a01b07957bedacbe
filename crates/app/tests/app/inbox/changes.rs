//! Tests of comments that are edited or deleted.

use journeyman_core::conversation::Permission;
use journeyman_core::hook::{CommentKind, HostComment};
use journeyman_core::message::MessageStatus;

use super::fixtures::{InboxFixture, PULL, comment, created, deleted, edited, review, submitted};

#[tokio::test]
async fn an_edit_while_the_comment_waits_changes_the_message() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
        inbox.deliver(created(&first)).await;
        inbox.carry_out().await;
        inbox.deliver(edited(&first, 5, "@journeyman remove it")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message", "message"], "{name}");
        assert_eq!(inbox.prompts().await, ["@journeyman remove it"], "{name}");
    }
}

#[tokio::test]
async fn an_edit_of_a_queued_message_changes_it() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
        inbox.deliver(created(&first)).await;
        inbox.settle().await;
        inbox.deliver(edited(&first, 5, "@journeyman remove it")).await;
        inbox.carry_out().await;
        assert_eq!(inbox.outcomes().await, ["message", "message_changed"], "{name}");
        assert_eq!(inbox.prompts().await, ["@journeyman remove it"], "{name}");
        // A second edit, and a late webhook of the first.
        inbox.deliver(edited(&first, 9, "@journeyman keep it")).await;
        inbox.deliver(edited(&first, 7, "@journeyman forget it")).await;
        inbox.carry_out().await;
        assert_eq!(inbox.prompts().await, ["@journeyman keep it"], "{name}");
        assert_eq!(inbox.message().await.status, MessageStatus::Queued, "{name}");
    }
}

#[tokio::test]
async fn the_last_of_two_edits_within_a_second_counts() {
    for is_sent_between in [false, true] {
        for inbox in InboxFixture::all().await {
            let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
            inbox.deliver(created(&first)).await;
            inbox.carry_out().await;
            if is_sent_between {
                inbox.settle().await;
            }
            for text in ["@journeyman remove it", "@journeyman keep it", "@journeyman keep it"] {
                inbox.deliver(edited(&first, 5, text)).await;
                inbox.carry_out().await;
            }
            inbox.settle().await;
            assert_eq!(inbox.prompts().await, ["@journeyman keep it"], "{name}: {:?}", inbox.outcomes().await);
            assert_eq!(inbox.outcomes().await[3], "duplicate", "{name}");
        }
    }
}

#[tokio::test]
async fn edits_of_several_comments_of_a_queued_message_are_all_kept() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let [one, two, three] = ["1", "2", "3"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        for comment in [&one, &two, &three] {
            inbox.deliver(created(comment)).await;
        }
        inbox.settle().await;
        for content in [edited(&one, 5, "@journeyman first"), deleted(&three), edited(&two, 6, "@journeyman second")] {
            inbox.deliver(content).await;
            inbox.carry_out().await;
        }
        let prompt = inbox.message().await.prompt;
        let has = |part: &str| prompt.contains(part);
        assert!(has("first") && has("second") && !has("do 1.") && !has("do 2.") && !has("do 3."), "{name}: {prompt}");
    }
}

#[tokio::test]
async fn an_answer_names_the_comments_of_a_changed_message_as_they_were_when_it_was_delivered() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let paul = inbox.host.user("paul", Permission::Write);
        let one = comment("1", &paul, "@journeyman do 1.");
        let [two, three] = ["2", "3"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        for comment in [&one, &two, &three] {
            inbox.deliver(created(comment)).await;
        }
        inbox.settle().await;
        assert_eq!(inbox.message().await.author.as_deref(), Some("paul, maria"), "{name}");
        for content in [deleted(&one), edited(&two, 5, "@journeyman second")] {
            inbox.deliver(content).await;
            inbox.carry_out().await;
        }
        let message = inbox.message().await;
        let source = message.source.unwrap();
        let author = source.author.unwrap().name;
        assert_eq!((&*source.id, &*author, message.author.as_deref()), ("2", "maria", Some("maria")), "{name}");
        inbox.finish().await;
        inbox.carry_out().await;
        let answer = inbox.host.written().pop().unwrap().text;
        let has = |part: &str| answer.contains(part);
        assert!(has("second") && has("do 3.") && !has("do 1.") && !has("do 2."), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_deletion_drops_a_comment_that_waits_and_withdraws_a_queued_message() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let [one, two] = ["1", "2"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        inbox.deliver(created(&one)).await;
        inbox.carry_out().await;
        inbox.deliver(deleted(&one)).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["empty", "empty"], "{name}");
        inbox.deliver(created(&two)).await;
        inbox.settle().await;
        assert_eq!(inbox.prompts().await.len(), 1, "{name}");
        inbox.deliver(deleted(&two)).await;
        inbox.carry_out().await;
        assert_eq!(inbox.outcomes().await[2..], ["message", "message_withdrawn"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_deleted_comment_is_not_said_to_be_in_the_message_of_the_others() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let [one, two] = ["1", "2"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        for content in [created(&one), created(&two), deleted(&one)] {
            inbox.deliver(content).await;
            inbox.carry_out().await;
        }
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["empty", "message", "empty"], "{name}");
        assert_eq!(inbox.prompts().await, ["@journeyman do 2."], "{name}");
    }
}

#[tokio::test]
async fn after_delivery_edits_and_deletions_do_nothing() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
        inbox.deliver(created(&first)).await;
        inbox.settle().await;
        let token = inbox.take().await;
        inbox.deliver(edited(&first, 5, "@journeyman remove it")).await;
        inbox.settle().await;
        inbox.publish(token).await;
        inbox.deliver(deleted(&first)).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message", "too_late", "too_late"], "{name}");
        let message = inbox.message().await;
        assert_eq!(message.prompt, "@journeyman rename it", "{name}");
        assert_eq!(message.status, MessageStatus::Finished, "{name}");
    }
}

#[tokio::test]
async fn an_edit_that_overtakes_the_comment_yields_the_newest_text_once() {
    for is_sent_between in [false, true] {
        for inbox in InboxFixture::all().await {
            let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
            inbox.deliver(edited(&first, 5, "@journeyman remove it")).await;
            inbox.carry_out().await;
            if is_sent_between {
                inbox.settle().await;
            }
            inbox.deliver(created(&first)).await;
            inbox.settle().await;
            assert_eq!(inbox.prompts().await, ["@journeyman remove it"], "{name}: {:?}", inbox.outcomes().await);
        }
    }
}

#[tokio::test]
async fn an_edit_that_overtakes_the_comment_and_mentions_nobody_leaves_nothing() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
        inbox.deliver(edited(&first, 5, "remove it")).await;
        inbox.settle().await;
        inbox.deliver(created(&first)).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["not_addressed", "empty"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_deletion_that_overtakes_the_comment_leaves_nothing() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
        inbox.deliver(deleted(&first)).await;
        inbox.settle().await;
        inbox.deliver(created(&first)).await;
        inbox.deliver(edited(&first, 5, "@journeyman remove it")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["not_addressed", "duplicate", "duplicate"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn an_edit_by_an_author_who_lost_the_permission_changes_nothing() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let first = comment("1", &maria, "@journeyman rename it");
        inbox.deliver(created(&first)).await;
        inbox.settle().await;
        inbox.host.permit(&maria, Ok(Permission::Read));
        inbox.deliver(edited(&first, 5, "@journeyman delete everything")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message", "not_permitted"], "{name}");
        // A later, permitted change does not bring the refused text back.
        inbox.host.permit(&maria, Ok(Permission::Write));
        inbox.deliver(created(&comment("2", &maria, "@journeyman and this"))).await;
        inbox.settle().await;
        assert_eq!(inbox.prompts().await, ["@journeyman rename it", "@journeyman and this"], "{name}");
    }
}

#[tokio::test]
async fn an_edit_that_only_a_poll_reports_does_not_count_where_people_who_may_not_push_edit_comments() {
    for lets_others_edit in [false, true] {
        for inbox in InboxFixture::all().await {
            let (name, maria) = (inbox.name(), inbox.maria());
            if lets_others_edit {
                inbox.host.let_others_edit();
            }
            let first = comment("1", &maria, "@journeyman rename it");
            inbox.deliver(created(&first)).await;
            inbox.settle().await;
            inbox.poll(edited(&first, 5, "@journeyman remove it")).await;
            inbox.carry_out().await;
            let (outcome, text) = if lets_others_edit {
                ("not_permitted", "@journeyman rename it")
            } else {
                ("message_changed", "@journeyman remove it")
            };
            assert_eq!(inbox.outcomes().await, ["message", outcome], "{name}");
            assert_eq!(inbox.prompts().await, [text], "{name}");
            if !lets_others_edit {
                continue;
            }
            assert!(inbox.events().await[1].detail.as_ref().unwrap().contains("set up a webhook"), "{name}");
            // A webhook says that its author has edited it.
            inbox.deliver_by(&maria, edited(&first, 5, "@journeyman remove it")).await;
            inbox.carry_out().await;
            assert_eq!(inbox.outcomes().await[2], "message_changed", "{name}");
            assert_eq!(inbox.prompts().await, ["@journeyman remove it"], "{name}");
        }
    }
}

#[tokio::test]
async fn an_edited_line_of_a_review_is_left_out_where_people_who_may_not_push_edit_comments() {
    for lets_others_edit in [false, true] {
        for inbox in InboxFixture::all().await {
            let (name, maria) = (inbox.name(), inbox.maria());
            if lets_others_edit {
                inbox.host.let_others_edit();
            }
            let (review, mut lines) = review("90", &maria, "Please change this.", &["rename", "delete everything"]);
            lines[1].is_edited = true;
            inbox.host.put_review(PULL, review.clone(), lines.clone());
            inbox.deliver(submitted(&review)).await;
            inbox.settle().await;
            let prompt = inbox.message().await.prompt;
            assert!(prompt.contains("rename"), "{name}: {prompt}");
            assert_eq!(prompt.contains("delete everything"), !lets_others_edit, "{name}: {prompt}");
            assert_eq!(prompt.contains("it is left out: https://host.example/line/90-2"), lets_others_edit, "{name}");
            if !lets_others_edit {
                continue;
            }
            // Maria has edited both lines, one after the other, and webhooks say so.
            for (index, text) in [(1, "keep it"), (0, "remove it")] {
                text.clone_into(&mut lines[index].body);
                (lines[index].version, lines[index].is_edited) = ("2027-01-15T08:00:05Z".to_owned(), true);
                inbox.host.put_review(PULL, review.clone(), lines.clone());
                let line = HostComment {
                    kind: CommentKind::Line,
                    review: Some("90".to_owned()),
                    ..comment(&lines[index].id, &maria, text)
                };
                inbox.deliver_by(&maria, edited(&line, 5, text)).await;
                inbox.carry_out().await;
            }
            let prompt = inbox.message().await.prompt;
            assert!(prompt.contains("keep it") && prompt.contains("remove it"), "{name}: {prompt}");
            assert!(!prompt.contains("left out"), "{name}: {prompt}");
        }
    }
}

#[tokio::test]
async fn an_edited_comment_of_a_review_is_recognized_although_the_webhook_does_not_say_so() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let (text, mut lines) = review("90", &maria, "Please.", &["rename it"]);
        inbox.host.put_review(1, text.clone(), lines.clone());
        inbox.deliver(submitted(&text)).await;
        inbox.carry_out().await;
        let line = comment(&lines[0].id, &maria, "rename it");
        (lines[0].body, lines[0].version) = ("@journeyman remove it".to_owned(), "2027-01-15T08:00:05Z".to_owned());
        inbox.host.put_review(1, text, lines);
        inbox.deliver(edited(&line, 5, "@journeyman remove it")).await;
        inbox.carry_out().await;
        let prompt = inbox.message().await.prompt;
        let counts = ["Please.", "remove it", "rename it"].map(|part| prompt.matches(part).count());
        assert_eq!(counts, [1, 1, 0], "{name}: {prompt}");
        inbox.finish().await;
        inbox.deliver(edited(&line, 9, "@journeyman keep it")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message", "message_changed", "too_late"], "{name}");
    }
}

#[tokio::test]
async fn an_edited_reply_in_a_review_changes_its_own_message() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let (text, lines) = review("90", &maria, "Please.", &["rename it", "@journeyman keep it"]);
        inbox.host.put_review(1, text.clone(), lines[..1].to_vec());
        inbox.deliver(submitted(&text)).await;
        inbox.carry_out().await;
        inbox.finish().await;
        // The host shows the reply in the review, and its webhook is that of a comment in the conversation.
        inbox.host.put_review(1, text, lines.clone());
        let reply = comment(&lines[1].id, &maria, &lines[1].body);
        inbox.deliver(created(&reply)).await;
        inbox.settle().await;
        inbox.deliver(edited(&reply, 5, "@journeyman remove it")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["message", "message", "message_changed"], "{name}");
        let prompt = inbox.prompts().await.remove(1);
        assert!(prompt.contains("remove it") && prompt.contains("on `src/file2.rs`, line 2"), "{name}: {prompt}");
    }
}

#[tokio::test]
async fn an_edited_comment_of_a_review_replaces_its_text_once() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let (text, mut lines) = review("90", &maria, "Please.", &["rename", "remove"]);
        inbox.host.put_review(1, text.clone(), lines.clone());
        inbox.deliver(submitted(&text)).await;
        inbox.carry_out().await;
        let line = |index: usize| {
            let mut line = comment(&lines[index].id, &maria, &lines[index].body);
            (line.kind, line.review) = (CommentKind::Line, Some("90".to_owned()));
            line.position = Some(lines[index].position.clone());
            line
        };
        let (one, two) = (line(0), line(1));
        for (index, content) in
            [(0, edited(&one, 5, "rename A")), (0, edited(&one, 6, "rename B")), (1, edited(&two, 7, "keep"))]
        {
            let journeyman_core::hook::HookContent::Comment { comment, .. } = &content else { unreachable!() };
            (lines[index].body, lines[index].version) = (comment.body.clone(), comment.version.clone());
            inbox.host.put_review(1, text.clone(), lines.clone());
            inbox.deliver(content).await;
            inbox.carry_out().await;
        }
        let prompt = inbox.message().await.prompt;
        let counts = ["Please.", "rename B", "keep", "rename A", "remove"].map(|part| prompt.matches(part).count());
        assert_eq!(counts, [1, 1, 1, 0, 0], "{name}: {prompt}");
        assert_eq!(inbox.outcomes().await[1..], ["message_changed"; 3], "{name}");
    }
}

#[tokio::test]
async fn an_edit_that_removes_the_mention_withdraws_the_comment() {
    for inbox in InboxFixture::all().await {
        let (name, maria) = (inbox.name(), inbox.maria());
        let [one, two] = ["1", "2"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        inbox.deliver(created(&one)).await;
        inbox.carry_out().await;
        inbox.deliver(edited(&one, 5, "Never mind.")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["empty", "empty"], "{name}");
        inbox.deliver(created(&two)).await;
        inbox.settle().await;
        inbox.deliver(edited(&two, 5, "Never mind.")).await;
        inbox.carry_out().await;
        assert_eq!(inbox.outcomes().await[2..], ["message", "message_withdrawn"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
        // The comment has its first text again.
        inbox.deliver(edited(&two, 9, &two.body)).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await[4..], ["message"], "{name}");
        assert_eq!(inbox.prompts().await, [two.body.as_str()], "{name}");
    }
}

#[tokio::test]
async fn an_edit_to_stop_stops_the_job() {
    for inbox in InboxFixture::all().await {
        let (name, first) = (inbox.name(), comment("1", &inbox.maria(), "@journeyman rename it"));
        inbox.deliver(created(&first)).await;
        inbox.carry_out().await;
        inbox.deliver(edited(&first, 5, "@journeyman stop")).await;
        inbox.settle().await;
        assert_eq!(inbox.outcomes().await, ["cancelled", "cancelled"], "{name}");
        assert_eq!(inbox.prompts().await.len(), 0, "{name}");
    }
}
