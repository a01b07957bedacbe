//! The conversation of a job as a list of elements: the messages, and after each one its steps, the middle of which is
//! folded.

use std::collections::HashMap;

use askama::Template;
use journeyman_core::ids::MessageId;
use journeyman_core::message::Message;
use journeyman_core::time::Timestamp;

use super::block::{BlockContext, Steps, render, render_with};
use crate::conversation::{Block, Fold, Kind, Section};
use crate::fragment::Fragment;
use crate::highlight::Budget;

/// The maximum number of messages that are shown without their steps.
const MAX_EARLIER: usize = 50;

/// The elements of a conversation.
pub(super) struct Thread {
    /// The messages from before the window of the log, without their steps.
    pub(super) earlier: Vec<Fragment>,
    pub(super) items: Vec<Fragment>,
}

/// The folded part of a section.
#[derive(Template)]
#[template(path = "_fold.html")]
struct FoldView {
    id: String,
    title: String,
    kinds: String,
    /// True if the receipt of the message has a link that opens it.
    is_linked: bool,
    items: Vec<Fragment>,
}

/// Renders the conversation. On the newest window of the log, the middle of long sections is folded, and messages from
/// before the window are shown. Call it within `spawn_blocking`.
pub(super) fn render_thread(context: &BlockContext<'_>, fold: &Fold, budget: &mut Budget) -> askama::Result<Thread> {
    let mut items = Vec::new();
    let mut of_messages = HashMap::new();
    for section in fold.sections() {
        let message = message_of(context, &section);
        let is_over =
            context.has_outcome && message.is_some_and(|message| context.history.is_over(&context.at.job, message));
        let folded = if context.has_outcome { section.folded(is_over) } else { 0 };
        let summary = section.summary(folded);
        let steps = |count: usize| Steps { count, fold: (folded > 0).then(|| section.fold_id()) };
        if let Some(head) = section.head {
            items.push(render_with(context, head, Some(steps(summary.steps)), budget)?);
        } else if let Some(message) = message.filter(|_| is_over) {
            of_messages.insert(message.id, steps(summary.steps));
        }
        let (middle, newest) = section.rest.split_at(folded);
        if !middle.is_empty() {
            items.push(Fragment::of(&FoldView {
                id: section.fold_id(),
                title: summary.title(),
                kinds: summary.kinds(),
                is_linked: is_over && summary.steps > 0,
                items: middle.iter().map(|block| render(context, block, budget)).collect::<askama::Result<_>>()?,
            })?);
        }
        for block in newest {
            items.push(render(context, block, budget)?);
        }
    }
    let earlier = if context.has_outcome { earlier(context, fold, of_messages, budget)? } else { Vec::new() };
    Ok(Thread { earlier, items })
}

/// Renders the folded part of a section without its elements, which the page has already.
pub(super) fn render_fold(section: &Section<'_>, folded: usize) -> askama::Result<Fragment> {
    let summary = section.summary(folded);
    let (title, kinds) = (summary.title(), summary.kinds());
    Fragment::of(&FoldView { id: section.fold_id(), title, kinds, is_linked: false, items: Vec::new() })
}

/// Returns the message of a section. The first section of a window may begin after its message.
fn message_of<'a>(context: &BlockContext<'a>, section: &Section<'_>) -> Option<&'a Message> {
    let id = match section.head.map(|head| &head.kind) {
        Some(Kind::Turn(id)) => Some(*id),
        _ => section.rest.first().and_then(|first| context.history.message_at(first.at)),
    };
    Some(context.history.message(id?)?.1)
}

/// Renders the messages that a run took before the window begins.
fn earlier(
    context: &BlockContext<'_>,
    fold: &Fold,
    mut of_messages: HashMap<MessageId, Steps>,
    budget: &mut Budget,
) -> askama::Result<Vec<Fragment>> {
    let begin = fold.blocks().next().map(|block| block.at);
    let is_earlier = |message: &&Message| {
        let is_before = |at: Timestamp| begin.is_none_or(|begin| at <= begin);
        let is_here = fold.blocks().any(|block| block.kind == Kind::Turn(message.id));
        message.delivered_at.is_some_and(is_before) && !is_here
    };
    let messages: Vec<&Message> = context.history.messages.iter().filter(is_earlier).collect();
    let newest = messages.len().saturating_sub(MAX_EARLIER);
    let card = |message: &&Message| {
        let block = Block { seq: 0, at: message.created_at, kind: Kind::Turn(message.id) };
        render_with(context, &block, of_messages.remove(&message.id), budget)
    };
    messages[newest..].iter().map(card).collect()
}
