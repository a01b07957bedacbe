//! The stream that keeps a job's page up to date: `turbo-stream` elements in server-sent events. The ID of an event is
//! the sequence number of the last log entry that it covers, so a browser that reconnects continues after that entry.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use journeyman_core::ids::MessageId;
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::MessageStatus;
use serde::Deserialize;

use super::block::{BlockContext, Steps, render_with};
use super::messages_and_runs::MessagesAndRuns;
use super::now::{Now, Silence};
use super::plan::plan_before;
use super::thread::render_fold;
use super::update::{Change, Streams, divided};
use super::{InJob, base, head, outcome};
use crate::Shared;
use crate::conversation::{Block, Fold, Kind, Section, Touched};
use crate::failure::Failure;
use crate::fragment::Fragment;
use crate::highlight::Budget;
use crate::pages::follow::{self, Admitted, Follow};
use crate::streams::LastEventId;

/// The maximum number of log entries that are read again when a browser connects, to restore the blocks of its page.
const MAX_REPLAYED: u64 = 20_000;

/// The number of log entries that are read at a time.
const BATCH: usize = 1000;

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
    last: LastEventId,
) -> Response {
    let Some(admitted) = follow::admit(&at, &last, query.after) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    match Live::new(shared, at.clone(), query.from, admitted).await {
        Ok(live) => follow::respond(live),
        Err(failure) => failure.page(&at),
    }
}

struct Live {
    shared: Shared,
    at: InJob,
    fold: Fold,
    log: Follow,
    history: Arc<MessagesAndRuns>,
    /// The status of each receipt that was sent. Initially empty: the receipts on the page are not known, because the
    /// page may have been rendered before the latest entries.
    sent: HashMap<MessageId, MessageStatus>,
    /// The line that was sent last.
    now: Now,
    /// The part about the base of the pull request that was sent last, if there was one.
    base: Option<Fragment>,
    /// The ID of the section that was folded last, and the number of its first block that is not folded.
    folded: (String, u64),
    /// Events that are sent before the next entries are read.
    pending: VecDeque<Event>,
}

/// Returns the ID of a section, and the number of its first block that is not folded; 0 if there is none.
fn boundary(section: &Section<'_>) -> (String, u64) {
    (section.fold_id(), section.rest.get(section.folded(false)).map_or(0, |block| block.seq))
}

impl Live {
    /// Creates a stream for a page. Folds the log entries on the page without sending them.
    async fn new(shared: Shared, at: InJob, from: u64, admitted: Admitted) -> Result<Self, Failure> {
        let after = admitted.after;
        let from = from.max(at.job.numbering.back(after, MAX_REPLAYED));
        let mut fold = Fold::default();
        let history = Arc::new(MessagesAndRuns::read(&shared, at.job.id).await?);
        fold.begin_with(plan_before(&shared, &history, at.job.id, from).await?);
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
        let log = Follow::new(&at, admitted, at.job.id);
        let folded = fold.sections().last().map(boundary).unwrap_or_default();
        let (sent, now, pending) = (HashMap::new(), Now::default(), VecDeque::new());
        let mut live = Self { shared, at, fold, log, history, sent, now, base: None, folded, pending };
        // The page may have been rendered before the pull request was compared.
        if live.at.job.pull.is_some() {
            let change = live.base().await?;
            let data = change.map(|change| Streams::render_changes(&[change])).transpose()?;
            live.pending.extend(data.map(|data| Event::default().data(data)));
        }
        Ok(live)
    }

