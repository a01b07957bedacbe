//! The answer on the code host to the comments or the issue of a message: a summary in the conversation, which shows the
//! progress before, and a reply in the thread of each comment that is in one.

use super::sections::{self, Sections};
use crate::conversation::{CommentTarget, InThread, NewReply};
use crate::hook::CommentKind;
use crate::ids::{MessageId, Sha};
use crate::left_out;
use crate::markdown::{gfm, gfm_line, gfm_link_text};
use crate::message::{Message, MessageStatus, Origin, PlanProgress, SourceComment};
use crate::run::Reason;

/// The maximum length of an answer, in characters. Bitbucket accepts 32,768.
const ANSWER_CHARS: usize = 30_000;

/// The maximum length of what the agent says about one comment, in characters.
const SECTION_CHARS: usize = 10_000;

/// The number of characters of a commit's ID. All hosts make a link of it.
const SHA_CHARS: usize = 12;

/// Returns the marker of the answer to a message, by which a repeated attempt finds it.
#[must_use]
pub fn marker(message: &Message) -> String {
    format!("<!-- journeyman:answer:{} -->", message.id)
}

/// Returns the marker of the reply to a comment of a message.
fn reply_marker(message: MessageId, comment: &str) -> String {
    // An ID has no character that could end the comment on any host.
    let id: String = comment.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    format!("<!-- journeyman:reply:{message}:{id} -->")
}

/// Returns the conversation in which a message is answered; `None` if the message came from no code host.
#[must_use]
pub fn target(message: &Message) -> Option<CommentTarget> {
    let source = message.source.as_ref()?;
    let is_issue = source.comments.first().map_or(source.origin == Origin::Issue, |one| one.kind == CommentKind::Issue);
    Some(if is_issue { CommentTarget::Issue(source.number) } else { CommentTarget::Pull(source.number) })
}

/// Returns whether people see the progress of a message on the code host: it was made of comments or of an issue.
#[must_use]
pub fn has_progress(message: &Message) -> bool {
    message.source.as_ref().is_some_and(|source| !source.comments.is_empty() || source.origin == Origin::Issue)
}

/// Returns what the summary says while a message waits or the agent works; `None` if the message has ended. `waiting` is
/// the cause that the message waits for, if there is one, and `url` is the page of the job.
#[must_use]
pub fn progress(message: &Message, plan: Option<&PlanProgress>, waiting: Option<&Reason>, url: &str) -> Option<String> {
    let state = match message.status {
        MessageStatus::Queued => "⏳ Queued.".to_owned(),
        MessageStatus::Delivered => match (waiting, plan) {
            (Some(reason), _) => format!("⏳ Waiting: {}", gfm_line(&reason.text)),
            (None, Some(plan)) if plan.done < plan.total => {
                let step = plan.current.as_deref().map(|step| format!(": {}", gfm_line(step))).unwrap_or_default();
                format!("⚙️ Working, step {} of {}{step}", plan.done + 1, plan.total)
            }
            (None, _) => "⚙️ Working on it.".to_owned(),
        },
        MessageStatus::Finished | MessageStatus::Failed | MessageStatus::Cancelled | MessageStatus::Withdrawn => {
            return None;
        }
    };
    Some(format!("{state}\n\n[Job]({url})"))
}

/// Returns what the summary says when the review that a message asked for is written: the page of the review and that of the
/// job.
#[must_use]
pub fn reviewed(review: &str, url: &str) -> String {
    format!("✅ Reviewed: [review]({review})\n\n[Job]({url})")
}

