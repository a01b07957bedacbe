//! The texts that the service writes to a thread.

use super::text::link;
use crate::diff_stat::DiffStat;
use crate::ids::Sha;
use crate::job::Job;
use crate::left_out::LeftOut;
use crate::markdown::{cut, slack, slack_code, slack_line};
use crate::message::{Message, MessageStatus};
use crate::run::Reason;

/// The maximum length of a text, in characters. Slack cuts longer ones into several messages.
const TEXT_CHARS: usize = 3900;

/// The maximum length of a reason, in characters.
const REASON_CHARS: usize = 500;

/// The number of characters of a commit's ID.
const SHA_CHARS: usize = 12;

/// Returns the status of a message in the notation of Slack. `reason` is why the message failed, and `url` is the page of
/// the job.
#[must_use]
pub fn status(message: &Message, reason: Option<&Reason>, job: &Job, url: &str) -> String {
    let page = link(url, "Job");
    let head = match message.status {
        MessageStatus::Queued => format!("⏳ Queued. {page}"),
        MessageStatus::Delivered => match job.waiting() {
            Some((waiting, _)) => format!("⏳ Waiting: {} {page}", short(&waiting.reason.text)),
            None => format!("⚙️ Working on it. {page}"),
        },
        MessageStatus::Finished => return finished(message, job, &page),
        MessageStatus::Failed => {
            let reason = reason.map_or("The page of the job says why.", |reason| reason.text.as_str());
            format!("❌ This could not be done: {} {page}", short(reason))
        }
        MessageStatus::Cancelled => format!("⏹️ This was stopped before it was done. {page}"),
        MessageStatus::Withdrawn => format!("🗑️ This was withdrawn before it began. {page}"),
    };
    cut(&head, TEXT_CHARS)
}

fn finished(message: &Message, job: &Job, page: &str) -> String {
    let short = |sha: &Sha| format!("`{}`", sha.as_str().chars().take(SHA_CHARS).collect::<String>());
    let commits: Vec<String> = message.commits.iter().map(short).collect();
    let head = match commits.is_empty() {
        true => "✅ Done, without a change to the code.".to_owned(),
        false => {
            let size = message.diff.as_ref().map(|diff| size(diff.stat)).unwrap_or_default();
            format!("✅ Done in {}{size}.", cut(&commits.join(", "), REASON_CHARS))
        }
    };
    let left_out = message.diff.as_ref().and_then(|diff| left_out(&diff.left_out, diff.left_out_more));
    let head = [Some(head), left_out].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let pull = message.pr_link.clone().or_else(|| job.pull.as_ref().map(|pull| pull.url.clone()));
    let pull = pull.filter(|url| url.starts_with("https://") || url.starts_with("http://"));
    let pull = pull.map(|url| format!("{} · ", link(&url, "Pull request"))).unwrap_or_default();
    let tail = format!("{pull}{page}");
    let answer = message.answer.as_deref().map(str::trim).filter(|answer| !answer.is_empty());
    let left = TEXT_CHARS.saturating_sub(head.chars().count() + tail.chars().count() + 4);
    match answer {
        Some(answer) => format!("{head}\n\n{}\n\n{tail}", slack(answer, left)),
        None => format!("{head} {tail}"),
    }
}

/// Returns the number of paths that were left out, with the first of them.
fn left_out(left_out: &[LeftOut], more: u64) -> Option<String> {
    let first = left_out.first()?;
    let others = more.saturating_add(left_out.len() as u64 - 1);
    let others = if others == 0 { String::new() } else { format!(", and {others} more") };
    let path = slack_code(&cut(&first.path, REASON_CHARS));
    Some(format!("⚠️ Not published: {path} {}{others}.", first.reason.text()))
}

/// Returns the numbers of changed lines, such as ` (+145 −18)`. A zero is left out; without changed lines, the text is empty.
fn size(stat: DiffStat) -> String {
    let number = |(sign, count): (char, u64)| (count > 0).then(|| format!("{sign}{count}"));
    let numbers: Vec<String> = [('+', stat.additions), ('−', stat.deletions)].into_iter().filter_map(number).collect();
    if numbers.is_empty() { String::new() } else { format!(" ({})", numbers.join(" ")) }
}

fn short(reason: &str) -> String {
    slack_line(&cut(reason, REASON_CHARS))
}

/// Returns the explanation of the commands.
#[must_use]
pub fn help() -> String {
    "Mention me in a channel that is connected with a project, and say what to do. I answer in a thread; each reply there \
     is the next message to the same job, unless it begins with the mention of another person.\n\
     • `model=…`, `effort=…`, `agent=…`, `branch=…` and `ref=…` at the beginning choose these for a new job.\n\
     • `status` in the thread shows the state of the job.\n\
     • `stop` in the thread cancels the job.\n\
     • `link CODE` in a direct message connects your account with the code that Journeyman has given you."
        .to_owned()
}

/// Returns the answer to a person whose account is not connected.
#[must_use]
pub fn unknown_user(user: &str, public_url: &str) -> String {
    let page = link(public_url, "Journeyman");
    format!(
        "<@{user}>, I do not know who you are on {page}. Choose *Link your Slack account* on your page *Account* there, or ask \
         an administrator to connect your account, `{user}`, with your user."
    )
}

/// Returns the answer to a person of another workspace whose account is not connected.
#[must_use]
pub fn unknown_stranger(user: &str, public_url: &str) -> String {
    let page = link(public_url, "Journeyman");
    format!(
        "<@{user}>, you belong to another workspace, and I take requests only from people whose account is connected with \
         a user of {page}. An administrator there can connect your account, `{user}`."
    )
}