    /// Renders the changes that these log entries cause on the page, as the data of one or more events.
    async fn update(&mut self, entries: &[LogEntry]) -> Result<Vec<String>, Failure> {
        // Times in an update are relative to the time at which it is sent.
        self.at.at.frame.now = self.shared.services.clock.now();
        let (mut touched, mut has_plan) = (BTreeMap::new(), false);
        for entry in entries {
            for one in self.fold.add(entry) {
                match one {
                    Touched::New(seq) => {
                        touched.insert(seq, true);
                    }
                    Touched::Changed(seq) => {
                        touched.entry(seq).or_insert(false);
                    }
                    Touched::Plan => has_plan = true,
                }
            }
        }
        let is_job_affected = entries.iter().any(|entry| affects_job(&entry.kind));
        if is_job_affected {
            self.read_job().await?;
        }
        let blocks: Vec<(Block, bool)> =
            touched.into_iter().filter_map(|(seq, is_new)| Some((self.fold.block(seq)?.clone(), is_new))).collect();
        let mut changes = self.blocks(blocks).await?;
        changes.extend(self.middle()?);
        if is_job_affected {
            changes.extend(self.receipts().await?);
            changes.push(Change::replace("job-outcome", self.outcome().await?));
            changes.extend(self.base().await?);
        }
        if is_job_affected || has_plan {
            let parts = head::parts_with(&self.shared, &self.at, &self.history, self.fold.plan()).await?;
            for (target, content) in [
                ("job-head", parts.head),
                ("count-changes", parts.changes),
                ("count-runs", parts.runs),
                ("job-side", parts.side),
                ("job-brief", parts.brief),
                ("job-queue", parts.queue),
            ] {
                changes.push(Change::replace(target, content));
            }
        }
        changes.extend(self.now().await?);
        self.fold.keep(MAX_BLOCKS);
        if entries.iter().any(|entry| matches!(entry.kind.as_str(), "job.archived" | "job.unarchived")) {
            return Ok(vec![Streams::refresh()?]);
        }
        let mut parts = divided(&changes);
        if parts.is_empty() {
            // The browser must learn the number of the last entry.
            parts.push(&[]);
        }
        let render = |changes| Streams::render_changes(changes).map_err(Failure::from);
        parts.into_iter().map(render).collect()
    }

    /// Renders changes without an entry in the log: the silence of a worker that has died, and a new comparison with the
    /// base.
    async fn quiet(&mut self) -> Result<Option<String>, Failure> {
        self.at.at.frame.now = self.shared.services.clock.now();
        let changes: Vec<Change> = [self.now().await?, self.base().await?].into_iter().flatten().collect();
        match changes.is_empty() {
            true => Ok(None),
            false => Ok(Some(Streams::render_changes(&changes)?)),
        }
    }

    /// Returns the change of the part about the base, if it differs from what was last sent.
    async fn base(&mut self) -> Result<Option<Change>, Failure> {
        let base = base::render(&self.at).await?;
        if self.base.as_ref() == Some(&base) {
            return Ok(None);
        }
        self.base = Some(base.clone());
        Ok(Some(Change::replace("job-base", base)))
    }

    /// Returns the change of the line about the current step, if it differs from the line that was last sent.
    async fn now(&mut self) -> Result<Option<Change>, Failure> {
        let silence = self.silence().await?;
        let now = Now::of(&self.at, &self.history, &self.fold, silence);
        if now == self.now {
            return Ok(None);
        }
        let change = Change::replace("job-now", now.render(&self.at)?);
        self.now = now;
        Ok(Some(change))
    }

    /// Returns the silence of the worker. The log has no entries about heartbeats, so the job is read again if the known
    /// lease has ended.
    async fn silence(&mut self) -> Result<Option<Silence>, Failure> {
        let now = self.at.now;
        let Some(run) = self.at.job.lease().filter(|_| self.at.job.is_due(now)).map(|lease| lease.run) else {
            return Ok(None);
        };
        let job = self.shared.services.store.job(self.at.job.id).await?;
        // If the run has ended, entries about it follow.
        let Some(job) = job.filter(|job| job.lease().is_some_and(|lease| lease.run == run)) else { return Ok(None) };
        self.at.job = job;
        Ok(Silence::of(&self.shared, &self.at.job, &self.history, &self.fold, now).await?)
    }

    async fn read_job(&mut self) -> Result<(), Failure> {
        if let Some(job) = self.shared.services.store.job(self.at.job.id).await? {
            self.at.job = job;
        }
        self.history = Arc::new(MessagesAndRuns::read(&self.shared, self.at.job.id).await?);
        Ok(())
    }