/// Returns the text of the answer; `None` if the message has not ended. `reason` is why the message failed, `url` is the
/// page of the job, and `refused` are the IDs of the comments whose threads accept no reply.
#[must_use]
pub fn answer(message: &Message, reason: Option<&Reason>, url: &str, refused: &[String]) -> Option<String> {
    let head = match message.status {
        MessageStatus::Finished => done(message),
        MessageStatus::Failed => {
            let reason = reason.map_or("the job's page says why", |reason| reason.text.as_str());
            format!("❌ This could not be done: {}", gfm_line(reason))
        }
        MessageStatus::Cancelled => "⏹️ This was stopped before it was done.".to_owned(),
        MessageStatus::Withdrawn => {
            return Some(format!("🗑️ This was withdrawn before the agent got it.\n\n[Job]({url})"));
        }
        MessageStatus::Queued | MessageStatus::Delivered => return None,
    };
    let comments = message.source.as_ref().map(|source| source.comments.as_slice()).unwrap_or_default();
    let sections = sections(message, comments);
    let has_reply = |comment: &SourceComment| gets_reply(message, comment) && !refused.contains(&comment.id);
    let linked = |comment: &SourceComment| format!("[{}]({})", gfm_link_text(&comment.title), comment.url);
    let list: Vec<String> = comments.iter().map(|comment| format!("- {}", linked(comment))).collect();
    let list = (!list.is_empty()).then(|| format!("For:\n\n{}", list.join("\n")));
    // The pull request is somewhere else than the issue that asked for it.
    let is_of_issue = message.source.as_ref().is_some_and(|source| source.origin == Origin::Issue);
    let pull = message.pr_link.as_ref().filter(|_| is_of_issue).map(|link| format!("[Pull request]({link}) · "));
    let tail = Some(format!("{}[Job]({url})", pull.unwrap_or_default()));
    let left_out = message.diff.as_ref().and_then(|diff| left_out::markdown(&diff.left_out, diff.left_out_more));
    let is_refused = |comment: &&SourceComment| refused.contains(&comment.id);
    let note = match comments.iter().filter(is_refused).count() {
        0 => None,
        1 => Some("The code host accepts no reply in the thread of a comment, so the reply is here.".to_owned()),
        count => {
            Some(format!("The code host accepts no replies in the threads of {count} comments, so they are here."))
        }
    };
    let fixed = [left_out, note, list, tail].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    let mut left = ANSWER_CHARS.saturating_sub(head.chars().count() + fixed.chars().count());
    let text = gfm(sections.rest.trim(), left);
    left = left.saturating_sub(text.chars().count());
    let missing = |comment: &SourceComment| match commits_for(message, comment).as_slice() {
        [] => "See above.".to_owned(),
        commits => format!("Done in {}.", short(commits)),
    };
    let here = comments.iter().zip(&sections.of).filter(|(comment, _)| !has_reply(comment));
    let here: Vec<(&SourceComment, String)> = here
        .filter_map(|(comment, said)| {
            let otherwise = || is_refused(&comment).then(|| missing(comment));
            Some((comment, said.clone().or_else(otherwise)?))
        })
        .collect();
    let share = left / here.len().max(1);
    let here = here.into_iter().map(|(comment, said)| {
        let title = format!("**{}**", linked(comment));
        let text = gfm(&said, share.saturating_sub(title.chars().count() + 4).min(SECTION_CHARS));
        format!("{title}\n\n{text}")
    });
    let parts = [head, text].into_iter().chain(here).chain([fixed]);
    Some(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n"))
}

/// A reply to comments of a message, which are all in one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadReply {
    /// The IDs of the comments.
    pub comments: Vec<String>,
    /// The reply.
    pub reply: NewReply,
    /// Whether commits answer each of the comments.
    pub has_commits: bool,
}

/// A comment, with what the agent says about it.
type Said<'a> = (&'a SourceComment, Option<&'a String>);

