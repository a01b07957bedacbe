//! The common part of the polls of all code hosts: counted requests, pages, and the position up to which changes were
//! read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::StatusCode;
use journeyman_core::code_host::{HostRepository, PullState};
use journeyman_core::hook::{EventRepository, HookContent, HookEvent, HostIssue, HostUser, IssueAction};
use journeyman_core::ids::Sha;
use journeyman_core::poll::{Cost, Cursor, PollQuery, Polled, WatchedPull};
use journeyman_core::ports::ForgeError;
use journeyman_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::http::{Answer, Authorization, Http, encoded};

/// The maximum number of pages of a list that one poll reads. The rest follows with the next poll.
const PAGES: usize = 10;

/// The time before the newest change that is read again, because hosts show changes late and in another order.
const OVERLAP: Duration = Duration::from_secs(30);

/// The position up to which the changes of a repository were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Position {
    /// The time of the newest change that was read.
    since: Option<Timestamp>,
    /// The `ETag` of the list of changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    /// The hash of the list of changes, because not all hosts have an `ETag`.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The state of each pull request, on hosts that have no list of changes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) pulls: BTreeMap<u64, String>,
}

/// The requests of one poll.
pub(crate) struct Feed<'a> {
    http: &'a Http,
    authorization: Authorization,
    requests: AtomicU32,
    charged: AtomicU32,
    /// The position before the poll.
    pub(crate) before: Position,
    /// The time from which changes are read.
    pub(crate) since: Timestamp,
    /// The time before the newest change that is read again.
    overlap: Duration,
    repository: EventRepository,
}

/// An item of a list of changes.
pub(crate) trait Changed {
    /// Returns the number of the pull request or issue.
    fn number(&self) -> u64;
    /// Returns the time of the newest change, as the host writes it.
    fn updated(&self) -> &str;
    /// Returns the number of comments, on a host that does not always change the time for a comment.
    fn comments(&self) -> u64 {
        0
    }
}

impl<'a> Feed<'a> {
    /// Begins a poll. A position that cannot be read counts as none.
    pub(crate) fn new(
        http: &'a Http,
        authorization: Authorization,
        repository: &HostRepository,
        query: &PollQuery,
    ) -> Self {
        Self::overlapping(OVERLAP, http, authorization, repository, query)
    }

    /// Begins a poll that reads changes of this time before the newest one again.
    pub(crate) fn overlapping(
        overlap: Duration,
        http: &'a Http,
        authorization: Authorization,
        repository: &HostRepository,
        query: &PollQuery,
    ) -> Self {
        let before = query.cursor.as_ref().and_then(|cursor| serde_json::from_str::<Position>(&cursor.0).ok());
        let before = before.unwrap_or_default();
        let since = before.since.map_or(query.from, |since| since - overlap);
        let repository = EventRepository { id: repository.id.clone(), path: repository.path.clone() };
        let (requests, charged) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { http, authorization, requests, charged, before, since, overlap, repository }
    }

    /// Returns the time from which changes are read, in whole seconds, as the value of a query parameter.
    pub(crate) fn since_parameter(&self) -> String {
        encoded(&seconds(self.since))
    }

    fn count(&self, is_charged: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.charged.fetch_add(u32::from(is_charged), Ordering::Relaxed);
    }

    /// Reads a resource, unless it is still the one with this `ETag`; then the status is 304.
    pub(crate) async fn answer(&self, path: &str, tag: Option<&str>) -> Result<Answer, ForgeError> {
        let answer = self.http.get_if_changed(Some(&self.authorization), path, tag).await?;
        self.count(answer.status != StatusCode::NOT_MODIFIED);
        Ok(answer)
    }

