//! Polls of GitLab: one request for the merge requests, and one for the issues.

use std::time::Duration;

use journeyman_core::code_host::{HostRepository, PullState};
use journeyman_core::conversation::Said;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HookEvent, HostComment, HostIssue};
use journeyman_core::ids::Sha;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::ForgeError;
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Gitlab;
use super::hooks::host_user;
use super::position::{Located, thread};
use super::wire::{MergeRequest, User};
use crate::feed::{Changed, Feed, is_since, pull_changed};
use crate::http::encoded;
use crate::json::{Id, or_default, version};

/// The time before the newest change that is read again. A comment changes the time of a merge request at most once a
/// minute (`ThrottledTouch` in GitLab's source).
const OVERLAP: Duration = Duration::from_secs(90);

/// A merge request in a list of changes.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default)]
    updated_at: String,
    #[serde(default, deserialize_with = "or_default")]
    user_notes_count: u64,
    #[serde(flatten)]
    found: MergeRequest,
}

impl Changed for Entry {
    fn number(&self) -> u64 {
        self.found.iid
    }

    fn updated(&self) -> &str {
        &self.updated_at
    }

    /// A comment changes the time of a merge request at most once a minute.
    fn comments(&self) -> u64 {
        self.user_notes_count
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Issue {
    iid: u64,
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    description: String,
    #[serde(default)]
    web_url: String,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    #[serde(default, deserialize_with = "or_default")]
    author: User,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    assignees: Vec<User>,
    #[serde(default, deserialize_with = "or_default")]
    confidential: bool,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    updated_at: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Note {
    id: Id,
    /// `DiffNote` for a comment on a line.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    author: User,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    updated_at: String,
    #[serde(default, deserialize_with = "or_default")]
    system: bool,
    /// `true` if only members of the project see it.
    #[serde(default, deserialize_with = "or_default")]
    internal: bool,
    /// The same in older versions.
    #[serde(default, deserialize_with = "or_default")]
    confidential: bool,
    #[serde(default, deserialize_with = "or_default")]
    position: Located,
    #[serde(default, deserialize_with = "or_default")]
    resolvable: bool,
    #[serde(default, deserialize_with = "or_default")]
    resolved: bool,
}

/// A label that was added to an issue, or removed.
#[derive(Debug, Deserialize)]
struct LabelChange {
    #[serde(default)]
    action: String,
    #[serde(default)]
    label: Value,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default)]
    created_at: String,
}

pub(super) async fn poll(
    gitlab: &Gitlab,
    repository: &HostRepository,
    query: &PollQuery,
) -> Result<Polled, ForgeError> {
    let feed = Feed::overlapping(OVERLAP, &gitlab.http, gitlab.authorization(), repository, query);
    let base = format!("/projects/{}", encoded(&repository.id));
    let order = "state=all&scope=all&order_by=updated_at&sort=asc&per_page=100";
    let mut position = feed.before.clone();
    let mut events = Vec::new();
    let list = format!("{base}/merge_requests?{order}&updated_after={}", feed.since_parameter());
    for entry in feed.changes::<Entry>(&list, &mut position).await?.unwrap_or_default() {
        let watched = query.pull(entry.found.iid);
        let found = entry.found.into_pull();
        // A mention on an open merge request without a job makes one.
        if watched.is_none() && found.state != PullState::Open {
            continue;
        }
        let about = About { number: found.number, url: found.url, is_issue: false, head: found.head_sha.clone() };
        if let Some(watched) = watched {
            events.extend(pull_changed(watched, found.state, found.head_sha).map(|content| feed.event(None, content)));
        }
        let path = format!("{base}/merge_requests/{}", about.number);
        events.extend(notes(&feed, &path, &about).await?);
    }
    if let Some(label) = &query.issue_label {
        let list = format!("{base}/issues?{order}&updated_after={}", feed.since_parameter());
        for issue in feed.list::<Issue>(list, |_| false).await?.0 {
            position.advance(&issue.updated_at);
            // A merge request for a confidential issue may be public.
            if issue.state == "opened" && !issue.confidential {
                events.extend(changed_issue(&feed, &base, issue, label).await?);
            }
        }
    }
    feed.end(events, position)
}

/// What notes are on: a merge request or an issue.
pub(super) struct About {
    pub(super) number: u64,
    /// The page.
    pub(super) url: String,
    pub(super) is_issue: bool,
    /// The newest commit of a merge request.
    pub(super) head: Option<Sha>,
}

/// Returns the new and edited comments on a merge request or an issue.
async fn notes(feed: &Feed<'_>, path: &str, about: &About) -> Result<Vec<HookEvent>, ForgeError> {
    let list = format!("{path}/notes?order_by=updated_at&sort=desc&per_page=100");
    let is_older = |page: &[Note]| page.iter().any(|note| !is_since(&note.updated_at, feed.since));
    let (mut found, _) = feed.list::<Note>(list, is_older).await?;
    // The answer to an internal note would be public.
    found.retain(|note| note.is_public() && is_since(&note.updated_at, feed.since));
    found.reverse();
    Ok(found.into_iter().map(|note| feed.event(None, note.into_content(about))).collect())
}

impl Note {
    /// Returns whether a person wrote the note for all who see what it is on.
    pub(super) const fn is_public(&self) -> bool {
        !self.system && !self.internal && !self.confidential
    }

