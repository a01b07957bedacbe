//! The comments on a pull request, as entries of the conversation and below lines of the changes.

use std::collections::HashMap;

use askama::Template;
use journeyman_core::pull::comment::SERVICE;
use journeyman_core::pull::{Comment, CommentState, Resolution, Verdict};

use super::Target;
use super::progress::Progress;
use crate::diff::{Appearance, DiffShown, LineKey, Outline, PageLine};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::pages::refresh;
use crate::visible;

/// The context in which comments are rendered.
pub(super) struct Renderer<'a> {
    pub(super) at: &'a Target,
    pub(super) progress: &'a HashMap<u64, Progress>,
    pub(super) highlighter: &'a Highlighter,
    /// The appearance of the changes to which comments link.
    pub(super) appearance: Appearance,
}

#[derive(Template)]
#[template(path = "_pull_comment.html")]
struct CommentView<'a> {
    at: &'a Target,
    frame: &'a Frame,
    number: u64,
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
    /// The URL of the form for an answer in this thread; `None` without the line in the diff.
    reply: Option<String>,
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

/// Comments of a thread. A script replaces the element when the state of the thread changes.
#[derive(Template)]
#[template(path = "_pull_thread.html")]
struct ThreadView {
    /// The number of the first comment.
    number: u64,
    state: String,
    comments: Vec<Fragment>,
}

/// A resolved thread, folded to one line.
#[derive(Template)]
#[template(path = "_pull_resolved.html")]
struct ResolvedView<'a> {
    at: &'a Target,
    frame: &'a Frame,
    /// The number of its last comment.
    number: u64,
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
            let is_on_it =
                |first: &&Comment| first.comment.line.as_ref().is_some_and(|position| position.is_same_line(line));
            match threads.iter_mut().find(|thread| thread.0.first().is_some_and(is_on_it)) {
                Some(thread) => thread.0.push(one),
                None => threads.push(Self(vec![one])),
            }
        }
        threads
    }

    /// Finds the thread of a comment.
    fn of(threads: &[Self], number: u64) -> Option<&Self> {
        threads.iter().find(|thread| thread.0.iter().any(|one| one.number == number))
    }

    /// Returns the last resolution; `None` if a comment of the thread is open.
    fn resolution(&self) -> Option<&'a Resolution> {
        let all: Option<Vec<&Resolution>> = self.0.iter().map(|one| one.comment.resolved.as_ref()).collect();
        all?.into_iter().max_by_key(|resolution| resolution.at)
    }

    fn is_open(&self) -> bool {
        self.resolution().is_none()
    }

    /// Returns the state, which is different after each comment and each resolution.
    fn state(&self) -> String {
        let count = self.0.len();
        match self.resolution() {
            Some(resolution) => format!("{count} resolved {}", resolution.at.as_micros()),
            None => format!("{count} open"),
        }
    }

    fn is_first(&self, number: u64) -> bool {
        self.0.first().is_some_and(|one| one.number == number)
    }

    fn is_last(&self, number: u64) -> bool {
        self.0.last().is_some_and(|one| one.number == number)
    }
}

/// Returns a digest of the states of submitted comments.
pub(super) fn digest(states: &[CommentState]) -> String {
    refresh::digest(&states)
}

/// Returns the states of the comments that are submitted.
pub(super) fn submitted(comments: &[Comment]) -> Vec<CommentState> {
    comments.iter().filter(|one| !one.comment.is_draft).map(Comment::state).collect()
}

/// Returns the numbers of the first comments of the threads that are open.
pub(super) fn unresolved(comments: &[Comment]) -> Vec<u64> {
    let threads = Thread::all(comments);
    threads.iter().filter(|thread| thread.is_open()).filter_map(|thread| Some(thread.0.first()?.number)).collect()
}

