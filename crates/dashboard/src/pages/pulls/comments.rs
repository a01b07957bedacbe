//! The comments on a pull request, and what became of those that address the job.

use std::collections::{BTreeSet, HashMap};

use askama::Template;
use journeyman_core::code_host::HostName;
use journeyman_core::ids::Sha;
use journeyman_core::inbox::route::{Identity, Request, Review};
use journeyman_core::inbox::{InboxState, Outcome};
use journeyman_core::job::{Job, PullRepository};
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::ports::StoreError;
use journeyman_core::pull::comment::{self, SERVICE, service};
use journeyman_core::pull::{Comment, LinePlace, LocalPull, Verdict};

use super::Target;
use crate::Shared;
use crate::diff::{DiffShown, LineKey, Outline};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::pages::inbox::words;
use crate::pages::job::block;
use crate::pages::part::short;
use crate::visible;
use crate::words::duration;

/// The outcome of a comment that addresses the job.
pub(super) struct Progress {
    /// What happened so far, in order.
    steps: Vec<Step>,
    /// False if the comment led to no message.
    is_sent: bool,
}

/// A step on the way of a comment to a commit.
struct Step {
    /// The class of the mark.
    mark: &'static str,
    text: String,
    /// The path of the message.
    href: Option<String>,
    at: Option<Moment>,
    /// The commits, with their hashes and links.
    commits: Vec<(String, String)>,
}

impl Step {
    const fn new(mark: &'static str, text: String) -> Self {
        Self { mark, text, href: None, at: None, commits: Vec::new() }
    }
}

/// Returns the steps of a message: queued, worked, pushed.
fn steps(target: &Target, job: Option<&Job>, message: &Message) -> Vec<Step> {
    let queued = message.status == MessageStatus::Queued;
    let (word, mark) = block::status(message.status);
    let href = job.map(|job| target.path(&format!("/jobs/{}#m-{}", job.id, message.id)));
    let first = if queued { "queued" } else { "completed" };
    let mut steps = vec![Step { at: Some(target.moment(message.created_at)), ..Step::new(first, "queued".to_owned()) }];
    match message.status {
        MessageStatus::Queued => {}
        MessageStatus::Delivered => {
            let at = message.delivered_at.map(|at| target.moment(at));
            steps.push(Step { at, ..Step::new("in_progress", "working".to_owned()) });
        }
        MessageStatus::Finished => {
            let took = message.delivered_at.zip(message.finished_at).map(|(begun, end)| end.since(begun));
            let worked = took.map_or_else(|| "worked".to_owned(), |took| format!("worked {}", duration(took)));
            steps.push(Step::new("completed", worked));
            let link = |sha: &Sha| (short(sha).to_owned(), target.page(&format!("/files?commit={sha}")));
            let commits: Vec<(String, String)> = message.commits.iter().map(link).collect();
            let text = if commits.is_empty() { "no changes" } else { "pushed" };
            steps.push(Step { commits, ..Step::new("completed", text.to_owned()) });
        }
        MessageStatus::Failed => steps.push(Step::new(mark, word.to_owned())),
        MessageStatus::Cancelled | MessageStatus::Withdrawn => steps.push(Step::new("stopped", word.to_owned())),
    }
    if let Some(step) = steps.first_mut() {
        step.href = href;
    }
    steps
}

/// Returns what became of each comment and review that addresses the job, by its number. The comments of a review share
/// its message.
pub(super) async fn progress(
    shared: &Shared,
    target: &Target,
    (pull, job, messages): (&LocalPull, Option<&Job>, &[Message]),
    comments: &[Comment],
) -> Result<HashMap<u64, Progress>, StoreError> {
    let store = &shared.services.store;
    let by_comment = by_comment(messages, pull);
    let mut found = HashMap::new();
    for one in comments.iter().filter(|one| one.comment.review.is_none_or(|review| review == one.place)) {
        let id = comment::id(&pull.repository, pull.number, one.place);
        let parts = comments.iter().filter(|part| part.place == one.place || part.comment.review == Some(one.place));
        let mut of_parts = parts.map(|part| comment::id(&pull.repository, pull.number, part.place));
        let message = of_parts.find_map(|id| by_comment.get(&id).copied());
        let of_older_version = || messages.iter().find(|message| one.comment.message == Some(message.id));
        if let Some(message) = message.or_else(of_older_version) {
            found.insert(one.place, Progress { steps: steps(target, job, message), is_sent: true });
        } else if let Some(key) = key(target, job.is_some(), comments, one, &id, pull.number) {
            let events = store.events_about(HostName::local(), key).await?;
            let last = events.last();
            let progress = match last.and_then(|event| event.outcome) {
                // The transaction that stores a message follows at once.
                None => Progress { steps: vec![Step::new("queued", "queued".to_owned())], is_sent: true },
                Some(outcome) => {
                    let is_done = last.is_some_and(|event| event.state == InboxState::Done);
                    let is_sent = is_done || outcome == Outcome::Duplicate;
                    let mark = if is_sent { "completed" } else { "failed" };
                    Progress { steps: vec![Step::new(mark, words::outcome(outcome).0.to_owned())], is_sent }
                }
            };
            found.insert(one.place, progress);
        }
    }
    Ok(found)
}

/// Returns the newest message of each comment.
fn by_comment<'a>(messages: &'a [Message], pull: &LocalPull) -> HashMap<String, &'a Message> {
    let repository = PullRepository::local(&pull.repository);
    let mut found = HashMap::new();
    for message in messages {
        if let Some(source) = message.source.as_ref().filter(|source| source.repository == repository) {
            found.extend(source.comments.iter().map(|comment| (comment.id.clone(), message)));
        }
    }
    found
}

/// Returns the key of the events about a comment that addresses the job.
fn key(target: &Target, has_job: bool, all: &[Comment], one: &Comment, id: &str, pull: u64) -> Option<String> {
    let comment = &one.comment;
    if comment.is_draft || comment.author_id.as_deref().is_none_or(|author| author == SERVICE) {
        return None;
    }
    let identity = Identity { me: Some(service()), aliases: Vec::new(), trusted_bots: BTreeSet::new() };
    let settings = &target.project.settings.comments;
    match comment.review {
        Some(review) => {
            let is_for_job = review == one.place && has_job;
            let lines = all.iter().filter(|line| line.place != one.place && line.comment.review == Some(review));
            let lines = lines.map(|line| line.comment.body.as_str()).collect();
            let texts = Review { text: &comment.body, lines, approves: comment.verdict == Verdict::Approve };
            let is_request = identity.review_request(settings, &texts) != Request::None;
            (is_for_job && is_request).then(|| format!("review/{pull}/{id}"))
        }
        None => {
            let is_request = identity.comment_request(settings, &comment.body) != Request::None;
            let kind = if comment.line.is_some() { "line" } else { "pull" };
            is_request.then(|| format!("{kind}/{id}"))
        }
    }
}

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
