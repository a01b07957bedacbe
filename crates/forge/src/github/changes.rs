//! Polls of GitHub. One request finds out whether anything has changed, and costs nothing if nothing has.

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::Said;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HookEvent, HostComment, HostIssue, HostUser};
use journeyman_core::poll::{PollQuery, Polled, WatchedPull};
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde_json::Value;

use super::wire::{PullRequest, Review, User};
use super::{Github, repository_path};
use crate::feed::{Changed, Feed, is_since, pull_changed};
use crate::json::{Id, or_default};

/// A pull request or an issue in a list of changes.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    number: u64,
    #[serde(default, deserialize_with = "or_default")]
    created_at: String,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default)]
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default)]
    labels: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    assignees: Vec<User>,
    /// Present if the issue is a pull request.
    #[serde(default)]
    pull_request: Option<Value>,
    /// Present in a list of pull requests.
    #[serde(default)]
    head: Option<Value>,
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
    html_url: String,
    /// Ends with the number.
    #[serde(default)]
    issue_url: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    updated_at: String,
}

/// A change of an issue, such as a label that was added.
#[derive(Debug, Deserialize)]
struct Change {
    #[serde(default)]
    event: String,
    #[serde(default)]
    actor: Option<User>,
    #[serde(default)]
    label: Value,
    #[serde(default)]
    created_at: String,
}

pub(super) async fn poll(
    github: &Github,
    repository: &HostRepository,
    query: &PollQuery,
) -> Result<Polled, ForgeError> {
    let path = repository_path(repository)?;
    let feed = Feed::new(&github.http, github.authorization(&path).await?, repository, query);
    let base = format!("/repos/{path}");
    let mut position = feed.before.clone();
    let list =
        format!("{base}/issues?state=all&sort=updated&direction=asc&per_page=100&since={}", feed.since_parameter());
    let changed = match feed.changes::<Entry>(&list, &mut position).await {
        // The repository has no issues, but pull requests.
        Err(ForgeError::NotFound(_)) => {
            let list = format!("{base}/pulls?state=all&sort=updated&direction=desc&per_page=100");
            let is_older = |page: &[Entry]| page.iter().any(|entry| !is_since(&entry.updated_at, feed.since));
            let (mut found, _) = feed.list::<Entry>(list, is_older).await?;
            found.retain(|entry| is_since(&entry.updated_at, feed.since));
            feed.is_new(&found, &mut position).then_some(found)
        }
        changed => changed?,
    };
    let Some(changed) = changed else { return feed.end(Vec::new(), position) };
    let mut events = Vec::new();
    let list =
        format!("{base}/issues/comments?sort=updated&direction=asc&per_page=100&since={}", feed.since_parameter());
    let (comments, is_complete) = feed.list::<Comment>(list, |_| false).await?;
    if let Some(last) = comments.last().filter(|_| !is_complete) {
        position.stop_at(&last.updated_at);
    }
    events.extend(comments.into_iter().filter_map(Comment::into_content).map(|content| feed.event(None, content)));
    for entry in changed {
        let is_pull = entry.pull_request.is_some() || entry.head.is_some();
        match (query.pull(entry.number), &query.issue_label) {
            (Some(watched), _) if is_pull => events.extend(pull(&feed, &base, watched).await?),
            (_, Some(label)) if !is_pull && entry.state == "open" => {
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
    let list = format!("{base}/pulls/{number}/reviews?per_page=100");
    let (reviews, _) = feed.list::<Review>(list, |_| false).await?;
    let submitted = reviews.into_iter().filter_map(Review::into_review);
    let new = submitted.filter(|review| is_since(&review.version, feed.since));
    contents.extend(new.map(|review| HookContent::Review { number, action: CommentAction::Created, review }));
    Ok(contents.into_iter().map(|content| feed.event(None, content)).collect())
}

/// Returns that an issue was opened, and that someone has added the label.
async fn issue(feed: &Feed<'_>, base: &str, entry: Entry, label: &str) -> Result<Vec<HookEvent>, ForgeError> {
    let (number, is_new) = (entry.number, is_since(&entry.created_at, feed.since));
    let issue = entry.into_issue();
    let has_label = issue.labels.iter().any(|known| known.eq_ignore_ascii_case(label));
    let mut labeled_by = None;
    if has_label {
        let list = format!("{base}/issues/{number}/events?per_page=100");
        let (changes, _) = feed.list::<Change>(list, |_| false).await?;
        let is_it = |change: &Change| {
            let name = change.label["name"].as_str().unwrap_or_default();
            change.event == "labeled" && name.eq_ignore_ascii_case(label) && is_since(&change.created_at, feed.since)
        };
        let newest = changes.into_iter().rev().find(is_it);
        labeled_by = newest.and_then(|change| change.actor).map(HostUser::from);
    }
    Ok(feed.issue(issue, is_new, label, labeled_by))
}

impl Entry {
    /// Returns whether it is a pull request, which the host lists among the issues.
    pub(super) const fn is_pull(&self) -> bool {
        self.pull_request.is_some()
    }

    pub(super) fn into_issue(self) -> HostIssue {
        let name = |label: &Value| label["name"].as_str().or(label.as_str()).map(str::to_owned);
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
    pub(super) fn into_said(self, is_pull: bool) -> Said {
        let at = self.updated_at.parse().ok();
        let kind = if is_pull { CommentKind::Pull } else { CommentKind::Issue };
        Said { comment: self.into_comment(kind), at, is_edited: false }
    }

    fn into_content(self) -> Option<HookContent> {
        let number = self.issue_url.rsplit('/').next()?.parse().ok()?;
        let action = if self.created_at == self.updated_at { CommentAction::Created } else { CommentAction::Edited };
        let kind = if self.html_url.contains("/pull/") { CommentKind::Pull } else { CommentKind::Issue };
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
