//! The stream that keeps a job's page up to date: `turbo-stream` elements in server-sent events. The ID of an event is
//! the sequence number of the last log entry that it covers, so a browser that reconnects continues after that entry.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use futures::stream::unfold;
use journeyman_core::ids::MessageId;
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::MessageStatus;
use journeyman_core::time::Timestamp;
use serde::Deserialize;

use super::block::{self, Messages};
use super::{InJob, head};
use crate::conversation::{Block, Fold, Kind, Touched};
use crate::failure::Failure;
use crate::fragment::Fragment;
use crate::highlight::Budget;
use crate::log_tail::{LogTail, Tail};
use crate::streams::Stream as Open;
use crate::{Shared, session};

/// The maximum number of log entries that are read again when a browser connects, to restore the blocks of its page.
const MAX_REPLAYED: u64 = 20_000;

/// The number of log entries that are read at a time.
const BATCH: usize = 1000;

/// The interval between checks of the viewer's session.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The pause after each event.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of blocks that a stream keeps in memory, because they may still change.
const MAX_BLOCKS: usize = 500;

#[derive(Deserialize)]
pub(super) struct LiveQuery {
    /// The sequence number of the log entry after which the page begins.
    from: u64,
    /// The sequence number of the last log entry on the page.
    after: u64,
}

/// Returns the URL of the stream for a page with the log entries after `from` up to and including `after`.
pub(super) fn address(at: &InJob, from: u64, after: u64) -> String {
    at.page(&format!("/live?from={from}&after={after}"))
}

pub(super) async fn stream(
    State(shared): State<Shared>,
    at: InJob,
    Query(query): Query<LiveQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(open) = shared.streams.open(at.viewer.user.id) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let seen = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let after = seen.unwrap_or(query.after).max(query.after).min(i64::MAX as u64);
    let from = query.from.max(after.saturating_sub(MAX_REPLAYED));
    let live = match Live::new((shared, open), at.clone(), from, after).await {
        Ok(live) => live,
        Err(failure) => return failure.page(&at),
    };
    ([("x-accel-buffering", "no")], Sse::new(events(live))).into_response()
}

fn events(live: Live) -> impl Stream<Item = Result<Event, Infallible>> {
    unfold(live, |mut live| async move {
        let event = live.next().await?;
        Some((Ok(event), live))
    })
}

struct Live {
    shared: Shared,
    at: InJob,
    fold: Fold,
    tail: Box<dyn LogTail>,
    messages: Messages,
    /// The status of each receipt that was sent. Initially empty: the receipts on the page are not known, because the
    /// page may have been rendered before the latest entries.
    sent: HashMap<MessageId, MessageStatus>,
    /// The time of the last successful check of the viewer's session.
    checked: Timestamp,
    _open: Open,
}

#[derive(Template)]
#[template(path = "_streams.html")]
struct Streams {
    refresh: bool,
    changes: Vec<Change>,
}

/// An element that is appended to the conversation, or that replaces another element.
struct Change {
    is_new: bool,
    target: String,
    content: Fragment,
}

impl Change {
    fn replace(target: &str, content: Fragment) -> Self {
        Self { is_new: false, target: target.to_owned(), content }
    }
}

impl Live {
    /// Creates a stream for a page. Folds the log entries on the page without sending them.
    async fn new((shared, open): (Shared, Open), at: InJob, from: u64, after: u64) -> Result<Self, Failure> {
        let mut fold = Fold::default();
        let mut read = from;
        while read < after {
            let entries = shared.services.store.log(at.job.id, read, BATCH).await?;
            read = match entries.last() {
                Some(last) => last.seq,
                None => break,
            };
            for entry in entries.iter().filter(|entry| entry.seq <= after) {
                fold.add(entry);
            }
            fold.keep(MAX_BLOCKS);
            // Lets other tasks run.
            tokio::task::yield_now().await;
        }
        let tail = shared.services.tails.tail(at.job.id, after);
        let checked = shared.services.clock.now();
        let (messages, sent) = (Messages::new(), HashMap::new());
        let mut live = Self { shared, at, fold, tail, messages, sent, checked, _open: open };
        live.read_messages().await?;
        Ok(live)
    }

    async fn read_messages(&mut self) -> Result<(), Failure> {
        let messages = self.shared.services.store.messages(self.at.job.id).await?;
        self.messages = messages.into_iter().map(|message| (message.id, message)).collect();
        Ok(())
    }

