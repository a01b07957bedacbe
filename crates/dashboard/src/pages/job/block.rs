//! Rendering of one block of the conversation.

use std::borrow::Cow;
use std::time::Duration;

use askama::Template;
use journeyman_core::code_host::HostName;
use journeyman_core::diff_stat::MessageDiff;
use journeyman_core::left_out::LeftOut;
use journeyman_core::message::{Message, MessageStatus, Origin};
use journeyman_core::time::Timestamp;

use super::InJob;
use super::messages_and_runs::{MessagesAndRuns, failure};
use crate::conversation::{Block, Kind, Line, Part, Tool, patch};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::size::Size;
use crate::{visible, words};

/// The number of lines of a failed tool call that are shown without opening it.
const TAIL_LINES: usize = 2;

/// The values of the page that its blocks use.
pub(super) struct BlockContext<'a> {
    pub(super) at: &'a InJob,
    pub(super) history: &'a MessagesAndRuns,
    /// True if the page shows the result of the job above the conversation.
    pub(super) has_outcome: bool,
    pub(super) highlighter: &'a Highlighter,
}

/// The folded steps of a message whose turn is over.
pub(super) struct Steps {
    pub(super) count: usize,
    /// The ID of the element that contains them, if they are on the page.
    pub(super) fold: Option<String>,
}

#[derive(Template)]
#[template(path = "_block.html")]
struct BlockView<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    block: &'a Block,
    turn: Option<Turn<'a>>,
    markup: Option<Markup>,
    parts: Vec<PartView<'a>>,
    /// The sum of the changes of a tool call.
    size: Option<Size>,
    /// True if the page shows the reason of a line elsewhere.
    is_told: bool,
}

/// A message with its receipt, as the template shows it.
struct Turn<'a> {
    number: usize,
    initial: String,
    author: String,
    origin: Option<Source>,
    at: Moment,
    text: Cow<'a, str>,
    /// The beginning of the text, for one line.
    line: Cow<'a, str>,
    is_over: bool,
    class: &'static str,
    status: &'static str,
    state: &'static str,
    mark: &'static str,
    /// The time that the message has taken, with its preposition.
    took: Option<(&'static str, String)>,
    /// The start of the current run, and the time since then.
    clock: Option<(String, String)>,
    steps: Option<Steps>,
    commits: Vec<&'a str>,
    carried_over: Option<&'a str>,
    left_out: &'a [LeftOut],
    left_out_more: u64,
    left_out_count: u64,
    size: Option<Size>,
    cost: Option<String>,
}

/// The origin of a message, as a link.
struct Source {
    icon: &'static str,
    text: String,
    href: Option<String>,
}

/// A part of the output of a tool call: a text, or a change of a file.
struct PartView<'a> {
    /// The path of a changed file.
    path: Option<&'a str>,
    text: &'a str,
    rows: Vec<String>,
}

/// Renders a block. Call it within `spawn_blocking`, because rendering Markdown takes CPU time.
pub(super) fn render(context: &BlockContext<'_>, block: &Block, budget: &mut Budget) -> askama::Result<Fragment> {
    render_with(context, block, None, budget)
}

/// Renders a block like [`render`]; `steps` are those of its message.
pub(super) fn render_with(
    context: &BlockContext<'_>,
    block: &Block,
    steps: Option<Steps>,
    budget: &mut Budget,
) -> askama::Result<Fragment> {
    let turn = match &block.kind {
        Kind::Turn(id) => {
            let found = context.history.message(*id);
            found.map(|(number, message)| Turn::new(context, number, message, steps))
        }
        _ => None,
    };
    let markup = match &block.kind {
        Kind::Said(text) => Some(markdown::html_within(text, context.highlighter, budget)),
        _ => None,
    };
    let (parts, size) = match &block.kind {
        Kind::Tool(tool) => parts(tool),
        _ => (Vec::new(), None),
    };
    let told = failure(&context.at.job).filter(|_| context.has_outcome).map(|reason| reason.text.as_str());
    let is_told = match &block.kind {
        Kind::Line(Line { reason: Some(reason), short, .. }) => !short.is_empty() && Some(reason.as_str()) == told,
        _ => false,
    };
    Fragment::of(&BlockView { at: context.at, frame: context.at, block, turn, markup, parts, size, is_told })
}

