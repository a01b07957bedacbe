//! The line of the conversation that says who merged or closed the pull request.

use askama::Template;
use journeyman_core::code_host::PullState;

use super::Target;
use super::badge::Badge;
use super::read::Read;
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::pages::part;
use crate::visible;

#[derive(Template)]
#[template(path = "_pull_ending.html")]
struct EndingView<'a> {
    frame: &'a Frame,
    badge: Badge,
    is_merged: bool,
    /// The name of the caller; `None` if the branches were found merged, or if an older version recorded the end.
    by: Option<String>,
    /// The merge commit, and its first characters.
    commit: Option<(&'a str, &'a str)>,
    base: String,
    ended: Moment,
}

/// Adds the line to the rendered conversation, after the comments from before the end. The conversation has an entry for
/// each comment, in the order of their times; the entry of a review contains its comments.
pub(super) fn add(at: &Target, read: &Read, conversation: &mut Vec<Fragment>) -> askama::Result<()> {
    let pull = &read.detail.pull;
    let Some(ended) = pull.ended_at else { return Ok(()) };
    let before = read.comments.iter().filter(|one| one.is_root() && one.comment.at <= ended).count();
    let line = Fragment::of(&EndingView {
        frame: at,
        badge: Badge::of(pull),
        is_merged: pull.state == PullState::Merged,
        by: pull.ended_by.as_deref().map(|name| visible::line(name).into_owned()),
        commit: pull.merge_commit.as_ref().map(|commit| (commit.as_str(), part::short(commit))),
        base: visible::line(&pull.base).into_owned(),
        ended: at.moment(ended),
    })?;
    conversation.insert(before.min(conversation.len()), line);
    Ok(())
}
