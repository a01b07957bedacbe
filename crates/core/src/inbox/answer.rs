//! The answer on the code host to the comments or the issue of a message.

use crate::left_out;
use crate::markdown::{gfm, gfm_line, gfm_link_text};
use crate::message::{Message, MessageStatus, Origin};
use crate::run::Reason;

/// The maximum length of an answer, in characters. Bitbucket accepts 32,768.
const ANSWER_CHARS: usize = 30_000;

/// The number of characters of a commit's ID. All hosts make a link of it.
const SHA_CHARS: usize = 12;

/// Returns the marker of the answer to a message, by which a repeated attempt finds it.
#[must_use]
pub fn marker(message: &Message) -> String {
    format!("<!-- journeyman:answer:{} -->", message.id)
}

/// Returns the text of the answer; `None` if the message needs none. `reason` is why the message failed, and `url` is
/// the page of the job.
#[must_use]
pub fn answer(message: &Message, reason: Option<&Reason>, url: &str) -> Option<String> {
    let head = match message.status {
        MessageStatus::Finished => done(message),
        MessageStatus::Failed => {
            let reason = reason.map_or("the job's page says why", |reason| reason.text.as_str());
            format!("❌ This could not be done: {}", gfm_line(reason))
        }
        MessageStatus::Cancelled => "⏹️ This was stopped before it was done.".to_owned(),
        MessageStatus::Withdrawn | MessageStatus::Queued | MessageStatus::Delivered => return None,
    };
    let comments = message.source.as_ref().map(|source| source.comments.as_slice()).unwrap_or_default();
    let comments: Vec<String> =
        comments.iter().map(|comment| format!("- [{}]({})", gfm_link_text(&comment.title), comment.url)).collect();
    let comments = (!comments.is_empty()).then(|| format!("For:\n\n{}", comments.join("\n")));
    // The pull request is somewhere else than the issue that asked for it.
    let is_of_issue = message.source.as_ref().is_some_and(|source| source.origin == Origin::Issue);
    let pull = message.pr_link.as_ref().filter(|_| is_of_issue).map(|link| format!("[Pull request]({link}) · "));
    let tail = Some(format!("{}[Job]({url})", pull.unwrap_or_default()));
    let left_out = message.diff.as_ref().and_then(|diff| left_out::markdown(&diff.left_out, diff.left_out_more));
    let fixed = [left_out, comments, tail].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    let left = ANSWER_CHARS.saturating_sub(head.chars().count() + fixed.chars().count());
    let text = message.answer.as_deref().map(|text| gfm(text.trim(), left)).filter(|text| !text.is_empty());
    Some([Some(head), text, Some(fixed)].into_iter().flatten().collect::<Vec<_>>().join("\n\n"))
}

fn done(message: &Message) -> String {
    let commits: Vec<String> =
        message.commits.iter().map(|sha| sha.as_str().chars().take(SHA_CHARS).collect()).collect();
    if commits.is_empty() {
        return "✅ Done, without a change to the code.".to_owned();
    }
    format!("✅ Done in {}.", commits.join(", "))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::code_host::HostName;
    use crate::ids::{JobId, MessageId};
    use crate::job::PullRepository;
    use crate::message::{DeliveryMode, MessageSource, SourceComment};
    use crate::ports::CommentKind;
    use crate::run::ReasonCode;
    use crate::time::Timestamp;

    const URL: &str = "https://journeyman.example/job";

    fn message(status: MessageStatus, commits: &[&str], answer: Option<&str>) -> Message {
        let comment = |id: &str, title: &str| SourceComment {
            kind: CommentKind::Line,
            id: id.to_owned(),
            url: format!("https://host.example/{id}"),
            title: title.to_owned(),
        };
        let id = Uuid::from_u128(7);
        Message {
            id: MessageId::from_uuid(id),
            job: JobId::from_uuid(id),
            prompt: String::new(),
            origin: Origin::Review,
            author: None,
            key: None,
            delivery: DeliveryMode::Queue,
            status,
            created_at: Timestamp::default(),
            delivered_at: None,
            finished_at: None,
            run: None,
            commits: commits.iter().map(|digit| digit.repeat(40).parse().unwrap()).collect(),
            pr_link: None,
            diff: None,
            published_with: None,
            answer: answer.map(str::to_owned),
            traceparent: None,
            source: Some(MessageSource {
                origin: Origin::Review,
                newer: None,
                repository: PullRepository { host: HostName("host.example".to_owned()), id: "1".to_owned() },
                number: 7,
                id: "1".to_owned(),
                url: String::new(),
                author: None,
                comments: vec![comment("1", "Rename [this]"), comment("2", "Add a test")],
                inbox: Vec::new(),
                logs: Vec::new(),
            }),
        }
    }

    #[test]
    fn an_answer_says_what_was_done_for_which_comment() {
        let text = answer(&message(MessageStatus::Finished, &["a", "b"], Some("Renamed.")), None, URL).unwrap();
        assert_eq!(
            text,
            "✅ Done in aaaaaaaaaaaa, bbbbbbbbbbbb.\n\nRenamed.\n\nFor:\n\n- [Rename \\[this\\]](https://host.example/1)\n- [Add a \
             test](https://host.example/2)\n\n[Job](https://journeyman.example/job)"
        );
    }

    #[test]
    fn the_answer_to_an_issue_has_the_pull_request() {
        let mut message = message(MessageStatus::Finished, &["a"], None);
        message.pr_link = Some("https://host.example/pulls/8".to_owned());
        let text = answer(&message, None, URL).unwrap();
        assert!(!text.contains("pulls/8"), "the comment is on that page: {text}");
        message.source = message.source.map(|source| MessageSource { origin: Origin::Issue, ..source });
        let text = answer(&message, None, URL).unwrap();
        assert!(text.ends_with("[Pull request](https://host.example/pulls/8) · [Job](https://journeyman.example/job)"));
    }

    #[test]
    fn the_first_line_says_how_it_ended() {
        let reason = Reason::new(ReasonCode::AgentFailed, "the agent crashed");
        for (status, commits, reason, expected) in [
            (MessageStatus::Finished, &[][..], None, Some("✅ Done, without a change to the code.")),
            (MessageStatus::Failed, &[], Some(&reason), Some("❌ This could not be done: the agent crashed")),
            (MessageStatus::Failed, &[], None, Some("❌ This could not be done: the job's page says why")),
            (MessageStatus::Cancelled, &[], None, Some("⏹️ This was stopped before it was done.")),
            (MessageStatus::Withdrawn, &[], None, None),
            (MessageStatus::Queued, &[], None, None),
        ] {
            let text = answer(&message(status, commits, None), reason, URL);
            assert_eq!(text.as_deref().map(|text| text.lines().next().unwrap()), expected, "{status:?}");
        }
    }

    #[test]
    fn an_answer_mentions_nobody_and_is_not_too_long() {
        let long = format!("@maria {}", "x".repeat(40_000));
        let text = answer(&message(MessageStatus::Finished, &["a"], Some(&long)), None, URL).unwrap();
        assert!(text.chars().count() <= ANSWER_CHARS + 4 && !text.contains("@maria"), "{}", &text[..80]);
        assert!(text.ends_with("[Job](https://journeyman.example/job)"));
    }
}
