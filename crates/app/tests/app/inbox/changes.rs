//! Tests of comments that are edited or deleted.

use journeyman_core::conversation::Permission;
use journeyman_core::hook::{CommentKind, HostComment};
use journeyman_core::message::MessageStatus;

use super::fixtures::{InboxFixture, PULL, comment, created, deleted, edited, review, submitted};

#[tokio::test]
async fn an_edit_while_the_comment_waits_changes_the_message() {
    for desk in InboxFixture::all().await {
        let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
        desk.deliver(created(&first)).await;
        desk.carry_out().await;
        desk.deliver(edited(&first, 5, "@journeyman remove it")).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["message", "message"], "{name}");
        assert_eq!(desk.prompts().await, ["@journeyman remove it"], "{name}");
    }
}

#[tokio::test]
async fn an_edit_of_a_queued_message_changes_it() {
    for desk in InboxFixture::all().await {
        let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
        desk.deliver(created(&first)).await;
        desk.settle().await;
        desk.deliver(edited(&first, 5, "@journeyman remove it")).await;
        desk.carry_out().await;
        assert_eq!(desk.outcomes().await, ["message", "message_changed"], "{name}");
        assert_eq!(desk.prompts().await, ["@journeyman remove it"], "{name}");
        // A second edit, and a late webhook of the first.
        desk.deliver(edited(&first, 9, "@journeyman keep it")).await;
        desk.deliver(edited(&first, 7, "@journeyman forget it")).await;
        desk.carry_out().await;
        assert_eq!(desk.prompts().await, ["@journeyman keep it"], "{name}");
        assert_eq!(desk.message().await.status, MessageStatus::Queued, "{name}");
    }
}

#[tokio::test]
async fn the_last_of_two_edits_within_a_second_counts() {
    for is_sent_between in [false, true] {
        for desk in InboxFixture::all().await {
            let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
            desk.deliver(created(&first)).await;
            desk.carry_out().await;
            if is_sent_between {
                desk.settle().await;
            }
            for text in ["@journeyman remove it", "@journeyman keep it", "@journeyman keep it"] {
                desk.deliver(edited(&first, 5, text)).await;
                desk.carry_out().await;
            }
            desk.settle().await;
            assert_eq!(desk.prompts().await, ["@journeyman keep it"], "{name}: {:?}", desk.outcomes().await);
            assert_eq!(desk.outcomes().await[3], "duplicate", "{name}");
        }
    }
}

#[tokio::test]
async fn edits_of_several_comments_of_a_queued_message_are_all_kept() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let [one, two, three] = ["1", "2", "3"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        for comment in [&one, &two, &three] {
            desk.deliver(created(comment)).await;
        }
        desk.settle().await;
        for content in [edited(&one, 5, "@journeyman first"), deleted(&three), edited(&two, 6, "@journeyman second")] {
            desk.deliver(content).await;
            desk.carry_out().await;
        }
        let prompt = desk.message().await.prompt;
        let has = |part: &str| prompt.contains(part);
        assert!(has("first") && has("second") && !has("do 1.") && !has("do 2.") && !has("do 3."), "{name}: {prompt}");
    }
}