/// Returns the parts of a tool's output, and the sum of its changes.
fn parts(tool: &Tool) -> (Vec<PartView<'_>>, Option<Size>) {
    let parts: Vec<PartView<'_>> = tool.parts.iter().map(PartView::of).collect();
    let count = |sign: char| {
        let rows = parts.iter().flat_map(|part| &part.rows);
        rows.filter(|row| row.starts_with(sign)).count()
    };
    let files = parts.iter().filter(|part| part.path.is_some()).count();
    let size = (files > 0).then(|| Size::of_lines(count('+'), count('-'), files));
    (parts, size)
}

impl<'a> PartView<'a> {
    fn of(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self { path: None, text, rows: Vec::new() },
            Part::Change(path, old, new) => Self { path: Some(path), text: "", rows: patch(old, new) },
        }
    }
}

impl<'a> Turn<'a> {
    fn new(context: &BlockContext<'a>, number: usize, message: &'a Message, steps: Option<Steps>) -> Self {
        let (at, history) = (context.at, context.history);
        let (status, mark) = status(message.status);
        let run = history.running().filter(|run| run.message == message.id);
        let author = author(message);
        let is_over = context.has_outcome && history.is_over(&at.job, message);
        let worked = Some(history.worked_on(message.id)).filter(|time| message.status.is_final() && !time.is_zero());
        let word = if message.status == MessageStatus::Finished { "in" } else { "after" };
        Self {
            number,
            initial: author.chars().next().map(String::from).unwrap_or_default(),
            author,
            origin: Source::of(message),
            at: at.moment(message.created_at),
            text: visible::lines(&message.prompt),
            line: visible::line(first_line(&message.prompt)),
            is_over,
            class: if message.status == MessageStatus::Withdrawn { "withdrawn" } else { "" },
            status,
            state: state(message.status),
            mark,
            took: worked.map(|time| (word, words::duration(time))),
            clock: run.map(|run| (run.started_at.to_string(), words::clock(at.now.since(run.started_at)))),
            steps: steps.filter(|steps| is_over && steps.count > 0),
            commits: message.commits.iter().map(|sha| sha.as_str()).collect(),
            carried_over: message.diff.as_ref().and_then(|diff| diff.carried_over.as_deref()),
            left_out: message.diff.as_ref().map(|diff| diff.left_out.as_slice()).unwrap_or_default(),
            left_out_more: message.diff.as_ref().map(|diff| diff.left_out_more).unwrap_or_default(),
            left_out_count: message.diff.as_ref().map(MessageDiff::left_out_count).unwrap_or_default(),
            size: Size::of(message.diff.as_ref().map(|diff| diff.stat)).filter(|_| !message.commits.is_empty()),
            cost: history.cost_of(message.id).map(words::money),
        }
    }
}

/// Returns the beginning of a prompt: its first line that is not blank, cut where no page shows more.
fn first_line(prompt: &str) -> &str {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    &line[..line.floor_char_boundary(300)]
}

impl Source {
    /// Returns the origin of a message; `None` if the name of its author says it.
    fn of(message: &Message) -> Option<Self> {
        let word = origin(message)?;
        let source = message.source.as_ref();
        let href = source.map(|source| source.url.clone()).filter(|url| words::is_page(url));
        let text = match source {
            Some(source) if message.origin != Origin::Slack => format!("from #{}", source.number),
            _ => word.to_owned(),
        };
        let icon = match message.origin {
            Origin::PullRequest | Origin::Comment | Origin::Review | Origin::Check | Origin::Update => "pull",
            Origin::Issue => "message",
            Origin::Api | Origin::Dashboard | Origin::Slack => "",
        };
        Some(Self { icon, text, href })
    }
}

