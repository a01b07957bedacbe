//! Jobs. A job is work on one branch; commands and events change its state.
//!
//! [`decide::decide`] returns the events that follow from a command, [`apply::apply`] applies an event to the state,
//! and [`change::step`] does both and lists the rows that a store must write. Invariants, checked exhaustively in
//! `tests/job/model.rs`:
//!
//! - an active job has a run, a message that waits for its next attempt, or a queue;
//! - each token is issued once and is greater than those before; only the holder of the newest token may report;
//! - messages leave the queue in order, and each becomes final exactly once.

pub mod apply;
pub mod change;
pub mod command;
pub mod decide;
pub mod effect;
pub mod event;
pub mod feed;
pub mod label;
mod pull;
pub mod pull_updates;
mod state;
pub mod summary;
pub mod turn;
pub mod updates;

use serde::{Deserialize, Serialize};

use crate::branch::branch_name;
use crate::checks::{self, JobChecks};
use crate::diff_stat::DiffStat;
use crate::epoch::{Gap, Numbering, after_gaps};
use crate::ids::{JobId, MessageId, ProjectId, WorkerId};
use crate::job::turn::TurnBegun;
use crate::job::updates::JobUpdates;
use crate::model::Effort;
use crate::pull::Pull;
use crate::pull::existing::ExistingPull;
use crate::pull::reviewed::ReviewedPull;
use crate::retry::{LONGEST_BACKOFF, LONGEST_LEASE};
use crate::time::{Timestamp, micros};

pub use pull::Branch;
pub use state::{Answered, Ended, InFlightMessage, JobState, Lease, Progress, Token, Unpublished, Waiting, Work};

/// The reference of a job that starts from the repository's default branch, until the name of that branch is known.
pub const DEFAULT_BRANCH: &str = "HEAD";

/// The starting point of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The project's repository at the time when the job was created.
    pub repository: String,
    /// A branch, tag, or commit. If the request named none, [`DEFAULT_BRANCH`] until the repository has been read.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// The options of a job that its creator chose in addition to the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// The name of the branch to work on; `None` means a name that is derived from the title.
    pub branch: Option<String>,
    /// `true` if the pull request is a draft; `None` means the project's setting.
    pub draft: Option<bool>,
    /// `true` if the code host is asked to merge the pull request when all requirements are met; `None` means the
    /// project's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_merge: Option<bool>,
    /// The title of the pull request; `None` means the project's template.
    pub title: Option<String>,
    /// `true` if the creator may not let the job write to a branch that no job has made, because the creator's API key has
    /// only the scope `jobs`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_branches_of_jobs: bool,
    /// The existing pull request to work on, instead of opening one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<Box<ExistingPull>>,
    /// The pull request that the job reviews. The job pushes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Box<ReviewedPull>>,
}

impl JobOptions {
    /// Returns whether the creator has chosen the branch, which other jobs may have chosen too.
    #[must_use]
    pub const fn names_branch(&self) -> bool {
        self.branch.is_some() || self.pull.is_some()
    }
}