/// Returns the replies to the comments of a message that are in threads, one for each thread. Only a message that has
/// succeeded gets them: otherwise, the summary says all that there is to say. `summary` is the URL of the summary.
#[must_use]
pub fn replies(message: &Message, summary: &str) -> Vec<ThreadReply> {
    let comments = message.source.as_ref().map(|source| source.comments.as_slice()).unwrap_or_default();
    let sections = sections(message, comments);
    let mut threads: Vec<(&str, InThread, Vec<Said<'_>>)> = Vec::new();
    for (comment, said) in comments.iter().zip(&sections.of).filter(|(comment, _)| gets_reply(message, comment)) {
        let Some(to) = comment.in_thread() else { continue };
        let thread = comment.thread.as_ref();
        let key = thread.and_then(|thread| thread.id.as_deref().or(thread.parent.as_deref())).unwrap_or(&comment.id);
        match threads.iter_mut().find(|(known, ..)| *known == key) {
            Some((.., known)) => known.push((comment, said.as_ref())),
            None => threads.push((key, to, vec![(comment, said.as_ref())])),
        }
    }
    let reply = |(_, to, comments): (&str, InThread, Vec<Said<'_>>)| {
        let text = reply_text(message, &comments, summary);
        let has_commits = comments.iter().all(|(comment, _)| !commits_for(message, comment).is_empty());
        let comments = comments.into_iter().map(|(comment, _)| comment.id.clone()).collect();
        ThreadReply { comments, reply: NewReply { marker: reply_marker(message.id, &to.id), to, text }, has_commits }
    };
    threads.into_iter().map(reply).collect()
}

/// Returns what a reply says: what the agent has said about the comments, and the commits that have changed their files.
fn reply_text(message: &Message, comments: &[Said<'_>], summary: &str) -> String {
    let mut commits: Vec<&Sha> = Vec::new();
    for (comment, _) in comments {
        for commit in commits_for(message, comment) {
            if !commits.contains(&commit) {
                commits.push(commit);
            }
        }
    }
    let said: Vec<String> = comments.iter().filter_map(|(_, said)| Some(gfm(said.as_ref()?, SECTION_CHARS))).collect();
    match (said.join("\n\n"), commits.as_slice()) {
        (said, []) if said.is_empty() => format!("What was done is [in the summary]({summary})."),
        (said, []) => said,
        (said, commits) if said.is_empty() => format!("✅ Done in {}.", short(commits)),
        (said, [commit]) => format!("{said}\n\nCommit: {}", short(&[*commit])),
        (said, commits) => format!("{said}\n\nCommits: {}", short(commits)),
    }
}

/// Returns whether a comment gets a reply in its thread.
fn gets_reply(message: &Message, comment: &SourceComment) -> bool {
    message.status == MessageStatus::Finished && comment.thread.is_some()
}

/// Reads what the agent says about each comment. The whole answer is about the only comment of a message, unless it has a
/// section for it.
fn sections(message: &Message, comments: &[SourceComment]) -> Sections {
    let answer = message.answer.as_deref().unwrap_or_default();
    match comments {
        [] => Sections { rest: answer.to_owned(), of: Vec::new() },
        [only] if only.thread.is_none() => Sections { rest: answer.to_owned(), of: vec![None] },
        comments => match sections::read(answer, comments.len()) {
            Sections { rest, of } if of == [None] && !rest.is_empty() => {
                Sections { rest: String::new(), of: vec![Some(rest)] }
            }
            read => read,
        },
    }
}

/// Returns the commits of a message that answer a comment: those that have changed its file, as far as it is known which
/// files they have changed.
fn commits_for<'a>(message: &'a Message, comment: &SourceComment) -> Vec<&'a Sha> {
    let known = message.diff.as_ref().map(|diff| diff.commits.as_slice()).unwrap_or_default();
    let changes = |commit: &&Sha| {
        let Some(path) = &comment.path else { return true };
        let diff = known.iter().find(|diff| diff.sha == **commit);
        diff.is_none_or(|diff| diff.paths.is_empty() || diff.paths.contains(path))
    };
    message.commits.iter().filter(changes).collect()
}

fn short(commits: &[&Sha]) -> String {
    let short = |sha: &&Sha| sha.as_str().chars().take(SHA_CHARS).collect::<String>();
    commits.iter().map(short).collect::<Vec<_>>().join(", ")
}