/// The position of a comment on a page.
#[derive(Clone, Copy)]
struct Spot {
    /// True below the line in the diff.
    in_diff: bool,
    /// The line; `None` if the diff does not have it.
    line: Option<PageLine>,
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
    ordered.sort_by_key(|one| (one.comment.at, one.number));
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
            let line = one.comment.line.as_ref().and_then(|position| outline.find(position));
            let thread = Thread::of(&threads, one.number);
            let ends_thread = thread.is_some_and(|thread| thread.is_open() && thread.is_last(one.number));
            let spot = Spot { in_diff: false, line, ends_thread };
            match one.comment.review {
                Some(review) if review != one.number => {
                    let reply = self.comment(one, body.as_ref(), spot, Vec::new())?;
                    replies.entry(review).or_default().push(self.in_thread(thread, one, reply)?);
                }
                _ => roots.push((one, body, spot, thread)),
            }
        }
        let root = |(one, body, spot, thread): (&Comment, Option<Markup>, Spot, Option<&Thread<'_>>)| {
            let replies = replies.remove(&one.number).unwrap_or_default();
            let content = self.comment(one, body.as_ref(), spot, replies)?;
            self.in_thread(thread, one, content)
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
            let Some(position) = &one.comment.line else { continue };
            let Some(line) = diff.find(position) else { continue };
            let content = match Thread::of(&threads, one.number) {
                Some(thread) if thread.is_first(one.number) => self.below_line(thread, line, budget)?,
                Some(_) => continue,
                None => {
                    let spot = Spot { in_diff: true, line: Some(line), ends_thread: false };
                    self.comment(one, self.body(one, budget).as_ref(), spot, Vec::new())?
                }
            };
            diff.attach(&LineKey::of(position), content);
        }
        Ok(())
    }

    /// Renders a thread below its line.
    fn below_line(&self, thread: &Thread<'_>, line: PageLine, budget: &mut Budget) -> askama::Result<Fragment> {
        let content = |one: &&Comment| {
            let ends_thread = thread.is_open() && thread.is_last(one.number);
            let spot = Spot { in_diff: true, line: Some(line), ends_thread };
            self.comment(one, self.body(one, budget).as_ref(), spot, Vec::new())
        };
        let contents = thread.0.iter().map(content).collect::<askama::Result<Vec<_>>>()?;
        self.wrapped(thread, &thread.0, true, contents)
    }

    /// Wraps a comment of the conversation if it belongs to a thread.
    fn in_thread(&self, thread: Option<&Thread<'_>>, one: &Comment, content: Fragment) -> askama::Result<Fragment> {
        match thread {
            Some(thread) => self.wrapped(thread, &[one], false, vec![content]),
            None => Ok(content),
        }
    }

    /// Wraps comments of a thread. Those of a resolved thread are folded.
    fn wrapped(
        &self,
        thread: &Thread<'_>,
        comments: &[&Comment],
        in_diff: bool,
        contents: Vec<Fragment>,
    ) -> askama::Result<Fragment> {
        let (Some(first), Some(last)) = (comments.first(), comments.last()) else { return Ok(Fragment::default()) };
        let comments = match thread.resolution() {
            Some(resolution) => vec![self.folded(last, resolution, in_diff, contents)?],
            None => contents,
        };
        Fragment::of(&ThreadView { number: first.number, state: thread.state(), comments })
    }

    /// Folds comments of a resolved thread, of which `last` is the last one.
    fn folded(
        &self,
        last: &Comment,
        resolution: &Resolution,
        in_diff: bool,
        comments: Vec<Fragment>,
    ) -> askama::Result<Fragment> {
        let line = last.comment.line.as_ref().filter(|_| !in_diff);
        Fragment::of(&ResolvedView {
            at: self.at,
            frame: self.at,
            number: last.number,
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
        spot: Spot,
        replies: Vec<Fragment>,
    ) -> askama::Result<Fragment> {
        let comment = &one.comment;
        let may_resolve = spot.ends_thread && self.at.viewer.can_write();
        let reply = spot.line.filter(|_| may_resolve).map(|line| line.link(&self.appearance.query()));
        let line = comment.line.as_ref().map(|position| {
            let hunk: Vec<&str> = position.hunk.lines().skip(1).collect();
            LineView {
                path: visible::line(&position.path).into_owned(),
                line: position.line,
                is_current: spot.line.is_some(),
                hunk: hunk.into_iter().rev().take(HUNK_LINES).rev().collect(),
            }
        });
        Fragment::of(&CommentView {
            at: self.at,
            frame: self.at,
            number: one.number,
            author: visible::line(&comment.author).into_owned(),
            initial: comment.author.chars().find(|c| c.is_alphanumeric()).map(String::from).unwrap_or_default(),
            is_service: comment.author_id.as_deref() == Some(SERVICE),
            verdict: (comment.review == Some(one.number)).then(|| said(comment.verdict)),
            is_draft: comment.is_draft,
            written: self.at.moment(comment.at),
            line,
            in_diff: spot.in_diff,
            may_resolve,
            reply: reply.map(|link| self.at.page("/files") + &link),
            body,
            progress: self.progress.get(&one.number),
            replies,
        })
    }
}