    /// Reads a resource; `None` if it does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, ForgeError> {
        match self.answer(path, None).await?.ok() {
            Err(ForgeError::NotFound(_)) => Ok(None),
            answer => Ok(Some(answer?.json()?)),
        }
    }

    /// Reads a list page by page, with the address of the next page from `next`, until `enough` returns true for the
    /// items of a page. Returns whether the list was read as far as needed.
    pub(crate) async fn pages<P: DeserializeOwned, T>(
        &self,
        path: String,
        split: impl Fn(P, &Answer) -> (Vec<T>, Option<String>),
        enough: impl Fn(&[T]) -> bool,
    ) -> Result<(Vec<T>, bool), ForgeError> {
        let (mut all, mut next) = (Vec::new(), path);
        for _ in 0..PAGES {
            let answer = self.answer(&next, None).await?.ok()?;
            let (items, following) = split(answer.json()?, &answer);
            let is_enough = enough(&items);
            all.extend(items);
            match following.filter(|_| !is_enough) {
                Some(following) => next = following,
                None => return Ok((all, true)),
            }
        }
        Ok((all, false))
    }

    /// Reads a list whose pages are linked by the header `Link`.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        path: String,
        enough: impl Fn(&[T]) -> bool,
    ) -> Result<(Vec<T>, bool), ForgeError> {
        self.pages(path, |items: Vec<T>, answer| (items, answer.next()), enough).await
    }

    /// Reads a list of changes, oldest first, whose pages are linked by the header `Link`. Returns `None` if nothing has
    /// changed since the last poll. Changes `position` accordingly.
    pub(crate) async fn changes<T: DeserializeOwned + Changed>(
        &self,
        path: &str,
        position: &mut Position,
    ) -> Result<Option<Vec<T>>, ForgeError> {
        let answer = self.answer(path, self.before.tag.as_deref()).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let answer = answer.ok()?;
        position.tag = answer.header("etag").map(str::to_owned);
        let mut items: Vec<T> = answer.json()?;
        if let Some(next) = answer.next() {
            let rest = self.pages(next, |items: Vec<T>, answer| (items, answer.next()), |_| false).await?;
            items.extend(rest.0);
        }
        Ok(self.is_new(&items, position).then_some(items))
    }

    /// Moves the position to the newest change of a list, and returns whether the list has changes that the last poll
    /// did not read.
    pub(crate) fn is_new<T: Changed>(&self, items: &[T], position: &mut Position) -> bool {
        for item in items {
            position.advance(item.updated());
        }
        // The next poll reads these again.
        let from = position.since.map_or(self.since, |since| since - self.overlap);
        let mut hash = Sha256::new();
        let mut all: Vec<&T> = items.iter().filter(|item| is_since(item.updated(), from)).collect();
        all.sort_unstable_by_key(|item| (item.number(), item.updated()));
        for item in all {
            hash.update(format!("{}/{}/{}\n", item.number(), item.updated(), item.comments()));
        }
        let digest: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let is_same = self.before.digest.as_ref() == Some(&digest);
        position.digest = Some(digest);
        !is_same && !items.is_empty()
    }

    /// Returns an event of the repository.
    pub(crate) fn event(&self, sender: Option<HostUser>, content: HookContent) -> HookEvent {
        HookEvent { repository: Some(self.repository.clone()), sender, content }
    }

    /// Returns the events of an issue: that it was opened, if it is new, and that someone has added the label. If that
    /// was not the author, the label is not part of the first event, which would be the request of the author.
    pub(crate) fn issue(
        &self,
        issue: HostIssue,
        is_new: bool,
        label: &str,
        labeled_by: Option<HostUser>,
    ) -> Vec<HookEvent> {
        let mut events = Vec::new();
        if is_new {
            let mut opened = issue.clone();
            if labeled_by.as_ref().is_some_and(|by| by.id != issue.author.id) {
                opened.labels.retain(|known| !known.eq_ignore_ascii_case(label));
            }
            let content = HookContent::Issue { action: IssueAction::Opened, issue: opened };
            events.push(self.event(Some(issue.author.clone()), content));
        }
        if labeled_by.is_some() {
            let content = HookContent::Issue { action: IssueAction::Labeled(label.to_owned()), issue };
            events.push(self.event(labeled_by, content));
        }
        events
    }

    /// Ends the poll. Without a change, the next poll reads from the same time.
    pub(crate) fn end(self, events: Vec<HookEvent>, position: Position) -> Result<Polled, ForgeError> {
        // A tag belongs to an address, which has the time.
        let tag = position.tag.filter(|_| position.since == self.before.since);
        let position = Position { since: position.since.or(Some(self.since + self.overlap)), tag, ..position };
        let cost = Cost { requests: self.requests.into_inner(), charged: self.charged.into_inner() };
        let text = serde_json::to_string(&position).map_err(|error| ForgeError::Unclear(error.to_string()))?;
        Ok(Polled { events, cursor: Cursor(text), cost, quota: self.http.quota() })
    }
}

impl Position {
    /// Moves the position back to the time of a change, because later ones were not read.
    pub(crate) fn stop_at(&mut self, updated: &str) {
        if let Ok(updated) = updated.parse::<Timestamp>() {
            self.since = self.since.map(|since| since.min(updated));
        }
    }

    /// Moves the position to the time of a change.
    pub(crate) fn advance(&mut self, updated: &str) {
        if let Ok(updated) = updated.parse::<Timestamp>() {
            self.since = Some(self.since.map_or(updated, |since| since.max(updated)));
        }
    }
}

/// Writes a time in whole seconds, as `2026-11-21T01:25:30Z`.
pub(crate) fn seconds(at: Timestamp) -> String {
    let text = Timestamp::from_micros(at.as_micros().div_euclid(1_000_000) * 1_000_000).to_string();
    text.replace(".000", "")
}

/// Returns whether a time, as the host writes it, is not before another one. A time that cannot be read counts as new.
pub(crate) fn is_since(text: &str, since: Timestamp) -> bool {
    text.parse::<Timestamp>().map_or(true, |at| at >= since)
}

/// Returns the event of a pull request whose state or newest commit is not that of the index.
pub(crate) fn pull_changed(watched: &WatchedPull, state: PullState, head_sha: Option<Sha>) -> Option<HookContent> {
    let has_moved = state == PullState::Open && head_sha.is_some() && head_sha != watched.head_sha;
    (state != watched.state || has_moved).then(|| HookContent::Pull {
        number: watched.number,
        state,
        head: watched.head.clone(),
        head_sha,
    })
}
