//! The line above the message field that says what happens now.

use askama::Template;
use journeyman_core::job::{JobState, Progress, Work};
use journeyman_core::time::Timestamp;

use super::InJob;
use super::talk::Talk;
use crate::conversation::Fold;
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::{visible, words};

/// The line; it is hidden while the job is inactive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Now {
    /// The class of the mark; empty if the job is inactive.
    mark: &'static str,
    text: String,
    /// True if the text is a command or the title of a tool call.
    is_code: bool,
    since: Option<Timestamp>,
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
    pub(super) fn of(at: &InJob, talk: &Talk, fold: &Fold) -> Self {
        let JobState::Active(work) = &at.job.state else { return Self::default() };
        let waits = |text: &str, since| Self { mark: "queued", text: text.to_owned(), since, ..Self::default() };
        let in_flight = match work {
            Work::Waiting => return waits("Waiting for a slot", Some(at.job.waiting_since)),
            Work::Retrying { .. } => return waits("Waiting to retry", None),
            Work::Running { in_flight, .. } => in_flight,
        };
        let last = fold.blocks().next_back().map(|block| block.at);
        let begun = talk.running().map(|run| run.started_at);
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
        let plan = fold.plan().and_then(|plan| {
            let (number, step) = plan.current()?;
            Some((visible::line(&step.text).into_owned(), number, plan.steps.len()))
        });
        Self { plan, ..now }
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
}
