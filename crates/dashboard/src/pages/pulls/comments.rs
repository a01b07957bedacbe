//! The comments on a pull request, as entries of the conversation and below lines of the changes.

use std::collections::HashMap;

use askama::Template;
use journeyman_core::pull::comment::SERVICE;
use journeyman_core::pull::{Comment, LinePlace, Resolution, Verdict};

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
    /// The sentence about the verdict of a review; `None` for other comments.
    verdict: Option<&'static str>,
    is_draft: bool,
    written: Moment,
    line: Option<LineView<'a>>,
    /// True below the line in the diff.
    in_diff: bool,
    /// True if the viewer can resolve the thread that ends here.
    may_resolve: bool,
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

/// A resolved thread, folded to one line.
#[derive(Template)]
#[template(path = "_pull_resolved.html")]
struct ResolvedView<'a> {
    at: &'a Target,
    frame: &'a Frame,
    /// The number of its last comment.
    place: u64,
    by: String,
    when: Moment,
    /// The name of the file and the number of the line, unless the page already shows them.
    line: Option<(String, u64)>,
    in_diff: bool,
    count: usize,
    comments: Vec<Fragment>,
}

/// The submitted comments on the same line with the same text, in the order of their times.
struct Thread<'a>(Vec<&'a Comment>);

impl<'a> Thread<'a> {
    /// Divides comments into threads. Drafts, and comments without a line, belong to none.
    fn all(comments: &'a [Comment]) -> Vec<Self> {
        let mut threads: Vec<Self> = Vec::new();
        for one in ordered(comments).into_iter().filter(|one| !one.comment.is_draft) {
            let Some(line) = &one.comment.line else { continue };
            let is_on_it = |first: &&Comment| first.comment.line.as_ref().is_some_and(|place| place.is_same_line(line));
            match threads.iter_mut().find(|thread| thread.0.first().is_some_and(is_on_it)) {
                Some(thread) => thread.0.push(one),
                None => threads.push(Self(vec![one])),
            }
        }
        threads
    }

    /// Finds the thread of a comment.
    fn of(threads: &[Self], place: u64) -> Option<&Self> {
        threads.iter().find(|thread| thread.0.iter().any(|one| one.place == place))
    }

    /// Returns the last resolution; `None` if a comment of the thread is open.
    fn resolution(&self) -> Option<&'a Resolution> {
        let all: Option<Vec<&Resolution>> = self.0.iter().map(|one| one.comment.resolved.as_ref()).collect();
        all?.into_iter().max_by_key(|resolution| resolution.at)
    }

    fn is_first(&self, place: u64) -> bool {
        self.0.first().is_some_and(|one| one.place == place)
    }

    fn is_last(&self, place: u64) -> bool {
        self.0.last().is_some_and(|one| one.place == place)
    }
}

/// The place of a comment on a page.
#[derive(Clone, Copy)]
struct Spot {
    /// True below the line in the diff.
    in_diff: bool,
    /// True if the diff has the line.
    is_current: bool,
    /// True for the last comment of a thread that is open.
    ends_thread: bool,
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
        let threads = Thread::all(comments);
        let mut replies: HashMap<u64, Vec<Fragment>> = HashMap::new();
        let mut roots = Vec::new();
        for one in ordered(comments) {
            let body = self.body(one, budget);
            let is_current = one.comment.line.as_ref().is_some_and(|place| outline.has(place));
            let thread = Thread::of(&threads, one.place);
            let resolution = thread.and_then(Thread::resolution);
            let ends_thread = resolution.is_none() && thread.is_some_and(|thread| thread.is_last(one.place));
            let spot = Spot { in_diff: false, is_current, ends_thread };
            match one.comment.review {
                Some(review) if review != one.place => {
                    let reply = self.comment(one, body.as_ref(), spot, Vec::new())?;
                    replies.entry(review).or_default().push(self.folded(one, resolution, false, vec![reply])?);
                }
                _ => roots.push((one, body, spot, resolution)),
            }
        }
        let root = |(one, body, spot, resolution): (&Comment, Option<Markup>, Spot, Option<&Resolution>)| {
            let replies = replies.remove(&one.place).unwrap_or_default();
            let content = self.comment(one, body.as_ref(), spot, replies)?;
            self.folded(one, resolution, false, vec![content])
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
        let threads = Thread::all(comments);
        for one in ordered(comments) {
            let Some(place) = one.comment.line.as_ref().filter(|place| diff.has(place)) else { continue };
            let thread = Thread::of(&threads, one.place);
            let resolved = thread.and_then(|thread| Some((thread, thread.resolution()?)));
            let content = match resolved {
                Some((thread, _)) if !thread.is_first(one.place) => continue,
                Some((thread, resolution)) => self.resolved_below(thread, resolution, budget)?,
                None => {
                    let ends_thread = thread.is_some_and(|thread| thread.is_last(one.place));
                    let (body, spot) = (self.body(one, budget), Spot { in_diff: true, is_current: true, ends_thread });
                    self.comment(one, body.as_ref(), spot, Vec::new())?
                }
            };
            let LinePlace { path, side, line, .. } = place;
            diff.attach(&LineKey { path: path.clone(), side: *side, line: *line }, content);
        }
        Ok(())
    }

    /// Renders a resolved thread below its line.
    fn resolved_below(
        &self,
        thread: &Thread<'_>,
        resolution: &Resolution,
        budget: &mut Budget,
    ) -> askama::Result<Fragment> {
        let spot = Spot { in_diff: true, is_current: true, ends_thread: false };
        let content = |one: &&Comment| self.comment(one, self.body(one, budget).as_ref(), spot, Vec::new());
        let comments = thread.0.iter().map(content).collect::<askama::Result<Vec<_>>>()?;
        match thread.0.last() {
            Some(last) => self.folded(last, Some(resolution), true, comments),
            None => Ok(Fragment::default()),
        }
    }

    /// Folds comments of a resolved thread, of which `last` is the last one. Returns the only comment of an open thread
    /// unchanged.
    fn folded(
        &self,
        last: &Comment,
        resolution: Option<&Resolution>,
        in_diff: bool,
        mut comments: Vec<Fragment>,
    ) -> askama::Result<Fragment> {
        let Some(resolution) = resolution else { return Ok(comments.pop().unwrap_or_default()) };
        let line = last.comment.line.as_ref().filter(|_| !in_diff);
        Fragment::of(&ResolvedView {
            at: self.at,
            frame: self.at,
            place: last.place,
            by: visible::line(&resolution.by).into_owned(),
            when: self.at.moment(resolution.at),
            line: line.map(|line| (visible::line(&line.path).into_owned(), line.line)),
            in_diff,
            count: comments.len(),
            comments,
        })
    }

    fn body(&self, one: &Comment, budget: &mut Budget) -> Option<Markup> {
        let text = one.comment.body.trim();
        (!text.is_empty()).then(|| markdown::html_within(text, self.highlighter, budget))
    }

    fn comment(
        &self,
        one: &Comment,
        body: Option<&Markup>,
        Spot { in_diff, is_current, ends_thread }: Spot,
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
            may_resolve: ends_thread && self.at.viewer.can_write(),
            body,
            progress: self.progress.get(&one.place),
            replies,
        })
    }
}