/// A job. The store keeps it as one JSON document, next to the columns that it searches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The ID of the job.
    pub id: JobId,
    /// The project of the job.
    pub project: ProjectId,
    /// The given title, or the first line of the first prompt, at most 120 characters.
    pub title: String,
    /// The starting point of the job.
    pub source: Source,
    /// The name of the agent that carries out the job.
    pub agent: String,
    /// The model that the agent uses.
    pub model: String,
    /// The effort of the model; `None` means that of the agent's table, or else the model's default. The store keeps it
    /// next to the document, because older versions would drop it.
    #[serde(default, skip_serializing)]
    pub effort: Option<Effort>,
    /// The options that the creator of the job chose.
    pub options: JobOptions,
    /// The time at which the job was accepted.
    #[serde(with = "micros")]
    pub created_at: Timestamp,
    /// The state of the job.
    pub state: JobState,
    /// The time at which the job last entered [`Work::Waiting`]. The jobs that have waited longest are served first.
    #[serde(default, with = "micros")]
    pub waiting_since: Timestamp,
    /// The worker of the last run, which therefore has the workspace.
    #[serde(default, rename = "warm")]
    pub preferred_worker: Option<WorkerId>,
    /// The time at which the job last became inactive, or was archived or unarchived after that.
    #[serde(default)]
    pub settled_at: Option<Timestamp>,
    /// The end of the last message that a run took. It determines the status when nothing is left to do.
    pub last: Option<Ended>,
    /// The queued messages, in the order of delivery.
    pub queue: Vec<MessageId>,
    /// The time at which the last message was accepted. A message that a machine with a slow clock accepts gets this
    /// time too, so that the times of a job's messages never decrease.
    #[serde(default, with = "micros")]
    pub last_message_at: Timestamp,
    /// The current branch; `None` before the first turn.
    pub branch: Option<Branch>,
    /// The size of the change of that branch; `None` if it has no commits, or an older version made them. The store
    /// keeps it next to the document, because older versions would drop it; documents of earlier versions have it.
    #[serde(default, skip_serializing)]
    pub diff: Option<DiffStat>,
    /// The pull request of that branch.
    pub pull: Option<Pull>,
    /// The checks of the newest commit whose checks have finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Box<JobChecks>>,
    /// The last decision about the updates of the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Box<JobUpdates>>,
    /// The agent's session, which the next turn resumes.
    pub session: Option<String>,
    /// The blob with the agent's home as of the end of the last turn.
    #[serde(default)]
    pub archive: Option<String>,
    /// The blob with the commits that are not on the code host yet, if other machines may have to push them.
    #[serde(default)]
    pub bundle: Option<String>,
    /// Messages whose turn ended with commits that were not published; the next push includes those commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpublished: Vec<Unpublished>,
    /// The messages from a code host that are answered there when they end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_answer: Vec<MessageId>,
    /// The last fencing token that was issued. Each token is greater than the one before.
    pub token: Token,
    /// The sequence number of the last event in the log.
    pub last_seq: u64,
    /// A number that increases with each message, each push, and each change of the pull request, so that a client can
    /// tell whether one came between.
    #[serde(default)]
    pub revision: u64,
    /// The epoch of the job's numbers, and the sequence numbers that are not used.
    #[serde(default, skip_serializing_if = "Numbering::is_first")]
    pub numbering: Numbering,
}

/// The status of a job, as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// A prompt is being processed or waits.
    Active,
    /// The agent finished.
    Completed,
    /// The job is archived.
    Archived,
    /// The agent encountered an unrecoverable error, or the job was canceled.
    Failed,
}

impl JobStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Active, Self::Completed, Self::Archived, Self::Failed];

    /// Returns the name in the API and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Archived => "archived",
            Self::Failed => "failed",
        }
    }
}

/// The record that every job operation returns. Its seven fields and their order must never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// The opaque, unique ID of the job.
    pub id: JobId,
    /// The status of the job.
    pub status: JobStatus,
    /// The starting point of the job.
    pub source: Source,
    /// The AI model used for the job.
    pub model: String,
    /// The URL of the pull request; `null` while the job is active, or if no files were changed.
    pub pr_link: Option<String>,
    /// The time at which the job was accepted.
    pub created_at: Timestamp,
    /// The time at which the job was archived; `null` if it is not archived.
    pub archived_at: Option<Timestamp>,
}

impl Job {
    /// Returns a job that was created at `now`, without messages, a title, an agent, a model and options.
    #[must_use]
    pub fn new(id: JobId, project: ProjectId, source: Source, now: Timestamp) -> Self {
        Self {
            id,
            project,
            title: String::new(),
            source,
            agent: String::new(),
            model: String::new(),
            effort: None,
            options: JobOptions::default(),
            created_at: now,
            state: JobState::Active(Work::Waiting),
            waiting_since: now,
            preferred_worker: None,
            settled_at: None,
            last: None,
            queue: Vec::new(),
            last_message_at: now,
            branch: None,
            diff: None,
            pull: None,
            checks: None,
            updates: None,
            session: None,
            archive: None,
            bundle: None,
            unpublished: Vec::new(),
            to_answer: Vec::new(),
            token: Token(0),
            last_seq: 0,
            revision: 0,
            numbering: Numbering::default(),
        }
    }

