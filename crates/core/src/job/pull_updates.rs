//! Keeps pull requests up to date with the branch that they are merged into, if the project wants it
//! ([`KeepUpToDate`](crate::project::KeepUpToDate)).
//!
//! 1. The service compares the open pull requests of the project from time to time ([`crate::ports::BaseComparisons`]).
//! 2. One that conflicts, or is behind, becomes an automatic message to its job, once for each pair of commits, unless
//!    a rule stops it ([`UpdateStop`]). The decision is made on the job as it is stored ([`JobUpdates`]).
//! 3. The agent merges the base, and the push updates the pull request.

use crate::code_host::{PullRef, PullState};
use crate::job::updates::{JobUpdates, UpdateStop};
use crate::job::{Job, JobState};
use crate::message::NewMessage;
use crate::pull::base_comparison::BaseComparison;
use crate::run::ReasonCode;
use crate::time::Timestamp;

/// A pull request that is to be updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutdatedPull {
    /// The pull request.
    pub pull: PullRef,
    /// How it compares with its base.
    pub comparison: BaseComparison,
    /// The message to the job.
    pub message: NewMessage,
    /// The maximum number of automatic messages in a day.
    pub most_per_day: u32,
}

/// What follows from the comparison of a job's pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateDecision {
    /// Nothing: it has ended, the job works or is archived, a person has canceled it, or the decision is made already.
    Nothing,
    /// The job would be asked, but for this reason it is not.
    Stop(UpdateStop),
    /// The job is asked.
    Ask,
}

/// Decides what follows from the comparison of a job's pull request, which needs an update.
#[must_use]
pub fn decide_update(
    job: &Job,
    pull: &PullRef,
    comparison: &BaseComparison,
    most_per_day: u32,
    now: Timestamp,
) -> UpdateDecision {
    let is_open = |known: &&crate::pull::Pull| known.state == PullState::Open && !known.is_untouched && known.is(pull);
    let has_failed = match &job.state {
        JobState::Completed => false,
        JobState::Failed(reason) if reason.code != ReasonCode::Cancelled => true,
        JobState::Failed(_) | JobState::Active(_) | JobState::Archived { .. } => return UpdateDecision::Nothing,
    };
    if job.pull.as_ref().filter(is_open).is_none() {
        return UpdateDecision::Nothing;
    }
    let known = job.updates.as_deref();
    let is_asked = |known: &JobUpdates| {
        known.stop.is_none() && known.base == comparison.base_sha && known.head == comparison.head_sha
    };
    if known.is_some_and(is_asked) {
        return UpdateDecision::Nothing;
    }
    let stop = if has_failed && known.is_some_and(|known| known.asked) {
        UpdateStop::LastFailed
    } else if job.automatic_messages(now) >= usize::try_from(most_per_day).unwrap_or(usize::MAX) {
        UpdateStop::DailyLimit
    } else {
        return UpdateDecision::Ask;
    };
    // It is told once, not with every commit of the base.
    if known.is_some_and(|known| known.stop == Some(stop)) {
        UpdateDecision::Nothing
    } else {
        UpdateDecision::Stop(stop)
    }
}

/// Records a decision: that a message was sent, or why not.
pub(crate) fn decided(job: &Job, comparison: &BaseComparison, stop: Option<UpdateStop>, now: Timestamp) -> JobUpdates {
    let known = job.updates.as_deref();
    let mut automatic: Vec<Timestamp> = known.map(|known| known.automatic.clone()).unwrap_or_default();
    automatic.retain(|at| crate::checks::is_in_day(*at, now));
    if stop.is_none() {
        // The stored times have milliseconds.
        automatic.push(now.start_of_millisecond());
    }
    JobUpdates {
        base: comparison.base_sha.clone(),
        head: comparison.head_sha.clone(),
        stop,
        asked: stop.is_none() || known.is_some_and(|known| known.asked),
        automatic,
        at: now,
    }
}

/// Returns the marker of the comment about a pull request that is not updated, by which a repeated attempt finds it.
#[must_use]
pub fn report_marker(updates: &JobUpdates) -> String {
    format!("<!-- journeyman:update:{}:{} -->", updates.base, updates.head)
}

/// Returns the comment that says why the pull request is not updated; `None` if it is. `url` is the page of the job.
#[must_use]
pub fn report(updates: &JobUpdates, url: &str) -> Option<String> {
    let stop = updates.stop?;
    Some(format!(
        "⏹️ This pull request should be updated with its base branch, and I do not do it: {}.\n\nMention me with what to \
         do, if I should continue.\n\n[Job]({url})",
        stop.text()
    ))
}