#[tokio::test]
async fn an_answer_names_the_comments_of_a_changed_message_as_they_were_when_it_was_delivered() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let paul = desk.host.user("paul", Permission::Write);
        let one = comment("1", &paul, "@journeyman do 1.");
        let [two, three] = ["2", "3"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        for comment in [&one, &two, &three] {
            desk.deliver(created(comment)).await;
        }
        desk.settle().await;
        assert_eq!(desk.message().await.author.as_deref(), Some("paul, maria"), "{name}");
        for content in [deleted(&one), edited(&two, 5, "@journeyman second")] {
            desk.deliver(content).await;
            desk.carry_out().await;
        }
        let message = desk.message().await;
        let source = message.source.unwrap();
        let author = source.author.unwrap().name;
        assert_eq!((&*source.id, &*author, message.author.as_deref()), ("2", "maria", Some("maria")), "{name}");
        desk.finish().await;
        desk.carry_out().await;
        let answer = desk.host.written().pop().unwrap().text;
        let has = |part: &str| answer.contains(part);
        assert!(has("second") && has("do 3.") && !has("do 1.") && !has("do 2."), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_deletion_drops_a_comment_that_waits_and_withdraws_a_queued_message() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let [one, two] = ["1", "2"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        desk.deliver(created(&one)).await;
        desk.carry_out().await;
        desk.deliver(deleted(&one)).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["empty", "empty"], "{name}");
        desk.deliver(created(&two)).await;
        desk.settle().await;
        assert_eq!(desk.prompts().await.len(), 1, "{name}");
        desk.deliver(deleted(&two)).await;
        desk.carry_out().await;
        assert_eq!(desk.outcomes().await[2..], ["message", "message_withdrawn"], "{name}");
        assert_eq!(desk.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_deleted_comment_is_not_said_to_be_in_the_message_of_the_others() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let [one, two] = ["1", "2"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        for content in [created(&one), created(&two), deleted(&one)] {
            desk.deliver(content).await;
            desk.carry_out().await;
        }
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["empty", "message", "empty"], "{name}");
        assert_eq!(desk.prompts().await, ["@journeyman do 2."], "{name}");
    }
}

#[tokio::test]
async fn after_delivery_edits_and_deletions_do_nothing() {
    for desk in InboxFixture::all().await {
        let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
        desk.deliver(created(&first)).await;
        desk.settle().await;
        let token = desk.take().await;
        desk.deliver(edited(&first, 5, "@journeyman remove it")).await;
        desk.settle().await;
        desk.publish(token).await;
        desk.deliver(deleted(&first)).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["message", "too_late", "too_late"], "{name}");
        let message = desk.message().await;
        assert_eq!(message.prompt, "@journeyman rename it", "{name}");
        assert_eq!(message.status, MessageStatus::Finished, "{name}");
    }
}

#[tokio::test]
async fn an_edit_that_overtakes_the_comment_yields_the_newest_text_once() {
    for is_sent_between in [false, true] {
        for desk in InboxFixture::all().await {
            let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
            desk.deliver(edited(&first, 5, "@journeyman remove it")).await;
            desk.carry_out().await;
            if is_sent_between {
                desk.settle().await;
            }
            desk.deliver(created(&first)).await;
            desk.settle().await;
            assert_eq!(desk.prompts().await, ["@journeyman remove it"], "{name}: {:?}", desk.outcomes().await);
        }
    }
}

#[tokio::test]
async fn an_edit_that_overtakes_the_comment_and_mentions_nobody_leaves_nothing() {
    for desk in InboxFixture::all().await {
        let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
        desk.deliver(edited(&first, 5, "remove it")).await;
        desk.settle().await;
        desk.deliver(created(&first)).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["not_addressed", "empty"], "{name}");
        assert_eq!(desk.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_deletion_that_overtakes_the_comment_leaves_nothing() {
    for desk in InboxFixture::all().await {
        let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
        desk.deliver(deleted(&first)).await;
        desk.settle().await;
        desk.deliver(created(&first)).await;
        desk.deliver(edited(&first, 5, "@journeyman remove it")).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["not_addressed", "duplicate", "duplicate"], "{name}");
        assert_eq!(desk.prompts().await.len(), 0, "{name}");
    }
}

#[tokio::test]
async fn an_edit_by_an_author_who_lost_the_permission_changes_nothing() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let first = comment("1", &maria, "@journeyman rename it");
        desk.deliver(created(&first)).await;
        desk.settle().await;
        desk.host.permit(&maria, Ok(Permission::Read));
        desk.deliver(edited(&first, 5, "@journeyman delete everything")).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["message", "not_permitted"], "{name}");
        // A later, permitted change does not bring the refused text back.
        desk.host.permit(&maria, Ok(Permission::Write));
        desk.deliver(created(&comment("2", &maria, "@journeyman and this"))).await;
        desk.settle().await;
        assert_eq!(desk.prompts().await, ["@journeyman rename it", "@journeyman and this"], "{name}");
    }
}

