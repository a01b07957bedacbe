//! The progress of comments on a pull request that were sent to its job.

use std::collections::HashMap;

use journeyman_core::code_host::{HostName, PullRepository};
use journeyman_core::ids::Sha;
use journeyman_core::inbox::route::{Identity, Request, Review};
use journeyman_core::inbox::{InboxState, Outcome};
use journeyman_core::job::Job;
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::ports::StoreError;
use journeyman_core::pull::comment::{self, SERVICE};
use journeyman_core::pull::{Comment, LocalPull, Verdict};

use super::Target;
use crate::Shared;
use crate::moment::Moment;
use crate::pages::inbox::words;
use crate::pages::job::block;
use crate::pages::part::short;
use crate::size::Size;
use crate::words::duration;

/// The outcome of a comment that addresses the job.
pub(super) struct Progress {
    /// What happened so far, in order.
    pub(super) steps: Vec<Step>,
    /// False if the comment led to no message.
    pub(super) is_sent: bool,
}

/// A step on the way of a comment to a commit.
pub(super) struct Step {
    /// The class of the mark.
    pub(super) mark: &'static str,
    pub(super) text: String,
    /// The path of the message.
    pub(super) href: Option<String>,
    pub(super) at: Option<Moment>,
    /// The commits, with their hashes and links.
    pub(super) commits: Vec<(String, String)>,
    /// The size of their change.
    pub(super) size: Option<Size>,
}

impl Step {
    const fn new(mark: &'static str, text: String) -> Self {
        Self { mark, text, href: None, at: None, commits: Vec::new(), size: None }
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
            let stat = message.diff.as_ref().map(|diff| diff.stat).filter(|_| !commits.is_empty());
            let size = Size::of(stat).filter(Size::has_lines);
            steps.push(Step { commits, size, ..Step::new("completed", text.to_owned()) });
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
    for one in comments.iter().filter(|one| one.is_root()) {
        let id = comment::id(&pull.repository, pull.number, one.number);
        let parts = comments.iter().filter(|part| part.number == one.number || part.comment.review == Some(one.number));
        let mut of_parts = parts.map(|part| comment::id(&pull.repository, pull.number, part.number));
        let message = of_parts.find_map(|id| by_comment.get(&id).copied());
        let of_older_version = || messages.iter().find(|message| one.comment.message == Some(message.id));
        if let Some(message) = message.or_else(of_older_version) {
            found.insert(one.number, Progress { steps: steps(target, job, message), is_sent: true });
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
            found.insert(one.number, progress);
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
    let identity = Identity::local();
    let settings = &target.project.settings.comments;
    match comment.review {
        Some(review) => {
            let is_for_job = review == one.number && has_job;
            let lines = all.iter().filter(|line| line.number != one.number && line.comment.review == Some(review));
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