/// Returns the answer to a mention by a bot or a workflow.
#[must_use]
pub fn only_people() -> String {
    "I take requests only from people, so this mention by a bot or a workflow starts nothing. Programs use the HTTP \
     interface."
        .to_owned()
}

/// Returns the answer to an edited message.
#[must_use]
pub fn edited() -> String {
    "✏️ I do not read edits of messages. Send what has changed as another message; one that is still queued is withdrawn \
     if you delete it in Slack."
        .to_owned()
}

/// Returns the answer to a message with files.
#[must_use]
pub fn files(count: u32) -> String {
    let what = if count == 1 { "the file" } else { "the files" };
    format!("📎 I do not read {what} of this message. Put what matters into a message, or commit it to the repository.")
}

/// Returns the answer to a person who has sent a code in a channel.
#[must_use]
pub fn published_code(user: &str, public_url: &str) -> String {
    let page = link(public_url, "Journeyman");
    format!(
        "❌ <@{user}>, everyone in this channel can read that code, so it is no longer valid. Get a new one on your page \
         *Account* on {page}, and send `link CODE` to me in a direct message."
    )
}

/// Returns the answer in a channel without a project.
#[must_use]
pub fn unknown_channel(channel: &str) -> String {
    format!(
        "This channel is not connected with a project. An administrator can connect it under *System → Slack*; the ID of \
         the channel is `{}`.",
        slack_line(channel)
    )
}

/// Returns the answer to a request that was refused.
#[must_use]
pub fn refused(reason: &str) -> String {
    format!("❌ {}", short(reason))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::diff_stat::MessageDiff;
    use crate::ids::{JobId, MessageId};
    use crate::job::Source;
    use crate::message::{DeliveryMode, Origin};
    use crate::run::ReasonCode;
    use crate::time::Timestamp;

    const URL: &str = "https://jm.example/job";

    fn job() -> Job {
        let source = Source { repository: "local:shop".to_owned(), reference: "main".to_owned() };
        Job::new(JobId::from_uuid(Uuid::nil()), "shop".parse().unwrap(), source, Timestamp::default())
    }

    fn message(status: MessageStatus, answer: Option<&str>) -> Message {
        Message {
            id: MessageId::from_uuid(Uuid::nil()),
            job: JobId::from_uuid(Uuid::nil()),
            prompt: String::new(),
            origin: Origin::Slack,
            author: None,
            key: None,
            delivery: DeliveryMode::Queue,
            status,
            created_at: Timestamp::default(),
            delivered_at: None,
            finished_at: None,
            run: None,
            commits: Vec::new(),
            pr_link: None,
            diff: None,
            published_with: None,
            answer: answer.map(str::to_owned),
            traceparent: None,
            source: None,
        }
    }

    #[test]
    fn each_status_has_a_text_with_a_link() {
        let reason = Reason::new(ReasonCode::TimedOut, "It took <too> long.");
        for (state, begins) in [
            (MessageStatus::Queued, "⏳ Queued"),
            (MessageStatus::Delivered, "⚙️ Working"),
            (MessageStatus::Finished, "✅ Done, without a change"),
            (MessageStatus::Failed, "❌ This could not be done: It took &lt;too&gt; long."),
            (MessageStatus::Cancelled, "⏹️ This was stopped"),
            (MessageStatus::Withdrawn, "🗑️ This was withdrawn"),
        ] {
            let text = status(&message(state, None), Some(&reason), &job(), URL);
            assert!(text.starts_with(begins) && text.contains("<https://jm.example/job|Job>"), "{text}");
        }
    }

    #[test]
    fn a_finished_message_shows_its_commits_its_pull_request_and_its_answer() {
        let done = Message {
            commits: vec!["a".repeat(40).parse().unwrap()],
            pr_link: Some("https://git.example/pull/1".to_owned()),
            ..message(MessageStatus::Finished, Some("Fixed **all** <b>."))
        };
        let text = status(&done, None, &job(), URL);
        let expected = "✅ Done in `aaaaaaaaaaaa`.\n\nFixed *all* `&lt;b&gt;`.\n\n\
                        <https://git.example/pull/1|Pull request> · <https://jm.example/job|Job>";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_finished_message_shows_the_numbers_of_changed_lines() {
        for (additions, deletions, size) in [(145, 18, " (+145 −18)"), (145, 0, " (+145)"), (0, 2, " (−2)"), (0, 0, "")]
        {
            let stat = DiffStat { additions, deletions, files: 1 };
            let done = Message {
                commits: vec!["a".repeat(40).parse().unwrap()],
                diff: Some(MessageDiff { stat, commits: Vec::new(), ..MessageDiff::default() }),
                ..message(MessageStatus::Finished, None)
            };
            let text = status(&done, None, &job(), URL);
            assert_eq!(text, format!("✅ Done in `aaaaaaaaaaaa`{size}. <https://jm.example/job|Job>"));
        }
    }

    #[test]
    fn a_long_answer_is_cut_so_that_slack_does_not_split_it() {
        for answer in ["<".repeat(90_000), format!("```\n{}", "x\n".repeat(40_000)), "ä".repeat(90_000)] {
            let text = status(&message(MessageStatus::Finished, Some(&answer)), None, &job(), URL);
            let length = text.chars().count();
            assert!((1000..=TEXT_CHARS).contains(&length), "{length}");
            assert!(text.ends_with("<https://jm.example/job|Job>"), "{text}");
            assert_eq!(text.matches("```").count() % 2, 0);
        }
    }
}
