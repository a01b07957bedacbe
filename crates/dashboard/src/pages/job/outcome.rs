//! The part above the conversation: the result of a job, why it failed, or what it waits for.

use askama::Template;
use journeyman_core::ids::MessageId;
use journeyman_core::job::{Ended, Job, JobState};
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::project::hold::Hold;
use journeyman_core::run::ReasonCode;
use journeyman_core::time::Timestamp;

use super::InJob;
use super::messages_and_runs::{MessagesAndRuns, ended, last_delivered};
use super::reason::{Link, Remedy};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::size::Size;
use crate::{visible, words};

/// The maximum number of commits that are listed.
const MAX_COMMITS: usize = 20;

#[derive(Template)]
#[template(path = "_job_outcome.html")]
struct Outcome<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    waiting: Option<WaitsFor>,
    result: Option<ResultCard>,
    failure: Option<FailureCard>,
    /// The reason why the job was canceled.
    cancelled: Option<String>,
    commits: Vec<CommitRow>,
    /// The number of older commits that are not listed.
    more: usize,
}

/// The cause of a job's wait, with the time of the next attempt.
struct WaitsFor {
    reason: String,
    /// The time of the next attempt.
    next: Moment,
    /// The time at which the message fails if the cause persists; `None` before the first attempt.
    deadline: Option<Moment>,
    /// True if the project is on hold, so that all its jobs wait.
    project: bool,
}

/// The last answer of the agent.
struct ResultCard {
    /// The answer, and its text for the clipboard.
    answer: Option<(Markup, String)>,
    /// The number of the message.
    number: usize,
    finished: Option<Moment>,
}

/// The reason why a job failed.
struct FailureCard {
    heading: &'static str,
    text: String,
    /// The number of attempts, if there was more than one.
    tries: Option<usize>,
    /// The address and the text of the link to the setting that mends the cause.
    link: Option<(String, &'static str)>,
    /// True if the page offers to try again.
    may_retry: bool,
}

struct CommitRow {
    sha: String,
    short: String,
    subject: Option<String>,
    size: Option<Size>,
    /// The number of the message.
    number: usize,
}

/// Renders the part. Call it within `spawn_blocking`, because rendering Markdown takes CPU time.
pub(super) fn render(
    at: &InJob,
    history: &MessagesAndRuns,
    hold: Option<&Hold>,
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> askama::Result<Fragment> {
    let is_active = matches!(at.job.state, JobState::Active(_));
    let reason = ended(&at.job);
    let was_cancelled = |code: ReasonCode| code == ReasonCode::Cancelled;
    let completed = matches!(at.job.state, JobState::Completed | JobState::Archived { before: Ended::Completed, .. });
    let (commits, more) = if is_active { (Vec::new(), 0) } else { commits(history) };
    Fragment::of(&Outcome {
        at,
        frame: at,
        waiting: WaitsFor::of(at, hold),
        result: if completed { ResultCard::of(at, history, highlighter, budget) } else { None },
        failure: reason.filter(|reason| !was_cancelled(reason.code)).map(|reason| {
            let remedy = Remedy::of(reason.code);
            let tries = history.last_delivered().map_or(0, |message| history.runs_of(message.id).count());
            FailureCard {
                heading: remedy.heading,
                text: words::sentence(&visible::lines(&reason.text)),
                tries: Some(tries).filter(|tries| *tries > 1),
                link: remedy.link.map(|link| address(at, link)),
                may_retry: retried(at, history).is_some(),
            }
        }),
        cancelled: reason
            .filter(|reason| was_cancelled(reason.code))
            .map(|reason| words::sentence(&visible::lines(&reason.text))),
        commits,
        more,
    })
}

/// Returns the message that *Try again* sends once more, if the viewer may send messages.
pub(super) fn retried<'a>(at: &InJob, history: &'a MessagesAndRuns) -> Option<&'a Message> {
    failed_message(&at.job, &history.messages).filter(|_| at.viewer.can_write())
}

/// Returns the last message of a job that failed and accepts messages.
pub(in crate::pages) fn failed_message<'a>(job: &Job, messages: &'a [Message]) -> Option<&'a Message> {
    let JobState::Failed(reason) = &job.state else { return None };
    let last = last_delivered(messages).filter(|message| message.status == MessageStatus::Failed);
    last.filter(|_| reason.code != ReasonCode::Cancelled)
}

/// Returns the idempotency key of the form *Try again*. It is the same on all pages that offer to send the message again.
pub(in crate::pages) fn retry_key(message: MessageId) -> String {
    format!("again-{message}")
}

fn address(at: &InJob, link: Link) -> (String, &'static str) {
    match link {
        Link::Setting(section, text) => (at.path(&format!("/settings/{section}")), text),
        Link::System => ("/system".to_owned(), "Open the system page"),
    }
}

impl WaitsFor {
    fn of(at: &InJob, hold: Option<&Hold>) -> Option<Self> {
        let next = |due: Timestamp| at.moment(hold.map_or(due, |hold| due.max(hold.next_probe_at)));
        let (reason, next, deadline) = match (at.job.waiting(), hold) {
            (Some((waiting, due)), _) => (&waiting.reason, next(due), Some(at.moment(waiting.deadline))),
            (None, Some(hold)) if at.job.may_be_claimed() => (&hold.reason, at.moment(hold.next_probe_at), None),
            _ => return None,
        };
        Some(Self { reason: visible::lines(&reason.text).into_owned(), next, deadline, project: hold.is_some() })
    }
}

impl ResultCard {
    fn of(at: &InJob, history: &MessagesAndRuns, highlighter: &Highlighter, budget: &mut Budget) -> Option<Self> {
        let last = history.last_delivered().filter(|message| message.status == MessageStatus::Finished)?;
        let (number, message) = history.message(last.id)?;
        let answer = message.answer.as_deref().filter(|answer| !answer.trim().is_empty());
        let answer = answer.map(|answer| {
            let text = visible::lines(answer).into_owned();
            (markdown::html_within(answer, highlighter, budget), text)
        });
        Some(Self { answer, number, finished: message.finished_at.map(|finished| at.moment(finished)) })
    }
}

/// Returns the newest commits of the job, oldest first, and the number of older ones.
fn commits(history: &MessagesAndRuns) -> (Vec<CommitRow>, usize) {
    let of_message = |(index, message): (usize, &Message)| {
        let known = message.diff.as_ref().map(|diff| diff.commits.as_slice()).unwrap_or_default();
        let row = |sha: &journeyman_core::ids::Sha| {
            let commit = known.iter().find(|commit| commit.sha == *sha);
            CommitRow {
                sha: sha.as_str().to_owned(),
                short: sha.as_str().chars().take(8).collect(),
                subject: commit.map(|commit| visible::line(&commit.subject).into_owned()),
                size: Size::of(commit.map(|commit| commit.stat)),
                number: index + 1,
            }
        };
        message.commits.iter().map(row).collect::<Vec<_>>()
    };
    let mut rows: Vec<CommitRow> = history.messages.iter().enumerate().flat_map(of_message).collect();
    let more = rows.len().saturating_sub(MAX_COMMITS);
    (rows.split_off(more), more)
}