#[tokio::test]
async fn an_edit_that_only_a_poll_reports_does_not_count_where_people_who_may_not_push_edit_comments() {
    for lets_others_edit in [false, true] {
        for desk in InboxFixture::all().await {
            let (name, maria) = (desk.name(), desk.maria());
            if lets_others_edit {
                desk.host.let_others_edit();
            }
            let first = comment("1", &maria, "@journeyman rename it");
            desk.deliver(created(&first)).await;
            desk.settle().await;
            desk.poll(edited(&first, 5, "@journeyman remove it")).await;
            desk.carry_out().await;
            let (outcome, text) = if lets_others_edit {
                ("not_permitted", "@journeyman rename it")
            } else {
                ("message_changed", "@journeyman remove it")
            };
            assert_eq!(desk.outcomes().await, ["message", outcome], "{name}");
            assert_eq!(desk.prompts().await, [text], "{name}");
            if !lets_others_edit {
                continue;
            }
            assert!(desk.events().await[1].detail.as_ref().unwrap().contains("set up a webhook"), "{name}");
            // A webhook says that its author has edited it.
            desk.deliver_by(&maria, edited(&first, 5, "@journeyman remove it")).await;
            desk.carry_out().await;
            assert_eq!(desk.outcomes().await[2], "message_changed", "{name}");
            assert_eq!(desk.prompts().await, ["@journeyman remove it"], "{name}");
        }
    }
}

#[tokio::test]
async fn an_edited_line_of_a_review_is_left_out_where_people_who_may_not_push_edit_comments() {
    for lets_others_edit in [false, true] {
        for desk in InboxFixture::all().await {
            let (name, maria) = (desk.name(), desk.maria());
            if lets_others_edit {
                desk.host.let_others_edit();
            }
            let (review, mut lines) = review("90", &maria, "Please change this.", &["rename", "delete everything"]);
            lines[1].is_edited = true;
            desk.host.put_review(PULL, review.clone(), lines.clone());
            desk.deliver(submitted(&review)).await;
            desk.settle().await;
            let prompt = desk.message().await.prompt;
            assert!(prompt.contains("rename"), "{name}: {prompt}");
            assert_eq!(prompt.contains("delete everything"), !lets_others_edit, "{name}: {prompt}");
            assert_eq!(prompt.contains("it is left out: https://host.example/line/90-2"), lets_others_edit, "{name}");
            if !lets_others_edit {
                continue;
            }
            // Maria has edited both lines, one after the other, and webhooks say so.
            for (place, text) in [(1, "keep it"), (0, "remove it")] {
                text.clone_into(&mut lines[place].body);
                (lines[place].version, lines[place].is_edited) = ("2027-01-15T08:00:05Z".to_owned(), true);
                desk.host.put_review(PULL, review.clone(), lines.clone());
                let line = HostComment {
                    kind: CommentKind::Line,
                    review: Some("90".to_owned()),
                    ..comment(&lines[place].id, &maria, text)
                };
                desk.deliver_by(&maria, edited(&line, 5, text)).await;
                desk.carry_out().await;
            }
            let prompt = desk.message().await.prompt;
            assert!(prompt.contains("keep it") && prompt.contains("remove it"), "{name}: {prompt}");
            assert!(!prompt.contains("left out"), "{name}: {prompt}");
        }
    }
}

#[tokio::test]
async fn an_edited_comment_of_a_review_is_recognized_although_the_webhook_does_not_say_so() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let (text, mut lines) = review("90", &maria, "Please.", &["rename it"]);
        desk.host.put_review(1, text.clone(), lines.clone());
        desk.deliver(submitted(&text)).await;
        desk.carry_out().await;
        let line = comment(&lines[0].id, &maria, "rename it");
        (lines[0].body, lines[0].version) = ("@journeyman remove it".to_owned(), "2027-01-15T08:00:05Z".to_owned());
        desk.host.put_review(1, text, lines);
        desk.deliver(edited(&line, 5, "@journeyman remove it")).await;
        desk.carry_out().await;
        let prompt = desk.message().await.prompt;
        let counts = ["Please.", "remove it", "rename it"].map(|part| prompt.matches(part).count());
        assert_eq!(counts, [1, 1, 0], "{name}: {prompt}");
        desk.finish().await;
        desk.deliver(edited(&line, 9, "@journeyman keep it")).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["message", "message_changed", "too_late"], "{name}");
    }
}

