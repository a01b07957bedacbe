//! The comments on a pull request, as entries of the conversation and below lines of the changes.

use std::collections::HashMap;

use askama::Template;
use journeyman_core::pull::comment::SERVICE;
use journeyman_core::pull::{Comment, LinePlace, Verdict};

use super::Target;
use super::progress::Progress;
use crate::diff::{DiffShown, LineKey, Outline};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::visible;

/// The context in which comments are rendered.
pub(super) struct Renderer<'a> {
    pub(super) at: &'a Target,
    pub(super) progress: &'a HashMap<u64, Progress>,
    pub(super) highlighter: &'a Highlighter,
}

#[derive(Template)]
#[template(path = "_pull_comment.html")]
struct CommentView<'a> {
    at: &'a Target,
    frame: &'a Frame,
    place: u64,
    author: String,
    /// The first letter of the author's name.
    initial: String,
    is_service: bool,
    /// What a review says; `None` for other comments.
    verdict: Option<&'static str>,
    is_draft: bool,
    written: Moment,
    line: Option<LineView<'a>>,
    /// True below the line in the diff.
    in_diff: bool,
    body: Option<&'a Markup>,
    progress: Option<&'a Progress>,
    replies: Vec<Fragment>,
}

struct LineView<'a> {
    path: String,
    line: u64,
    is_current: bool,
    hunk: Vec<&'a str>,
}

impl CommentView<'_> {
    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn text<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        visible::line(text)
    }

    #[expect(clippy::unused_self, reason = "a template calls methods")]
    fn sign(&self, row: &str) -> &'static str {
        match row.as_bytes().first() {
            Some(b'+') => "plus",
            Some(b'-') => "minus",
            _ => "muted",
        }
    }
}

/// The number of lines of a hunk that the conversation shows.
const HUNK_LINES: usize = 4;

/// Returns what a review with this verdict says, after the name of its author.
pub(super) const fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Comment => "reviewed",
        Verdict::Approve => "approved",
        Verdict::RequestChanges => "requested changes",
    }
}

/// Returns comments in the order of their times.
fn ordered(comments: &[Comment]) -> Vec<&Comment> {
    let mut ordered: Vec<&Comment> = comments.iter().collect();
    ordered.sort_by_key(|one| (one.comment.at, one.place));
    ordered
}

impl Renderer<'_> {
    /// Renders the conversation. The comments of a review are below its text.
    pub(super) fn conversation(
        &self,
        comments: &[Comment],
        outline: &Outline<'_>,
        budget: &mut Budget,
    ) -> askama::Result<Vec<Fragment>> {
        let mut replies: HashMap<u64, Vec<Fragment>> = HashMap::new();
        let mut roots = Vec::new();
        for one in ordered(comments) {
            let body = self.body(one, budget);
            let is_current = one.comment.line.as_ref().is_some_and(|place| outline.has(place));
            match one.comment.review {
                Some(review) if review != one.place => {
                    let reply = self.comment(one, body.as_ref(), (false, is_current), Vec::new())?;
                    replies.entry(review).or_default().push(reply);
                }
                _ => roots.push((one, body, is_current)),
            }
        }
        let root = |(one, body, is_current): (&Comment, Option<Markup>, bool)| {
            let replies = replies.remove(&one.place).unwrap_or_default();
            self.comment(one, body.as_ref(), (false, is_current), replies)
        };
        roots.into_iter().map(root).collect()
    }

    /// Attaches the comments on current lines to the diff.
    pub(super) fn attach(
        &self,
        comments: &[Comment],
        diff: &mut DiffShown<'_>,
        budget: &mut Budget,
    ) -> askama::Result<()> {
        for one in ordered(comments) {
            let Some(place) = one.comment.line.as_ref().filter(|place| diff.has(place)) else { continue };
            let body = self.body(one, budget);
            let content = self.comment(one, body.as_ref(), (true, true), Vec::new())?;
            let LinePlace { path, side, line, .. } = place;
            diff.attach(&LineKey { path: path.clone(), side: *side, line: *line }, content);
        }
        Ok(())
    }

    fn body(&self, one: &Comment, budget: &mut Budget) -> Option<Markup> {
        let text = one.comment.body.trim();
        (!text.is_empty()).then(|| markdown::html_within(text, self.highlighter, budget))
    }

    fn comment(
        &self,
        one: &Comment,
        body: Option<&Markup>,
        (in_diff, is_current): (bool, bool),
        replies: Vec<Fragment>,
    ) -> askama::Result<Fragment> {
        let comment = &one.comment;
        let line = comment.line.as_ref().map(|place| {
            let hunk: Vec<&str> = place.hunk.lines().skip(1).collect();
            LineView {
                path: visible::line(&place.path).into_owned(),
                line: place.line,
                is_current,
                hunk: hunk.into_iter().rev().take(HUNK_LINES).rev().collect(),
            }
        });
        Fragment::of(&CommentView {
            at: self.at,
            frame: self.at,
            place: one.place,
            author: visible::line(&comment.author).into_owned(),
            initial: comment.author.chars().find(|c| c.is_alphanumeric()).map(String::from).unwrap_or_default(),
            is_service: comment.author_id.as_deref() == Some(SERVICE),
            verdict: (comment.review == Some(one.place)).then(|| said(comment.verdict)),
            is_draft: comment.is_draft,
            written: self.at.moment(comment.at),
            line,
            in_diff,
            body,
            progress: self.progress.get(&one.place),
            replies,
        })
    }
}
