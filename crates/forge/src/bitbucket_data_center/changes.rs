//! Polls of Bitbucket Data Center. The host does not list changes, so the open pull requests are compared with those of
//! the last poll.

use std::collections::BTreeMap;

use journeyman_core::code_host::{HostRepository, PullState};
use journeyman_core::conversation::Said;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HookEvent, HostComment};
use journeyman_core::poll::{PollQuery, Polled, WatchedPull};
use journeyman_core::ports::ForgeError;
use journeyman_core::position::Thread;
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::position::Anchor;
use super::wire::{Page, PullRequest, User, with_visible_comments};
use super::{BitbucketDataCenter, Location};
use crate::feed::{Feed, pull_changed};
use crate::http::{Answer, Authorization};
use crate::json::{Id, or_default};

/// An open pull request in the list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    updated_date: Value,
    #[serde(default)]
    properties: Value,
    #[serde(flatten)]
    found: PullRequest,
}

impl Entry {
    /// Returns a text that differs when the pull request has new commits or comments.
    fn fingerprint(&self) -> String {
        let (count, updated) = (&self.properties["commentCount"], &self.updated_date);
        format!("{}/{updated}/{count}/{}", self.found.version, self.found.latest_commit())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Activity {
    #[serde(default)]
    pub(super) comment: Option<Comment>,
    /// The position of a comment on a line, and of the replies to it.
    #[serde(default)]
    pub(super) comment_anchor: Option<Anchor>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comment {
    id: Id,
    #[serde(default)]
    version: u64,
    #[serde(default)]
    updated_date: Value,
    #[serde(default, deserialize_with = "or_default")]
    text: String,
    #[serde(default, deserialize_with = "or_default")]
    author: User,
    /// `PENDING` for a draft.
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    /// Whether the thread is resolved; only the first comment has it.
    #[serde(default)]
    thread_resolved: Option<bool>,
    /// The replies, each with the replies to it.
    #[serde(default, deserialize_with = "or_default")]
    comments: Vec<Self>,
}

/// A comment with its thread.
pub(super) struct Threaded {
    comment: Comment,
    thread: Thread,
}

/// Reads a list. `path` has a query.
async fn list<T: DeserializeOwned>(feed: &Feed<'_>, path: &str) -> Result<Vec<T>, ForgeError> {
    let split = |page: Page<T>, _: &Answer| {
        let next = page.next().map(|start| format!("{path}&start={start}"));
        (page.values, next)
    };
    Ok(feed.pages(path.to_owned(), split, |_| false).await?.0)
}

pub(super) async fn poll(
    host: &BitbucketDataCenter,
    repository: &HostRepository,
    query: &PollQuery,
) -> Result<Polled, ForgeError> {
    let authorization = Authorization::Bearer(host.token.clone());
    let feed = Feed::new(&host.http, authorization, repository, query);
    let location = Location::current(repository)?;
    let mut position = feed.before.clone();
    let open: Vec<Entry> = list(&feed, &format!("{}?state=OPEN&order=NEWEST&limit=100", location.pulls())).await?;
    let mut open: BTreeMap<u64, Entry> = open.into_iter().map(|entry| (entry.found.id, entry)).collect();
    let (mut events, mut pulls) = (Vec::new(), BTreeMap::new());
    for watched in &query.pulls {
        let number = watched.number;
        let Some(entry) = open.remove(&number) else {
            if watched.state == PullState::Open {
                events.extend(ended(&feed, host, &location, watched).await?);
            }
            continue;
        };
        let fingerprint = entry.fingerprint();
        if feed.before.pulls.get(&number) != Some(&fingerprint) {
            let found = entry.found.into_pull(host.page(&location, number));
            events.extend(pull_changed(watched, found.state, found.head_sha).map(|content| feed.event(None, content)));
            let page = &found.url;
            for (at, event) in comments(&feed, &location, number, page).await? {
                position.advance(&at.to_string());
                events.push(event);
            }
        }
        pulls.insert(number, fingerprint);
    }
    position.pulls = pulls;
    feed.end(events, position)
}

/// Returns that a pull request was merged or declined.
async fn ended(
    feed: &Feed<'_>,
    host: &BitbucketDataCenter,
    location: &Location,
    watched: &WatchedPull,
) -> Result<Option<HookEvent>, ForgeError> {
    let path = format!("{}/{}", location.pulls(), watched.number);
    let Some(found) = feed.get::<PullRequest>(&path).await? else { return Ok(None) };
    let found = found.into_pull(host.page(location, watched.number));
    Ok(pull_changed(watched, found.state, found.head_sha).map(|content| feed.event(None, content)))
}

/// Returns the new and edited comments of a pull request, with the times of their changes.
async fn comments(
    feed: &Feed<'_>,
    location: &Location,
    number: u64,
    page: &str,
) -> Result<Vec<(Timestamp, HookEvent)>, ForgeError> {
    let path = format!("{}/{number}/activities?limit=100", location.pulls());
    let activities: Vec<Activity> = list(feed, &path).await?;
    let mut found = BTreeMap::new();
    for Activity { comment, comment_anchor, .. } in activities {
        let anchor = comment_anchor.unwrap_or_default();
        let comments = comment.map(Comment::into_thread).unwrap_or_default();
        for Threaded { comment, thread } in comments.into_iter().filter(|one| one.comment.state != "PENDING") {
            let at = comment.updated_at();
            if at >= feed.since {
                let id = comment.id.0.clone();
                found.insert((at, id), feed.event(None, comment.into_content(number, page, &anchor, thread)));
            }
        }
    }
    Ok(found.into_iter().map(|((at, _), event)| (at, event)).collect())
}

impl Comment {
    /// Returns the comment, which is the first of its thread, and all replies.
    pub(super) fn into_thread(self) -> Vec<Threaded> {
        let (mut found, is_resolved) = (Vec::new(), self.thread_resolved);
        let thread = Thread { is_resolved, ..Thread::begun_by(&self.id.0) };
        self.collect(thread, &mut found);
        found
    }

    /// Adds the comment and all replies.
    fn collect(mut self, thread: Thread, found: &mut Vec<Threaded>) {
        let replies = std::mem::take(&mut self.comments);
        let of_reply = Thread { parent: Some(self.id.0.clone()), ..thread.clone() };
        found.push(Threaded { comment: self, thread });
        for reply in replies {
            reply.collect(of_reply.clone(), found);
        }
    }

    /// Returns the time of the last change, which is in milliseconds or a text.
    fn updated_at(&self) -> Timestamp {
        let millis = self.updated_date.as_i64().map(|millis| Timestamp::from_micros(millis.saturating_mul(1000)));
        let text = || self.updated_date.as_str().and_then(|text| text.parse().ok());
        millis.or_else(text).unwrap_or_default()
    }

    fn into_content(self, number: u64, page: &str, anchor: &Anchor, thread: Thread) -> HookContent {
        let action = if self.version == 0 { CommentAction::Created } else { CommentAction::Edited };
        HookContent::Comment { number, action, comment: self.into_comment(page, anchor, thread) }
    }

    fn into_comment(self, page: &str, anchor: &Anchor, thread: Thread) -> HostComment {
        HostComment {
            // As in webhooks, which do not say which comments are on lines.
            kind: CommentKind::Pull,
            version: self.version.to_string(),
            url: format!("{page}/overview?commentId={}", self.id.0),
            id: self.id.0,
            author: self.author.into(),
            body: with_visible_comments(&self.text),
            position: anchor.position(),
            hunk: None,
            thread: Some(thread),
            review: None,
        }
    }
}

impl Threaded {
    /// Converts the comment as part of a conversation; `None` for a draft.
    pub(super) fn into_said(self, page: &str, anchor: &Anchor) -> Option<Said> {
        let Self { comment, thread } = self;
        let at = comment.updated_at();
        let at = (at > Timestamp::default()).then_some(at);
        let is_public = comment.state != "PENDING";
        is_public.then(|| Said { comment: comment.into_comment(page, anchor, thread), at, is_edited: false })
    }
}