    /// Moves the numbers of a job from an earlier epoch after the base of the current one: the sequence numbers of its
    /// log, its revisions, and its fencing tokens. A history that is lost may have given the numbers between to others.
    #[must_use]
    pub fn in_epoch(mut self, base: u64) -> Self {
        if self.numbering.epoch == base {
            return self;
        }
        self.numbering.epoch = base;
        if self.last_seq < base {
            self.numbering.gaps.push(Gap { last: self.last_seq, base });
            self.last_seq = base;
        }
        self.revision = self.revision.max(base);
        self.token = Token(self.token.0.max(base));
        self
    }

    /// Returns whether `seq` is a position in the log of this job: 0, or the number of an event that the log has or had,
    /// and not one that only a lost history had.
    #[must_use]
    pub fn has_seq(&self, seq: u64) -> bool {
        seq <= self.last_seq && after_gaps(&self.numbering.gaps, seq).is_some()
    }

    /// Returns the status that clients see.
    #[must_use]
    pub const fn status(&self) -> JobStatus {
        match self.state {
            JobState::Active(_) if self.archive_requested_at().is_some() => JobStatus::Archived,
            JobState::Active(_) => JobStatus::Active,
            JobState::Completed => JobStatus::Completed,
            JobState::Failed(_) => JobStatus::Failed,
            JobState::Archived { .. } => JobStatus::Archived,
        }
    }

    /// Returns the record that clients see.
    #[must_use]
    pub fn record(&self) -> JobRecord {
        let active = self.status() == JobStatus::Active;
        JobRecord {
            id: self.id,
            status: self.status(),
            source: self.source.clone(),
            model: self.model.clone(),
            pr_link: self.pull.as_ref().filter(|pull| !active && !pull.is_untouched).map(|pull| pull.url.clone()),
            created_at: self.created_at,
            archived_at: match self.state {
                JobState::Archived { at, .. } => Some(at),
                _ => self.archive_requested_at(),
            },
        }
    }

    /// Returns the name of the branch that the job works on, or will work on in its first turn.
    #[must_use]
    pub fn branch_name(&self) -> String {
        self.branch.as_ref().map_or_else(|| self.branch_of(1), |branch| branch.name.clone())
    }

    /// Returns the name of the job's earlier branch whose commits the branch of a turn begins with, because its pull
    /// request was closed; `None` if there are none, or if they were published. This is the job at the start of the turn.
    #[must_use]
    pub fn carried_over(&self, turn: &TurnBegun) -> Option<String> {
        let is_first = self.unpublished.is_empty() && turn.pushed.is_none();
        (turn.generation > 1 && turn.head != turn.base && is_first).then(|| self.branch_of(turn.generation - 1))
    }

    /// Returns the name of a branch that the job begins: the number `generation` among its branches, from 1.
    #[must_use]
    pub fn branch_of(&self, generation: u32) -> String {
        match (&self.options.pull, &self.options.branch, generation) {
            (Some(existing), _, 1) => existing.head.clone(),
            (None, Some(name), 1) => name.clone(),
            (None, Some(name), generation) => format!("{name}-{generation}"),
            (_, _, generation) => branch_name(&self.title, &self.id, generation),
        }
    }

    /// Returns the existing pull request that the job works on; `None` if it opens its own, also after the existing one
    /// has ended.
    #[must_use]
    pub fn existing_pull(&self) -> Option<&ExistingPull> {
        let is_first = self.branch.as_ref().is_none_or(|branch| branch.generation == 1);
        self.options.pull.as_deref().filter(|_| is_first)
    }

    /// Returns the number of messages of the last day that the service has sent by itself.
    #[must_use]
    pub fn automatic_messages(&self, now: Timestamp) -> usize {
        let repairs = self.checks.iter().flat_map(|checks| &checks.automatic);
        let updates = self.updates.iter().flat_map(|updates| &updates.automatic);
        repairs.chain(updates).filter(|at| checks::is_in_day(**at, now)).count()
    }

    /// Returns the time at which the job was archived, while the work of its last message is still being published.
    #[must_use]
    pub const fn archive_requested_at(&self) -> Option<Timestamp> {
        match self.in_flight() {
            Some(in_flight) => in_flight.archive_at,
            None => None,
        }
    }

