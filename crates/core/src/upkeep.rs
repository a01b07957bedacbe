//! Keeps pull requests up to date with the branch that they are merged into, if the project wants it
//! ([`KeepUpToDate`](crate::project::KeepUpToDate)).
//!
//! 1. The service compares the open pull requests of the project from time to time ([`crate::ports::Standings`]).
//! 2. One that conflicts, or is behind, becomes an automatic message to its job, once for each pair of commits, unless
//!    a rule stops it ([`UpkeepStop`]). The decision is made on the job as it is stored ([`JobUpkeep`]).
//! 3. The agent merges the base, and the push updates the pull request.

use serde::{Deserialize, Serialize};

use crate::ids::Sha;
use crate::job::command::PullRef;
use crate::job::{Job, JobState};
use crate::message::NewMessage;
use crate::pull::PullState;
use crate::pull::standing::Standing;
use crate::run::ReasonCode;
use crate::time::{Timestamp, micros};

/// The reason why the service does not ask a job to update its pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpkeepStop {
    /// The limit of automatic messages in a day is used up.
    DailyLimit,
    /// The job failed after the last such message, and no person has written since.
    LastFailed,
    /// A reason that a newer version has stored.
    #[serde(other)]
    Unknown,
}

impl UpkeepStop {
    /// Returns the reason, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::DailyLimit => "the limit of automatic messages in a day is used up",
            Self::LastFailed => "my last attempt to do so failed",
            Self::Unknown => "a rule of another version of the service prevents it",
        }
    }
}

/// The upkeep of a job's pull request, as far as decisions depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobUpkeep {
    /// The newest commit of the base at the last decision.
    pub base: Sha,
    /// The newest commit of the pull request at the last decision.
    pub head: Sha,
    /// The reason why no message was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<UpkeepStop>,
    /// `true` if a message was sent, and no person has written since.
    #[serde(default)]
    pub asked: bool,
    /// The times of the messages of the last day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub automatic: Vec<Timestamp>,
    /// The time of the last decision.
    #[serde(with = "micros")]
    pub at: Timestamp,
}

/// A pull request that is to be updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpkeepReport {
    /// The pull request.
    pub pull: PullRef,
    /// How it stands to its base.
    pub standing: Standing,
    /// The message to the job.
    pub message: NewMessage,
    /// The maximum number of automatic messages in a day.
    pub most_per_day: u32,
}

/// What follows from the standing of a job's pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing: it has ended, the job works or is archived, a person has canceled it, or the decision is made already.
    Nothing,
    /// The job would be asked, but for this reason it is not.
    Stop(UpkeepStop),
    /// The job is asked.
    Ask,
}

/// Decides what follows from the standing of a job's pull request, which needs an update.
#[must_use]
pub fn upkeep(job: &Job, pull: &PullRef, standing: &Standing, most_per_day: u32, now: Timestamp) -> Upkeep {
    let is_open = |known: &&crate::job::Pull| known.state == PullState::Open && !known.is_untouched && pull.is(known);
    let has_failed = match &job.state {
        JobState::Completed => false,
        JobState::Failed(reason) if reason.code != ReasonCode::Cancelled => true,
        JobState::Failed(_) | JobState::Active(_) | JobState::Archived { .. } => return Upkeep::Nothing,
    };
    if job.pull.as_ref().filter(is_open).is_none() {
        return Upkeep::Nothing;
    }
    let known = job.upkeep.as_deref();
    let is_asked =
        |known: &JobUpkeep| known.stop.is_none() && known.base == standing.base_sha && known.head == standing.head_sha;
    if known.is_some_and(is_asked) {
        return Upkeep::Nothing;
    }
    let stop = if has_failed && known.is_some_and(|known| known.asked) {
        UpkeepStop::LastFailed
    } else if job.automatic_messages(now) >= usize::try_from(most_per_day).unwrap_or(usize::MAX) {
        UpkeepStop::DailyLimit
    } else {
        return Upkeep::Ask;
    };
    // It is told once, not with every commit of the base.
    if known.is_some_and(|known| known.stop == Some(stop)) { Upkeep::Nothing } else { Upkeep::Stop(stop) }
}

/// Records a decision: that a message was sent, or why not.
pub(crate) fn decided(job: &Job, standing: &Standing, stop: Option<UpkeepStop>, now: Timestamp) -> JobUpkeep {
    let known = job.upkeep.as_deref();
    let mut automatic: Vec<Timestamp> = known.map(|known| known.automatic.clone()).unwrap_or_default();
    automatic.retain(|at| crate::checks::is_in_day(*at, now));
    if stop.is_none() {
        // The stored times have milliseconds.
        automatic.push(now.start_of_millisecond());
    }
    JobUpkeep {
        base: standing.base_sha.clone(),
        head: standing.head_sha.clone(),
        stop,
        asked: stop.is_none() || known.is_some_and(|known| known.asked),
        automatic,
        at: now,
    }
}

/// Returns the marker of the comment about a pull request that is not updated, by which a repeated attempt finds it.
#[must_use]
pub fn report_marker(upkeep: &JobUpkeep) -> String {
    format!("<!-- journeyman:upkeep:{}:{} -->", upkeep.base, upkeep.head)
}

/// Returns the comment that says why the pull request is not updated; `None` if it is. `url` is the page of the job.
#[must_use]
pub fn report(upkeep: &JobUpkeep, url: &str) -> Option<String> {
    let stop = upkeep.stop?;
    Some(format!(
        "⏹️ This pull request should be updated with its base branch, and I do not do it: {}.\n\nMention me with what to \
         do, if I should continue.\n\n[Job]({url})",
        stop.text()
    ))
}