    async fn next(&mut self) -> Option<Event> {
        let tail = self.tail.next().await;
        let now = self.shared.services.clock.now();
        if matches!(tail, Tail::Quiet) || now.since(self.checked) >= CHECK_INTERVAL {
            if !session::still_holds(&self.shared, &self.at.viewer).await {
                return None;
            }
            self.checked = now;
        }
        match tail {
            Tail::News(entries) => {
                let last = entries.last().map(|entry| entry.seq)?;
                let update = self.update(&entries).await;
                let warn = |error: &Failure| tracing::warn!(%error, "the live updates of a job's page failed");
                let event = Event::default().id(last.to_string()).data(update.inspect_err(warn).ok()?);
                // Each event contains the whole of a growing text. At most ten events per second are sent, which is
                // enough to read along.
                tokio::time::sleep(PAUSE).await;
                Some(event)
            }
            Tail::Quiet => Some(Event::default().comment("still here")),
            Tail::Over => None,
        }
    }

    /// Renders the changes that these log entries cause on the page.
    async fn update(&mut self, entries: &[LogEntry]) -> Result<String, Failure> {
        let mut touched = BTreeMap::new();
        for entry in entries {
            match self.fold.add(entry) {
                Touched::New(seq) => {
                    touched.insert(seq, true);
                }
                Touched::Changed(seq) => {
                    touched.entry(seq).or_insert(false);
                }
                Touched::Nothing => {}
            }
        }
        let mut changes = Vec::new();
        let is_job_affected = entries.iter().any(|entry| affects_job(&entry.kind));
        if is_job_affected {
            self.read_job().await?;
        }
        let blocks: Vec<(Block, bool)> =
            touched.into_iter().filter_map(|(seq, is_new)| Some((self.fold.block(seq)?.clone(), is_new))).collect();
        changes.extend(self.blocks(blocks).await?);
        if is_job_affected {
            changes.extend(self.receipts().await?);
            let messages: Vec<_> = self.ordered();
            let parts = head::parts(&self.shared, &self.at, &messages).await?;
            changes.push(Change::replace("job-head", parts.head));
            changes.push(Change::replace("job-side", parts.side));
            changes.push(Change::replace("job-queue", parts.queue));
        }
        self.fold.keep(MAX_BLOCKS);
        let refresh = entries.iter().any(|entry| matches!(entry.kind.as_str(), "job.archived" | "job.unarchived"));
        Ok(Streams { refresh, changes }.render()?)
    }

    async fn read_job(&mut self) -> Result<(), Failure> {
        if let Some(job) = self.shared.services.store.job(self.at.job.id).await? {
            self.at.job = job;
        }
        // Times in an update are relative to the time at which it is sent.
        self.at.at.frame.now = self.shared.services.clock.now();
        self.read_messages().await
    }

    fn ordered(&self) -> Vec<journeyman_core::message::Message> {
        let mut all: Vec<_> = self.messages.values().cloned().collect();
        all.sort_by_key(|message| (message.created_at, message.id));
        all
    }

    async fn blocks(&self, blocks: Vec<(Block, bool)>) -> Result<Vec<Change>, Failure> {
        let (at, messages, highlighter) = (self.at.clone(), self.messages.clone(), self.shared.highlighter.clone());
        let rendered = tokio::task::spawn_blocking(move || {
            let mut budget = Budget::page();
            let change = |(block, is_new): (Block, bool)| {
                let content = block::render(&at, &block, &messages, &highlighter, &mut budget)?;
                let target = if is_new { "thread".to_owned() } else { block.id() };
                Ok(Change { is_new, target, content })
            };
            blocks.into_iter().map(change).collect()
        });
        let changes: askama::Result<Vec<Change>> =
            rendered.await.map_err(|error| Failure::Render(error.to_string()))?;
        Ok(changes?)
    }

    /// Renders the receipts whose status differs from the one that was sent.
    async fn receipts(&mut self) -> Result<Vec<Change>, Failure> {
        let changed: Vec<MessageId> = self
            .messages
            .values()
            .filter(|message| self.sent.get(&message.id) != Some(&message.status))
            .map(|message| message.id)
            .collect();
        let blocks = changed.iter().filter_map(|id| {
            let message = self.messages.get(id)?;
            let at = message.delivered_at?;
            Some((Block { seq: 0, at, kind: Kind::Turn(*id) }, false))
        });
        let changes = self.blocks(blocks.collect()).await?;
        for id in changed {
            if let Some(message) = self.messages.get(&id) {
                self.sent.insert(id, message.status);
            }
        }
        Ok(changes)
    }
}

/// Returns true if entries of this kind may change other parts of the page than the conversation.
fn affects_job(kind: &str) -> bool {
    ["job.", "message.", "run.", "commit.", "pull_request.", "checks."].iter().any(|prefix| kind.starts_with(prefix))
}