    async fn blocks(&self, blocks: Vec<(Block, bool)>) -> Result<Vec<Change>, Failure> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let (at, history, highlighter) = (self.at.clone(), Arc::clone(&self.history), self.shared.highlighter.clone());
        let steps: HashMap<u64, usize> = self.steps();
        let rendered = tokio::task::spawn_blocking(move || {
            let mut budget = Budget::page();
            let context = BlockContext { at: &at, history: &history, has_outcome: true, highlighter: &highlighter };
            let change = |(block, is_new): (Block, bool)| {
                let steps = steps.get(&block.seq).map(|count| Steps { count: *count, fold: None });
                let content = render_with(&context, &block, steps, &mut budget)?;
                Ok(if is_new { Change::Append(content) } else { Change::replace(&block.id(), content) })
            };
            blocks.into_iter().map(change).collect()
        });
        let changes: askama::Result<Vec<Change>> =
            rendered.await.map_err(|error| Failure::Render(error.to_string()))?;
        Ok(changes?)
    }

    /// Returns the number of steps of each message whose block is known, by the number of the block.
    fn steps(&self) -> HashMap<u64, usize> {
        let count = |section: Section<'_>| Some((section.head?.seq, section.summary(section.rest.len()).steps));
        self.fold.sections().into_iter().filter_map(count).collect()
    }

    /// Folds the middle of the last section, if more of its blocks belong there than before.
    fn middle(&mut self) -> Result<Option<Change>, Failure> {
        let sections = self.fold.sections();
        let Some(section) = sections.last() else { return Ok(None) };
        let count = section.folded(false);
        let (before, folded) = (section.rest.get(count), boundary(section));
        let Some(before) = before.filter(|_| count > 0 && folded != self.folded) else { return Ok(None) };
        let change = Change::Fold {
            target: section.fold_id(),
            after: section.head.map(Block::id).unwrap_or_default(),
            before: before.id(),
            content: render_fold(section, count)?,
        };
        self.folded = folded;
        Ok(Some(change))
    }

    async fn outcome(&self) -> Result<Fragment, Failure> {
        let hold = self.shared.services.store.holds().await?.remove(&self.at.job.project);
        let (at, history, highlighter) = (self.at.clone(), Arc::clone(&self.history), self.shared.highlighter.clone());
        let rendered = tokio::task::spawn_blocking(move || {
            outcome::render(&at, &history, hold.as_ref(), &highlighter, &mut Budget::page())
        });
        Ok(rendered.await.map_err(|error| Failure::Render(error.to_string()))??)
    }

    /// Renders the receipts whose status differs from the one that was sent.
    async fn receipts(&mut self) -> Result<Vec<Change>, Failure> {
        let changed: Vec<(MessageId, MessageStatus)> = (self.history.messages.iter())
            .filter(|message| self.sent.get(&message.id) != Some(&message.status))
            .map(|message| (message.id, message.status))
            .collect();
        let known: HashMap<MessageId, u64> = (self.fold.blocks())
            .filter_map(|block| match &block.kind {
                Kind::Turn(id) => Some((*id, block.seq)),
                _ => None,
            })
            .collect();
        let blocks = changed.iter().filter_map(|(id, _)| {
            let at = self.history.message(*id)?.1.delivered_at?;
            Some((Block { seq: known.get(id).copied().unwrap_or(0), at, kind: Kind::Turn(*id) }, false))
        });
        let changes = self.blocks(blocks.collect()).await?;
        self.sent.extend(changed);
        Ok(changes)
    }
}

impl follow::Live for Live {
    async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.pending.pop_front() {
            tokio::time::sleep(PAUSE).await;
            return Some(event);
        }
        let entries = self.log.next().await?;
        let warn = |error: &Failure| tracing::warn!(%error, "the live updates of a job's page failed");
        let Some(last) = entries.last().map(|entry| entry.seq) else {
            let quiet = || Event::default().comment("still here");
            return Some(
                self.quiet().await.inspect_err(warn).ok()?.map_or_else(quiet, |data| Event::default().data(data)),
            );
        };
        let update = self.update(&entries).await;
        let mut events: VecDeque<Event> =
            update.inspect_err(warn).ok()?.into_iter().map(|data| Event::default().data(data)).collect();
        // A browser that reconnects before it has received all of them gets them again.
        let whole = events.pop_back()?;
        events.push_back(whole.id(last.to_string()));
        // Each event contains the whole of a growing text. At most ten events per second are sent, which is enough to
        // read along.
        tokio::time::sleep(PAUSE).await;
        self.pending = events;
        self.pending.pop_front()
    }
}

/// Returns true if entries of this kind may change other parts of the page than the conversation.
fn affects_job(kind: &str) -> bool {
    ["job.", "message.", "run.", "commit.", "pull_request.", "checks."].iter().any(|prefix| kind.starts_with(prefix))
}