fn done(message: &Message) -> String {
    let commits: Vec<&Sha> = message.commits.iter().collect();
    if commits.is_empty() {
        return "✅ Done, without a change to the code.".to_owned();
    }
    format!("✅ Done in {}.", short(&commits))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::code_host::{HostName, PullRepository};
    use crate::diff_stat::{CommitDiff, DiffStat, MessageDiff};
    use crate::ids::{JobId, MessageId};
    use crate::message::{DeliveryMode, MessageSource, SourceComment};
    use crate::position::Thread;
    use crate::run::ReasonCode;
    use crate::time::Timestamp;

    const URL: &str = "https://journeyman.example/job";

    fn message(status: MessageStatus, commits: &[&str], answer: Option<&str>) -> Message {
        let comment = |id: &str, title: &str| SourceComment {
            kind: CommentKind::Line,
            id: id.to_owned(),
            url: format!("https://host.example/{id}"),
            title: title.to_owned(),
            thread: None,
            review: None,
            path: None,
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
                files: Vec::new(),
            }),
        }
    }

    #[test]
    fn an_answer_says_what_was_done_for_which_comment() {
        let text = answer(&message(MessageStatus::Finished, &["a", "b"], Some("Renamed.")), None, URL, &[]).unwrap();
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
        let text = answer(&message, None, URL, &[]).unwrap();
        assert!(!text.contains("pulls/8"), "the comment is on that page: {text}");
        message.source = message.source.map(|source| MessageSource { origin: Origin::Issue, ..source });
        let text = answer(&message, None, URL, &[]).unwrap();
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
            (MessageStatus::Withdrawn, &[], None, Some("🗑️ This was withdrawn before the agent got it.")),
            (MessageStatus::Queued, &[], None, None),
        ] {
            let text = answer(&message(status, commits, None), reason, URL, &[]);
            assert_eq!(text.as_deref().map(|text| text.lines().next().unwrap()), expected, "{status:?}");
        }
    }

    #[test]
    fn an_answer_mentions_nobody_and_is_not_too_long() {
        let long = format!("@maria {}", "x".repeat(40_000));
        let text = answer(&message(MessageStatus::Finished, &["a"], Some(&long)), None, URL, &[]).unwrap();
        assert!(text.chars().count() <= ANSWER_CHARS + 4 && !text.contains("@maria"), "{}", &text[..80]);
        assert!(text.ends_with("[Job](https://journeyman.example/job)"));
    }

    /// Returns a message of three comments, of which the first two are in the threads 10 and 20.
    fn reviewed(answer: Option<&str>) -> Message {
        let mut message = message(MessageStatus::Finished, &["a", "b"], answer);
        let comments = &mut message.source.as_mut().unwrap().comments;
        comments.push(SourceComment { id: "3".to_owned(), kind: CommentKind::Pull, ..comments[0].clone() });
        for (comment, (thread, path)) in comments.iter_mut().zip([("10", "a.rs"), ("20", "b.rs")]) {
            comment.thread = Some(Thread::begun_by(thread));
            comment.path = Some(path.to_owned());
        }
        message
    }

    fn diff(paths: [&[&str]; 2]) -> MessageDiff {
        let commit = |(digit, paths): (&str, &[&str])| CommitDiff {
            sha: digit.repeat(40).parse().unwrap(),
            subject: String::new(),
            stat: DiffStat::default(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        MessageDiff { commits: ["a", "b"].into_iter().zip(paths).map(commit).collect(), ..MessageDiff::default() }
    }

    #[test]
    fn each_thread_gets_a_reply_with_the_commits_that_changed_its_file() {
        let answer = "All done.\n\n### Comment 1\nRenamed, @maria.\n\n### Comment 3\nExplained.";
        let mut message = reviewed(Some(answer));
        message.diff = Some(diff([&["a.rs", "x.rs"], &["x.rs"]]));
        let found = replies(&message, "https://host.example/summary");
        let shown: Vec<_> = found.iter().map(|one| (one.reply.text.as_str(), one.has_commits)).collect();
        assert_eq!(
            shown,
            [
                ("Renamed, @`maria`.\n\nCommit: aaaaaaaaaaaa", true),
                ("What was done is [in the summary](https://host.example/summary).", false),
            ]
        );
        assert_eq!(found[1].reply.marker, format!("<!-- journeyman:reply:{}:2 -->", message.id));
        let text = super::answer(&message, None, URL, &[]).unwrap();
        assert!(
            text.starts_with("✅ Done in aaaaaaaaaaaa, bbbbbbbbbbbb.\n\nAll done.\n\n**[Rename \\[this\\]]"),
            "{text}"
        );
        assert!(text.contains("\n\nExplained.\n\nFor:\n\n") && !text.contains("Renamed"), "{text}");
        // Without a section, the commits are the answer, and all of them count if it is not known what they have changed.
        for (paths, expected) in [
            ([&["a.rs"][..], &["b.rs"][..]], "✅ Done in bbbbbbbbbbbb."),
            ([&["a.rs"][..], &[][..]], "✅ Done in bbbbbbbbbbbb."),
            ([&["b.rs"][..], &["b.rs"][..]], "✅ Done in aaaaaaaaaaaa, bbbbbbbbbbbb."),
        ] {
            message.diff = Some(diff(paths));
            assert_eq!(replies(&message, "")[1].reply.text, expected);
        }
        message.status = MessageStatus::Failed;
        assert_eq!(replies(&message, ""), []);
    }

    #[test]
    fn comments_of_one_thread_get_one_reply() {
        let mut message = reviewed(Some("### Comment 1\nRenamed.\n### Comment 2\nTested."));
        let comments = &mut message.source.as_mut().unwrap().comments;
        comments[1].thread = Some(Thread { parent: Some("1".to_owned()), ..Thread::begun_by("10") });
        let found = replies(&message, "");
        let [reply] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(reply.comments, ["1", "2"]);
        assert_eq!(reply.reply.text, "Renamed.\n\nTested.\n\nCommits: aaaaaaaaaaaa, bbbbbbbbbbbb");
    }

    #[test]
    fn the_summary_has_what_no_thread_accepts() {
        let message = reviewed(Some("### Comment 1\nRenamed.\n### Comment 2\nTested."));
        let text = super::answer(&message, None, URL, &["2".to_owned()]).unwrap();
        assert!(text.contains("\n\n**[Add a test](https://host.example/2)**\n\nTested.\n\n"), "{text}");
        assert!(
            text.contains("\n\nThe code host accepts no reply in the thread of a comment, so the reply is here.\n")
        );
        assert!(!text.contains("Renamed."), "{text}");
        let silent = Message { answer: None, ..message.clone() };
        let text = super::answer(&silent, None, URL, &["2".to_owned()]).unwrap();
        assert!(text.contains("\n\n**[Add a test](https://host.example/2)**\n\nDone in aaaaaaaaaaaa, bbbbbbbbbbbb.\n"));
        // A message that failed gets no replies.
        let failed = Message { status: MessageStatus::Failed, ..message };
        let text = super::answer(&failed, None, URL, &[]).unwrap();
        assert!(text.contains("Renamed.") && text.contains("Tested."), "{text}");
    }

    #[test]
    fn the_progress_is_that_of_the_plan() {
        let plan = PlanProgress { done: 2, total: 5, current: Some("Ask @maria".to_owned()) };
        let ended = PlanProgress { done: 5, total: 5, current: None };
        let reason = Reason::new(ReasonCode::TimedOut, "the model is overloaded");
        let (queued, delivered) = (MessageStatus::Queued, MessageStatus::Delivered);
        for (status, plan, waiting, expected) in [
            (queued, None, None, Some("⏳ Queued.")),
            (delivered, None, None, Some("⚙️ Working on it.")),
            (delivered, Some(&plan), None, Some("⚙️ Working, step 3 of 5: Ask @`maria`")),
            (delivered, Some(&ended), None, Some("⚙️ Working on it.")),
            (delivered, Some(&plan), Some(&reason), Some("⏳ Waiting: the model is overloaded")),
            (MessageStatus::Finished, None, None, None),
            (MessageStatus::Withdrawn, None, None, None),
        ] {
            let text = progress(&message(status, &[], None), plan, waiting, URL);
            assert_eq!(text, expected.map(|text| format!("{text}\n\n[Job]({URL})")));
        }
    }
}