    /// Returns whether the note was changed at a time or later.
    pub(super) fn is_since(&self, since: Option<Timestamp>) -> bool {
        since.is_none_or(|since| is_since(&self.updated_at, since))
    }

    /// Converts the note as part of a conversation.
    pub(super) fn into_said(self, about: &About) -> Said {
        let at = self.updated_at.parse().ok();
        Said { comment: self.into_comment(about), at, is_edited: false }
    }

    fn into_content(self, about: &About) -> HookContent {
        let (created, updated) = (version(&self.created_at), version(&self.updated_at));
        let action = if created == updated { CommentAction::Created } else { CommentAction::Edited };
        HookContent::Comment { number: about.number, action, comment: self.into_comment(about) }
    }

    fn into_comment(self, about: &About) -> HostComment {
        let is_line = self.kind == "DiffNote" && !about.is_issue;
        HostComment {
            kind: match (about.is_issue, is_line) {
                (true, _) => CommentKind::Issue,
                (false, true) => CommentKind::Line,
                (false, false) => CommentKind::Pull,
            },
            version: version(&self.updated_at),
            url: format!("{}#note_{}", about.url, self.id.0),
            position: self.position.position(about.head.as_ref()).filter(|_| is_line),
            // The list does not tell the discussion.
            thread: thread(&self.kind, None, self.resolvable.then_some(self.resolved)),
            id: self.id.0,
            author: host_user(self.author),
            body: self.body,
            hunk: None,
            review: None,
        }
    }
}

impl Issue {
    pub(super) fn into_issue(self) -> HostIssue {
        HostIssue {
            number: self.iid,
            title: self.title,
            body: self.description,
            url: self.web_url,
            author: host_user(self.author),
            labels: self.labels,
            assignees: self.assignees.into_iter().map(host_user).collect(),
        }
    }
}

/// Returns that an issue was opened, that someone has added the label, and the comments on an issue with the label.
async fn changed_issue(feed: &Feed<'_>, base: &str, found: Issue, label: &str) -> Result<Vec<HookEvent>, ForgeError> {
    let (number, is_new) = (found.iid, is_since(&found.created_at, feed.since));
    let url = found.web_url.clone();
    let issue = found.into_issue();
    let has_label = issue.labels.iter().any(|known| known.eq_ignore_ascii_case(label));
    let (mut labeled_by, mut comments) = (None, Vec::new());
    if has_label {
        let path = format!("{base}/issues/{number}");
        let list = format!("{path}/resource_label_events?per_page=100");
        let (changes, _) = feed.list::<LabelChange>(list, |_| false).await?;
        let is_it = |change: &LabelChange| {
            let name = change.label["name"].as_str().unwrap_or_default();
            change.action == "add" && name.eq_ignore_ascii_case(label) && is_since(&change.created_at, feed.since)
        };
        labeled_by = changes.into_iter().rev().find(is_it).map(|change| host_user(change.user));
        comments = notes(feed, &path, &About { number, url, is_issue: true, head: None }).await?;
    }
    Ok(feed.issue(issue, is_new, label, labeled_by).into_iter().chain(comments).collect())
}
