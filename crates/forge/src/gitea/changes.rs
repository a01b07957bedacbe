//! Polls of Gitea and Forgejo. One request finds out whether anything has changed.

use std::sync::atomic::{AtomicU32, Ordering};

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::Said;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HookEvent, HostComment, HostIssue, HostUser};
use journeyman_core::poll::{PollQuery, Polled, WatchedPull};
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::wire::{Change, PullRequest, Review, User};
use super::{Gitea, PAGE, below};
use crate::feed::{Changed, Feed, is_since, pull_changed};
use crate::http::Answer;
use crate::json::{Id, or_default};

/// A pull request or an issue in the list of changes.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    number: u64,
    #[serde(default, deserialize_with = "or_default")]
    created_at: String,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default, deserialize_with = "or_default")]
    labels: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    assignees: Vec<User>,
    /// Present if the issue is a pull request.
    #[serde(default)]
    pull_request: Option<Value>,
}

impl Changed for Entry {
    fn number(&self) -> u64 {
        self.number
    }

    fn updated(&self) -> &str {
        &self.updated_at
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    id: Id,
    #[serde(default, deserialize_with = "or_default")]
    html_url: String,
    /// The page of the pull request; empty for a comment on an issue.
    #[serde(default, deserialize_with = "or_default")]
    pull_request_url: String,
    #[serde(default, deserialize_with = "or_default")]
    issue_url: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default, deserialize_with = "or_default")]
    created_at: String,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
}

/// Reads a list page by page. `path` has a query. Counts the pages, because the addresses in the header `Link` may be
/// those of another server.
async fn list<T: DeserializeOwned>(feed: &Feed<'_>, path: &str) -> Result<Vec<T>, ForgeError> {
    let at = |page: u32| format!("{path}&limit={PAGE}&page={page}");
    let count = AtomicU32::new(1);
    let split = |items: Option<Vec<T>>, _: &Answer| {
        let items = items.unwrap_or_default();
        let page = count.fetch_add(1, Ordering::Relaxed) + 1;
        let next = (items.len() >= PAGE).then(|| at(page));
        (items, next)
    };
    Ok(feed.pages(at(1), split, |_| false).await?.0)
}

pub(super) async fn poll(gitea: &Gitea, repository: &HostRepository, query: &PollQuery) -> Result<Polled, ForgeError> {
    let feed = Feed::new(&gitea.http, gitea.authorization(), repository, query);
    let base = below(repository, "")?;
    let mut position = feed.before.clone();
    let since = feed.since_parameter();
    let changed: Vec<Entry> = list(&feed, &format!("{base}/issues?state=all&since={since}")).await?;
    if !feed.is_new(&changed, &mut position) {
        return feed.end(Vec::new(), position);
    }
    let comments: Vec<Comment> = list(&feed, &format!("{base}/issues/comments?since={since}")).await?;
    let mut events: Vec<HookEvent> =
        comments.into_iter().filter_map(Comment::into_content).map(|content| feed.event(None, content)).collect();
    for entry in changed {
        match (query.pull(entry.number), &query.issue_label, &entry.pull_request) {
            (Some(watched), _, Some(_)) => events.extend(pull(&feed, &base, watched).await?),
            (_, Some(label), None) if entry.state == "open" => {
                events.extend(issue(&feed, &base, entry, label).await?);
            }
            _ => {}
        }
    }
    feed.end(events, position)
}

/// Returns what has changed about a pull request of a job: its state, its newest commit, and its reviews.
async fn pull(feed: &Feed<'_>, base: &str, watched: &WatchedPull) -> Result<Vec<HookEvent>, ForgeError> {
    let number = watched.number;
    let Some(found) = feed.get::<PullRequest>(&format!("{base}/pulls/{number}")).await? else {
        return Ok(Vec::new());
    };
    let found = found.into_pull();
    let mut contents: Vec<HookContent> = pull_changed(watched, found.state, found.head_sha).into_iter().collect();
    let mut reviews: Vec<Review> = list(feed, &format!("{base}/pulls/{number}/reviews?")).await?;
    reviews.retain(|review| review.age().0.is_none_or(|at| at >= feed.since));
    reviews.sort_by_key(Review::age);
    let submitted = reviews.into_iter().filter_map(Review::into_review);
    contents.extend(submitted.map(|review| HookContent::Review { number, action: CommentAction::Created, review }));
    Ok(contents.into_iter().map(|content| feed.event(None, content)).collect())
}

/// Returns that an issue was opened, and that someone has added the label.
async fn issue(feed: &Feed<'_>, base: &str, entry: Entry, label: &str) -> Result<Vec<HookEvent>, ForgeError> {
    let (number, is_new) = (entry.number, is_since(&entry.created_at, feed.since));
    let issue = entry.into_issue();
    let has_label = issue.labels.iter().any(|known| known.eq_ignore_ascii_case(label));
    let mut labeled_by = None;
    if has_label {
        let path = format!("{base}/issues/{number}/timeline?since={}", feed.since_parameter());
        let changes: Vec<Change> = list(feed, &path).await?;
        let is_it = |change: &Change| change.adds(label) && is_since(&change.created_at, feed.since);
        labeled_by = changes.into_iter().rev().find(is_it).map(|change| change.user.into());
    }
    Ok(feed.issue(issue, is_new, label, labeled_by))
}

impl Entry {
    /// Returns whether it is a pull request, which the host lists among the issues.
    pub(super) const fn is_pull(&self) -> bool {
        self.pull_request.is_some()
    }

    pub(super) fn into_issue(self) -> HostIssue {
        let name = |label: &Value| label["name"].as_str().map(str::to_owned);
        HostIssue {
            number: self.number,
            title: self.title,
            body: self.body,
            url: self.html_url,
            author: self.user.into(),
            labels: self.labels.iter().filter_map(name).collect(),
            assignees: self.assignees.into_iter().map(HostUser::from).collect(),
        }
    }
}

impl Comment {
    /// Converts the comment as part of a conversation.
    pub(super) fn into_said(self, kind: CommentKind) -> Said {
        let (at, is_edited) = (self.updated_at.parse().ok(), self.created_at != self.updated_at);
        Said { comment: self.into_comment(kind), at, is_edited }
    }

    fn into_content(self) -> Option<HookContent> {
        let is_pull = !self.pull_request_url.is_empty();
        let page = if is_pull { &self.pull_request_url } else { &self.issue_url };
        let number = page.rsplit('/').next()?.parse().ok()?;
        let action = if self.created_at == self.updated_at { CommentAction::Created } else { CommentAction::Edited };
        let kind = if is_pull { CommentKind::Pull } else { CommentKind::Issue };
        Some(HookContent::Comment { number, action, comment: self.into_comment(kind) })
    }

    fn into_comment(self, kind: CommentKind) -> HostComment {
        HostComment {
            kind,
            id: self.id.0,
            version: self.updated_at,
            url: self.html_url,
            author: self.user.into(),
            body: self.body,
            position: None,
            hunk: None,
            thread: None,
            review: None,
        }
    }
}
