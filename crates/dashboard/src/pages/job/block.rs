//! Rendering of one block of the conversation.

use std::collections::HashMap;
use std::time::Duration;

use askama::Template;
use journeyman_core::code_host::HostName;
use journeyman_core::ids::MessageId;
use journeyman_core::message::{Message, MessageStatus, Origin};
use journeyman_core::time::Timestamp;

use crate::conversation::{Block, Kind, Part, Step, Tool, patch};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::{visible, words};

/// Messages by ID.
pub(super) type Messages = HashMap<MessageId, Message>;

#[derive(Template)]
#[template(path = "_block.html")]
struct BlockView<'a> {
    frame: &'a Frame,
    block: &'a Block,
    turn: Option<Turn<'a>>,
    markup: Option<Markup>,
}

/// A message with its receipt, as the template shows it.
struct Turn<'a> {
    author: String,
    origin: Option<&'static str>,
    at: Moment,
    text: std::borrow::Cow<'a, str>,
    class: &'static str,
    status: &'static str,
    mark: &'static str,
    finished: Option<Moment>,
    took: Option<String>,
    commits: Vec<&'a str>,
}

/// Renders a block. Call it within `spawn_blocking`, because rendering Markdown takes CPU time.
pub(super) fn render(
    frame: &Frame,
    block: &Block,
    messages: &Messages,
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> askama::Result<Fragment> {
    let turn = match &block.kind {
        Kind::Turn(id) => messages.get(id).map(|message| Turn::new(frame, message)),
        _ => None,
    };
    let markup = match &block.kind {
        Kind::Said(text) => Some(markdown::html_within(text, highlighter, budget)),
        _ => None,
    };
    Fragment::of(&BlockView { frame, block, turn, markup })
}

impl<'a> Turn<'a> {
    fn new(frame: &Frame, message: &'a Message) -> Self {
        let (status, mark) = status(message.status);
        let took = message.delivered_at.zip(message.finished_at).map(|(begun, end)| end.since(begun));
        Self {
            author: author(message),
            origin: origin(message),
            at: frame.moment(message.created_at),
            text: visible::lines(&message.prompt),
            class: if message.status == MessageStatus::Withdrawn { "withdrawn" } else { "" },
            status,
            mark,
            finished: message.finished_at.map(|at| frame.moment(at)),
            took: took.map(words::duration),
            commits: message.commits.iter().map(|sha| sha.as_str()).collect(),
        }
    }
}

/// Returns the name of the message's author, with hidden characters made visible. Failed checks have no author; of other
/// messages without one, the code host that they came from is shown.
pub(super) fn author(message: &Message) -> String {
    let host = message.source.as_ref().map(|source| &source.repository.host);
    let host = host.filter(|host| **host != HostName::local()).map(|host| host.0.as_str());
    let name = match message.author.as_deref() {
        Some(name) => name,
        None if message.origin == Origin::Check => "Checks",
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
        MessageStatus::Cancelled => ("cancelled", "failed"),
        MessageStatus::Withdrawn => ("withdrawn", "failed"),
    }
}

/// Methods that the template calls.
impl BlockView<'_> {
    fn when(&self) -> Moment {
        self.frame.moment(self.block.at)
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn line<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        visible::line(text)
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn lines<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        visible::lines(text)
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn took(&self, from: &Timestamp, until: &Timestamp) -> Option<String> {
        Some(until.since(*from)).filter(|time| *time >= Duration::from_secs(1)).map(words::duration)
    }

    fn ended(&self, tool: &Tool) -> Option<String> {
        self.took(&tool.began, tool.ended.as_ref()?)
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn done(&self, steps: &[Step]) -> usize {
        steps.iter().filter(|step| step.status == "completed").count()
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn step_class(&self, step: &Step) -> &'static str {
        match step.status {
            "completed" => "done",
            "in_progress" => "doing",
            _ => "todo",
        }
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn rows(&self, old: &str, new: &str) -> Vec<String> {
        patch(old, new)
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