    /// Returns the cause that the job's message waits for and the time of the next attempt; `None` during an attempt.
    #[must_use]
    pub const fn waiting(&self) -> Option<(&Waiting, Timestamp)> {
        match &self.state {
            JobState::Active(Work::Retrying { in_flight, not_before }) => match &in_flight.waiting {
                Some(waiting) => Some((waiting, *not_before)),
                None => None,
            },
            _ => None,
        }
    }

    /// Returns the time at which a worker should check the job: the time since which a message has been waiting, the
    /// time of the next attempt, or the end of the lease; `None` if there is nothing to do. The store sorts jobs by it;
    /// [`Job::is_due`] decides whether a job is due.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        match &self.state {
            JobState::Active(Work::Waiting) => Some(self.waiting_since),
            JobState::Active(Work::Retrying { not_before, .. }) => Some(*not_before),
            JobState::Active(Work::Running { lease, .. }) => Some(lease.until),
            JobState::Completed | JobState::Failed(_) | JobState::Archived { .. } => None,
        }
    }

    /// Returns whether a worker may take the job now. A clock may have been set back, and with PostgreSQL several
    /// machines have clocks. Therefore a waiting message is always due, an attempt is also due if it is scheduled later
    /// than the longest possible backoff, and a lease that ends later than the longest possible lease counts as
    /// expired.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        match &self.state {
            JobState::Active(Work::Waiting) => true,
            JobState::Active(Work::Retrying { not_before, .. }) => {
                *not_before <= now || *not_before > now + LONGEST_BACKOFF
            }
            JobState::Active(Work::Running { lease, .. }) => lease.until <= now || lease.until > now + LONGEST_LEASE,
            JobState::Completed | JobState::Failed(_) | JobState::Archived { .. } => false,
        }
    }

    /// Returns the time since which the job has been inactive; `None` while it is active.
    #[must_use]
    pub fn rests_since(&self) -> Option<Timestamp> {
        let rests = !matches!(self.state, JobState::Active(_));
        rests.then(|| self.settled_at.unwrap_or(self.created_at))
    }

    /// Returns whether a worker can claim the job now, or when its next attempt is due.
    #[must_use]
    pub const fn may_be_claimed(&self) -> bool {
        matches!(self.state, JobState::Active(Work::Waiting | Work::Retrying { .. }))
    }

    /// Returns the worker that should get the job if it can: the worker that has the workspace, or the work of a turn
    /// that is not recorded yet. Any other repeated attempt begins with a new workspace, so any worker can make it.
    #[must_use]
    pub fn prefers(&self) -> Option<WorkerId> {
        let answered = self.in_flight().and_then(|in_flight| in_flight.answered.as_ref());
        answered
            .map(|answered| answered.worker)
            .or_else(|| self.preferred_worker.filter(|_| self.state == JobState::Active(Work::Waiting)))
    }

    /// Returns whether the agent has ended a turn whose work only the preferred worker has.
    #[must_use]
    pub fn has_unrecorded_work(&self) -> bool {
        self.in_flight().is_some_and(|in_flight| in_flight.answered.is_some())
    }

    /// Returns the worker that should not get the job if another one can: the worker whose machine may have caused the
    /// last failure.
    #[must_use]
    pub const fn avoids(&self) -> Option<WorkerId> {
        match &self.state {
            JobState::Active(Work::Retrying { in_flight, .. }) => in_flight.avoid,
            _ => None,
        }
    }

    /// Returns the lease; `None` if there is no run.
    #[must_use]
    pub const fn lease(&self) -> Option<&Lease> {
        match &self.state {
            JobState::Active(Work::Running { lease, .. }) => Some(lease),
            _ => None,
        }
    }

    /// Returns the message that has left the queue and is not final.
    #[must_use]
    pub const fn in_flight(&self) -> Option<&InFlightMessage> {
        match &self.state {
            JobState::Active(Work::Running { in_flight, .. } | Work::Retrying { in_flight, .. }) => Some(in_flight),
            _ => None,
        }
    }

    /// Returns whether the job is already in the state that `turn` begins with, so that there is nothing to change.
    #[must_use]
    pub fn is_ready_for(&self, turn: &TurnBegun) -> bool {
        self.in_flight().is_some_and(InFlightMessage::awaits_agent)
            && self.branch.as_ref().is_some_and(|branch| *branch == turn.branch(Some(branch)))
            && self.unpublished.is_empty()
    }
}
