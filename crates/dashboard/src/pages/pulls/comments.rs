//! The comments on a pull request, and what became of those that address the job.

use std::collections::{BTreeSet, HashMap};

use askama::Template;
use journeyman_core::code_host::HostName;
use journeyman_core::inbox::route::{Identity, Request, Review};
use journeyman_core::inbox::{InboxState, Outcome};
use journeyman_core::job::{Job, PullRepository};
use journeyman_core::message::Message;
use journeyman_core::ports::StoreError;
use journeyman_core::pull::comment::{self, SERVICE, service};
use journeyman_core::pull::{Comment, LinePlace, LocalPull};

use super::Target;
use crate::Shared;
use crate::diff::{DiffShown, LineKey};
use crate::fragment::Fragment;
use crate::highlight::{Budget, Highlighter};
use crate::markdown::{self, Markup};
use crate::moment::Moment;
use crate::pages::inbox::words;
use crate::pages::job::block;
use crate::visible;

/// The outcome of a comment that addresses the job.
pub(super) struct Progress {
    text: &'static str,
    /// The class of the mark.
    mark: &'static str,
    /// The path of the message.
    href: Option<String>,
    /// False if the comment led to no message.
    is_sent: bool,
}

/// Returns what became of each comment and review that addresses the job, by its number. The comments of a review share
/// its message.
pub(super) async fn progress(
    shared: &Shared,
    target: &Target,
    (pull, job): (&LocalPull, Option<&Job>),
    comments: &[Comment],
) -> Result<HashMap<u64, Progress>, StoreError> {
    let store = &shared.services.store;
    let messages = match job {
        Some(job) => store.messages(job.id).await?,
        None => Vec::new(),
    };
    let by_comment = by_comment(&messages, pull);
    let mut found = HashMap::new();
    for one in comments.iter().filter(|one| one.comment.review.is_none_or(|review| review == one.place)) {
        let id = comment::id(&pull.repository, pull.number, one.place);
        let parts = comments.iter().filter(|part| part.place == one.place || part.comment.review == Some(one.place));
        let mut of_parts = parts.map(|part| comment::id(&pull.repository, pull.number, part.place));
        let message = of_parts.find_map(|id| by_comment.get(&id).copied());
        let of_older_version = || messages.iter().find(|message| one.comment.message == Some(message.id));
        if let Some(message) = message.or_else(of_older_version) {
            let (text, mark) = block::status(message.status);
            let href = job.map(|job| target.path(&format!("/jobs/{}#m-{}", job.id, message.id)));
            found.insert(one.place, Progress { text, mark, href, is_sent: true });
        } else if let Some(key) = key(target, job.is_some(), comments, one, &id, pull.number) {
            let events = store.events_about(HostName::local(), key).await?;
            let last = events.last();
            let progress = match last.and_then(|event| event.outcome) {
                // The transaction that stores a message follows at once.
                None => Progress { text: "queued", mark: "pending", href: None, is_sent: true },
                Some(outcome) => {
                    let is_done = last.is_some_and(|event| event.state == InboxState::Done);
                    let is_sent = is_done || outcome == Outcome::Duplicate;
                    let mark = if is_sent { "completed" } else { "failed" };
                    Progress { text: words::outcome(outcome).0, mark, href: None, is_sent }
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
            let texts = Review { text: &comment.body, lines, approves: false };
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
    place: u64,
    author: String,
    is_service: bool,
    is_review: bool,
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

impl Renderer<'_> {
    /// Renders the conversation, and attaches the comments on current lines to the diff.
    pub(super) fn render(
        &self,
        comments: &[Comment],
        diff: &mut DiffShown<'_>,
        budget: &mut Budget,
    ) -> askama::Result<Vec<Fragment>> {
        let mut ordered: Vec<&Comment> = comments.iter().collect();
        ordered.sort_by_key(|one| (one.comment.at, one.place));
        let mut replies: HashMap<u64, Vec<Fragment>> = HashMap::new();
        let mut roots = Vec::new();
        for one in ordered {
            let text = one.comment.body.trim();
            let body = (!text.is_empty()).then(|| markdown::html_within(text, self.highlighter, budget));
            let is_current = one.comment.line.as_ref().is_some_and(|place| diff.has(place));
            if let (true, Some(LinePlace { path, side, line, .. })) = (is_current, &one.comment.line) {
                let content = self.comment(one, body.as_ref(), (true, true), Vec::new())?;
                diff.attach(&LineKey { path: path.clone(), side: *side, line: *line }, content);
            }
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
            place: one.place,
            author: visible::line(&comment.author).into_owned(),
            is_service: comment.author_id.as_deref() == Some(SERVICE),
            is_review: comment.review == Some(one.place),
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
