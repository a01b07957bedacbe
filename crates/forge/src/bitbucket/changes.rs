//! Polls of Bitbucket Cloud: one request for the pull requests, and one for the comments of each that has changed.

use std::time::Duration;

use journeyman_core::code_host::HostRepository;
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HookEvent, HostComment};
use journeyman_core::ids::Sha;
use journeyman_core::poll::{PollQuery, Polled, WatchedPull};
use journeyman_core::ports::ForgeError;
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::position::{Inline, Parent, thread};
use super::wire::{Commit, Content, Links, Page, PullRequest, User, shown};
use super::{ALL_STATES, Bitbucket, at};
use crate::feed::{Changed, Feed, pull_changed};
use crate::http::{Answer, encoded};
use crate::json::{Id, or_default, sha};

/// A pull request in the list of changes.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default, deserialize_with = "or_default")]
    updated_on: String,
    #[serde(flatten)]
    found: PullRequest,
}

impl Changed for Entry {
    fn number(&self) -> u64 {
        self.found.id
    }

    fn updated(&self) -> &str {
        &self.updated_on
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    id: Id,
    #[serde(default, deserialize_with = "or_default")]
    content: Content,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default, deserialize_with = "or_default")]
    created_on: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) updated_on: String,
    #[serde(default)]
    inline: Option<Inline>,
    #[serde(default)]
    parent: Option<Parent>,
    #[serde(default)]
    resolution: Value,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) deleted: bool,
    /// `true` for a draft.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) pending: bool,
    #[serde(default, deserialize_with = "or_default")]
    links: Links,
}

/// Reads a list. The body of a page has the address of the next one.
async fn list<T: DeserializeOwned>(feed: &Feed<'_>, path: String) -> Result<Vec<T>, ForgeError> {
    let split = |page: Page<T>, _: &Answer| (page.values, page.next);
    Ok(feed.pages(path, split, |_| false).await?.0)
}

pub(super) async fn poll(
    bitbucket: &Bitbucket,
    repository: &HostRepository,
    query: &PollQuery,
) -> Result<Polled, ForgeError> {
    let feed = Feed::new(&bitbucket.http, bitbucket.authorization(), repository, query);
    let mut position = feed.before.clone();
    let since = encoded(&format!("updated_on >= {}", crate::feed::seconds(feed.since)));
    let path = at(repository, &format!("/pullrequests?{ALL_STATES}&q={since}&sort=updated_on&pagelen=50"));
    let changed: Vec<Entry> = list(&feed, path).await?;
    let mut events = Vec::new();
    if !feed.is_new(&changed, &mut position) {
        return feed.end(events, position);
    }
    for entry in changed {
        let Some(watched) = query.pull(entry.found.id) else { continue };
        let head_sha = full_hash(&feed, repository, watched, &entry.found.source.commit.hash).await?;
        let found = entry.found.into_pull(head_sha);
        events.extend(pull_changed(watched, found.state, found.head_sha).map(|content| feed.event(None, content)));
        events.extend(comments(&feed, repository, watched.number, &since).await?);
    }
    feed.end(events, position)
}

/// Returns the full hash of a commit, of which the list has the beginning.
async fn full_hash(
    feed: &Feed<'_>,
    repository: &HostRepository,
    watched: &WatchedPull,
    short: &str,
) -> Result<Option<Sha>, ForgeError> {
    let known = watched.head_sha.as_ref().filter(|known| !short.is_empty() && known.as_str().starts_with(short));
    if known.is_some() || short.is_empty() || sha(short).is_some() {
        return Ok(known.cloned().or_else(|| sha(short)));
    }
    let path = at(repository, &format!("/commit/{}?fields=hash", encoded(short)));
    Ok(feed.get::<Commit>(&path).await?.and_then(|commit| sha(&commit.hash)))
}

/// Returns the new, edited and deleted comments of a pull request.
async fn comments(
    feed: &Feed<'_>,
    repository: &HostRepository,
    number: u64,
    since: &str,
) -> Result<Vec<HookEvent>, ForgeError> {
    let path = at(repository, &format!("/pullrequests/{number}/comments?q={since}&sort=updated_on&pagelen=100"));
    let found: Vec<Comment> = list(feed, path).await?;
    let published = found.into_iter().filter(|comment| !comment.pending);
    Ok(published.map(|comment| feed.event(None, comment.into_content(number))).collect())
}

/// Returns whether a comment has the time of its creation: Bitbucket sets the two some milliseconds apart.
fn is_at_once(created: &str, updated: &str) -> bool {
    match (created.parse::<Timestamp>(), updated.parse::<Timestamp>()) {
        (Ok(created), Ok(updated)) => updated.since(created) < Duration::from_secs(1),
        _ => created == updated,
    }
}

impl Comment {
    fn into_content(self, number: u64) -> HookContent {
        let action = match is_at_once(&self.created_on, &self.updated_on) {
            _ if self.deleted => CommentAction::Deleted,
            true => CommentAction::Created,
            false => CommentAction::Edited,
        };
        HookContent::Comment { number, action, comment: self.into_comment() }
    }

    pub(super) fn into_comment(self) -> HostComment {
        let kind = if self.inline.is_some() { CommentKind::Line } else { CommentKind::Pull };
        HostComment {
            kind,
            position: self.inline.and_then(Inline::position),
            thread: Some(thread(&self.id.0, self.parent.as_ref(), &self.resolution)),
            id: self.id.0,
            version: self.updated_on,
            url: self.links.html(),
            author: self.user.into(),
            body: if self.deleted { String::new() } else { shown(&self.content.raw) },
            hunk: None,
            review: None,
        }
    }
}