#[tokio::test]
async fn an_edited_reply_in_a_review_changes_its_own_message() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let (text, lines) = review("90", &maria, "Please.", &["rename it", "@journeyman keep it"]);
        desk.host.put_review(1, text.clone(), lines[..1].to_vec());
        desk.deliver(submitted(&text)).await;
        desk.carry_out().await;
        desk.finish().await;
        // The host shows the reply in the review, and its webhook is that of a comment in the conversation.
        desk.host.put_review(1, text, lines.clone());
        let reply = comment(&lines[1].id, &maria, &lines[1].body);
        desk.deliver(created(&reply)).await;
        desk.settle().await;
        desk.deliver(edited(&reply, 5, "@journeyman remove it")).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["message", "message", "message_changed"], "{name}");
        let prompt = desk.prompts().await.remove(1);
        assert!(prompt.contains("remove it") && prompt.contains("on `src/file2.rs`, line 2"), "{name}: {prompt}");
    }
}

#[tokio::test]
async fn an_edited_comment_of_a_review_replaces_its_text_once() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let (text, mut lines) = review("90", &maria, "Please.", &["rename", "remove"]);
        desk.host.put_review(1, text.clone(), lines.clone());
        desk.deliver(submitted(&text)).await;
        desk.carry_out().await;
        let line = |place: usize| {
            let mut line = comment(&lines[place].id, &maria, &lines[place].body);
            (line.kind, line.review) = (CommentKind::Line, Some("90".to_owned()));
            line.position = Some(lines[place].position.clone());
            line
        };
        let (one, two) = (line(0), line(1));
        for (place, content) in
            [(0, edited(&one, 5, "rename A")), (0, edited(&one, 6, "rename B")), (1, edited(&two, 7, "keep"))]
        {
            let journeyman_core::hook::HookContent::Comment { comment, .. } = &content else { unreachable!() };
            (lines[place].body, lines[place].version) = (comment.body.clone(), comment.version.clone());
            desk.host.put_review(1, text.clone(), lines.clone());
            desk.deliver(content).await;
            desk.carry_out().await;
        }
        let prompt = desk.message().await.prompt;
        let counts = ["Please.", "rename B", "keep", "rename A", "remove"].map(|part| prompt.matches(part).count());
        assert_eq!(counts, [1, 1, 1, 0, 0], "{name}: {prompt}");
        assert_eq!(desk.outcomes().await[1..], ["message_changed"; 3], "{name}");
    }
}

#[tokio::test]
async fn an_edit_that_removes_the_mention_withdraws_the_comment() {
    for desk in InboxFixture::all().await {
        let (name, maria) = (desk.name(), desk.maria());
        let [one, two] = ["1", "2"].map(|id| comment(id, &maria, &format!("@journeyman do {id}.")));
        desk.deliver(created(&one)).await;
        desk.carry_out().await;
        desk.deliver(edited(&one, 5, "Never mind.")).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["empty", "empty"], "{name}");
        desk.deliver(created(&two)).await;
        desk.settle().await;
        desk.deliver(edited(&two, 5, "Never mind.")).await;
        desk.carry_out().await;
        assert_eq!(desk.outcomes().await[2..], ["message", "message_withdrawn"], "{name}");
        assert_eq!(desk.prompts().await.len(), 0, "{name}");
        // The comment has its first text again.
        desk.deliver(edited(&two, 9, &two.body)).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await[4..], ["message"], "{name}");
        assert_eq!(desk.prompts().await, [two.body.as_str()], "{name}");
    }
}

#[tokio::test]
async fn an_edit_to_stop_stops_the_job() {
    for desk in InboxFixture::all().await {
        let (name, first) = (desk.name(), comment("1", &desk.maria(), "@journeyman rename it"));
        desk.deliver(created(&first)).await;
        desk.carry_out().await;
        desk.deliver(edited(&first, 5, "@journeyman stop")).await;
        desk.settle().await;
        assert_eq!(desk.outcomes().await, ["cancelled", "cancelled"], "{name}");
        assert_eq!(desk.prompts().await.len(), 0, "{name}");
    }
}
