//! The line above the message field that says what happens now.

use std::time::Duration;

use askama::Template;
use journeyman_core::job::{Job, JobState, Progress, Work};
use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;

use super::InJob;
use super::messages_and_runs::MessagesAndRuns;
use crate::conversation::Fold;
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::{Shared, visible, words};

/// The time after the end of a lease at which its run counts as given up, although no worker has taken it over.
const GIVEN_UP: Duration = Duration::from_secs(120);

/// A worker that no longer renews the lease of the current run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Silence {
    /// The time at which the worker was last known to work, by its reports and the log.
    since: Timestamp,
    /// True if the run counts as given up.
    is_long: bool,
}

impl Silence {
    /// Returns the silence of the worker that carries out the current run; `None` while its lease is valid.
    pub(super) async fn of(
        shared: &Shared,
        job: &Job,
        history: &MessagesAndRuns,
        fold: &Fold,
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        let Some(lease) = job.lease().filter(|_| job.is_due(now)) else { return Ok(None) };
        let workers = shared.services.store.workers().await?;
        let reported = workers.iter().find(|report| report.id == lease.worker).map(|report| report.seen_at);
        let last = fold.blocks().next_back().map(|block| block.at);
        let sign = reported.max(last).max(history.running().map(|run| run.started_at));
        // A process can report itself although it has lost a run.
        let since = sign.unwrap_or(lease.until).min(lease.until).min(now);
        Ok(Some(Self { since, is_long: now.since(lease.until) >= GIVEN_UP }))
    }
}

/// The line; it is hidden while the job is inactive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Now {
    /// The class of the mark; empty if the job is inactive.
    mark: &'static str,
    text: String,
    /// True if the text is a command or the title of a tool call.
    is_code: bool,
    since: Option<Timestamp>,
    /// The time at which a silent worker was last known to work. The text ends with the time since then.
    silent_since: Option<Timestamp>,
    /// The current step of the plan, with its number and the number of all steps.
    plan: Option<(String, usize, usize)>,
}

#[derive(Template)]
#[template(path = "_job_now.html")]
struct NowView<'a> {
    frame: &'a Frame,
    now: &'a Now,
}

impl Now {
    /// Returns what the job does now.
    pub(super) fn of(at: &InJob, history: &MessagesAndRuns, fold: &Fold, silence: Option<Silence>) -> Self {
        let JobState::Active(work) = &at.job.state else { return Self::default() };
        let waits = |text: &str, since| Self { mark: "queued", text: text.to_owned(), since, ..Self::default() };
        let in_flight = match work {
            Work::Waiting => return waits("Waiting for a slot", Some(at.job.waiting_since)),
            Work::Retrying { .. } => return waits("Waiting to retry", None),
            Work::Running { in_flight, .. } => in_flight,
        };
        let plan = fold.plan().and_then(|plan| {
            let (number, step) = plan.current()?;
            Some((visible::line(&step.text).into_owned(), number, plan.steps.len()))
        });
        if let Some(silence) = silence {
            return Self { plan, ..Self::silent(silence) };
        }
        let last = fold.blocks().next_back().map(|block| block.at);
        let begun = history.running().map(|run| run.started_at);
        // What the log had before the run is over.
        let since = last.max(begun).filter(|_| begun.is_some());
        let works = |text: &str, since| Self { mark: "in_progress", text: text.to_owned(), since, ..Self::default() };
        let now = match fold.open_tool() {
            _ if matches!(in_flight.progress, Progress::Publishing { .. }) => works("Publishing the commits", since),
            _ if in_flight.stop => works("Stopping", since),
            Some(tool) => Self { is_code: true, ..works(&visible::line(&tool.title), Some(tool.began)) },
            None if last.is_none_or(|last| begun.is_some_and(|begun| last <= begun)) => works("Starting", begun),
            None => works("Thinking", since),
        };
        Self { plan, ..now }
    }

    /// Returns the line of a run whose worker is silent. Its mark does not turn.
    fn silent(silence: Silence) -> Self {
        let mark = if silence.is_long { "stopped" } else { "lost" };
        let text = "No sign of the worker for".to_owned();
        Self { mark, text, silent_since: Some(silence.since), ..Self::default() }
    }

    /// Renders the line.
    pub(super) fn render(&self, frame: &Frame) -> askama::Result<Fragment> {
        Fragment::of(&NowView { frame, now: self })
    }

    fn is_hidden(&self) -> bool {
        self.mark.is_empty()
    }
}

/// Methods that the template calls.
impl NowView<'_> {
    fn clock(&self, since: &Timestamp) -> String {
        words::clock(self.frame.now.since(*since))
    }

    fn elapsed(&self, since: &Timestamp) -> String {
        words::elapsed(self.frame.now.since(*since))
    }
}