/// Returns the name of the message's author, with hidden characters made visible. Failed checks and updates have no
/// author; of other messages without one, the code host that they came from is shown.
pub(super) fn author(message: &Message) -> String {
    let host = message.source.as_ref().map(|source| &source.repository.host);
    let host = host.filter(|host| **host != HostName::local()).map(|host| host.0.as_str());
    let name = match message.author.as_deref() {
        Some(name) => name,
        None if message.origin == Origin::Check => "Checks",
        None if message.origin == Origin::Update => "Journeyman",
        None => host.unwrap_or("unknown"),
    };
    visible::line(name).into_owned()
}

/// Returns the word for the origin of a message; `None` if the name of its author says it.
fn origin(message: &Message) -> Option<&'static str> {
    match message.origin {
        Origin::Check if message.author.is_none() => None,
        Origin::Api => Some("API"),
        Origin::Dashboard => None,
        Origin::PullRequest | Origin::Comment => Some("pull request"),
        Origin::Review => Some("review"),
        Origin::Check => Some("checks"),
        Origin::Update => Some("base branch"),
        Origin::Issue => Some("issue"),
        Origin::Slack => Some("Slack"),
    }
}

/// Returns the word for a message's status, and the class of its mark.
pub(in crate::pages) const fn status(status: MessageStatus) -> (&'static str, &'static str) {
    match status {
        MessageStatus::Queued => ("queued", "pending"),
        MessageStatus::Delivered => ("delivered", "in_progress"),
        MessageStatus::Finished => ("finished", "completed"),
        MessageStatus::Failed => ("failed", "failed"),
        MessageStatus::Cancelled => ("cancelled", "stopped"),
        MessageStatus::Withdrawn => ("withdrawn", "stopped"),
    }
}

/// Returns the state of a message as its receipt says it.
const fn state(status: MessageStatus) -> &'static str {
    match status {
        MessageStatus::Queued => "Queued",
        MessageStatus::Delivered => "Working",
        MessageStatus::Finished => "Finished",
        MessageStatus::Failed => "Failed",
        MessageStatus::Cancelled => "Stopped",
        MessageStatus::Withdrawn => "Withdrawn",
    }
}

/// The last lines of the output of a failed tool call.
struct Tail<'t> {
    lines: Vec<Cow<'t, str>>,
    /// The number of all lines, if there are more.
    all: Option<usize>,
}

/// Methods that the template calls.
impl BlockView<'_> {
    fn when(&self) -> Moment {
        self.frame.moment(self.block.at)
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn line<'t>(&self, text: &'t str) -> Cow<'t, str> {
        visible::line(text)
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn lines<'t>(&self, text: &'t str) -> Cow<'t, str> {
        visible::lines(text)
    }

    /// Returns the time that a thought took; empty if it is shorter than a second.
    fn thought_for(&self, until: &Timestamp) -> String {
        let time = until.since(self.block.at);
        if time < Duration::from_secs(1) { String::new() } else { words::brief(time) }
    }

    /// Returns the time since the start of a tool call that is still running.
    fn clock(&self, tool: &Tool) -> String {
        words::clock(self.frame.now.since(tool.began))
    }

    /// Returns the time that a tool call took.
    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn took(&self, tool: &Tool) -> Option<String> {
        match (tool.status, tool.ended) {
            ("stopped", _) => Some("stopped".to_owned()),
            (_, Some(ended)) if ended != tool.began => Some(words::brief(ended.since(tool.began))),
            _ => None,
        }
    }

    /// Returns the last lines of a failed tool call.
    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn tail<'t>(&self, tool: &'t Tool) -> Option<Tail<'t>> {
        let (lines, all) = tool.last_lines(TAIL_LINES);
        let all = (all > lines.len()).then_some(all);
        let lines: Vec<_> = lines.into_iter().map(visible::line).collect();
        (tool.status == "failed" && !lines.is_empty()).then_some(Tail { lines, all })
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn sign(&self, row: &str) -> &'static str {
        match row.as_bytes().first() {
            Some(b'+') => "plus",
            Some(b'-') => "minus",
            Some(b'@') => "muted",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_prompt_is_its_first_line() {
        assert_eq!(first_line("\n  \n  Fix it \nsoon"), "Fix it");
        assert_eq!(first_line(""), "");
        assert_eq!(first_line(&"ä".repeat(400)).chars().count(), 150);
    }
}
