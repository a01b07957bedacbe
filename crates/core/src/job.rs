//! A job: work on one branch, moved by commands and events.
//!
//! [`decide::decide`] says what follows from a command, [`apply::apply`] moves the state, [`change::step`] does both
//! and lists the rows that a store must write. Invariants, checked exhaustively in `tests/job/model.rs`:
//!
//! - an active job has a run, a message that waits for its next attempt, or a queue;
//! - a token is given once and grows; only the newest one may report;
//! - messages leave the queue in order, and each becomes final exactly once.

pub mod apply;
pub mod change;
pub mod command;
pub mod decide;
pub mod event;

use serde::{Deserialize, Serialize};

use crate::branch::branch_name;
use crate::ids::{JobId, MessageId, ProjectId, RunId, Sha, WorkerId};
use crate::job::command::{Ending, TurnBegun};
use crate::retry::{LONGEST_BACKOFF, LONGEST_LEASE};
use crate::run::{Reason, Usage};
use crate::time::{Timestamp, micros};

/// The reference of a job that starts from the repository's default branch, until the name of that branch is known.
pub const DEFAULT_BRANCH: &str = "HEAD";

/// Where a job started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The project's repository when the job was created.
    pub repository: String,
    /// A branch, tag, or commit. If the request named none, [`DEFAULT_BRANCH`] until the repository has been read.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// What the creator of a job chose beside the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// The name of the branch to work on, instead of one made of the title.
    pub branch: Option<String>,
    /// Whether the pull request is a draft; `None`: as the project says.
    pub draft: Option<bool>,
    /// The title of the pull request; `None`: as the project's template says.
    pub title: Option<String>,
}

/// A job. Stored as one JSON document beside the columns that are searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Which job.
    pub id: JobId,
    /// The project it belongs to.
    pub project: ProjectId,
    /// The title given, or the first line of the first prompt, at most 120 characters.
    pub title: String,
    /// Where it started from.
    pub source: Source,
    /// The name of the agent that carries it out.
    pub agent: String,
    /// The model the agent uses.
    pub model: String,
    /// What its creator chose.
    pub options: JobOptions,
    /// When it was accepted.
    #[serde(with = "micros")]
    pub created_at: Timestamp,
    /// Where it stands.
    pub state: JobState,
    /// When a message last began to be first in the queue with nothing before it; who waits longest is served first.
    #[serde(default, with = "micros")]
    pub waiting_since: Timestamp,
    /// The worker that ran the last turn, and so has the workspace.
    #[serde(default)]
    pub warm: Option<WorkerId>,
    /// When it last came to rest, or was put away or taken out since.
    #[serde(default)]
    pub settled_at: Option<Timestamp>,
    /// How the last message that a run took has ended; decides the status when nothing is left to do.
    pub last: Option<Ended>,
    /// Messages that wait, in the order of delivery.
    pub queue: Vec<MessageId>,
    /// The time at which the last message was accepted. A message that a machine with a slow clock accepts gets this
    /// time too, so that the times of a job's messages never decrease.
    #[serde(default, with = "micros")]
    pub last_message_at: Timestamp,
    /// The branch in use; `None` before the first turn.
    pub branch: Option<Branch>,
    /// The pull request of that branch.
    pub pull: Option<Pull>,
    /// The agent's session, to be resumed.
    pub session: Option<String>,
    /// The blob with the agent's home as the last turn that ended left it.
    #[serde(default)]
    pub archive: Option<String>,
    /// The blob with the commits that are not on the code host yet, where other machines may have to push them.
    #[serde(default)]
    pub bundle: Option<String>,
    /// Messages whose turn ended with commits that were not published; the next push includes those commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpublished: Vec<Unpublished>,
    /// The last fencing token given; tokens grow.
    pub token: Token,
    /// The sequence number of the last event in the log.
    pub last_seq: u64,
}

/// A fencing token: whoever holds the newest may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Something is being done or waits to be done.
    Active(Work),
    /// The last run succeeded.
    Completed,
    /// The last run did not.
    Failed(Reason),
    /// Put away.
    Archived {
        /// When.
        #[serde(with = "micros")]
        at: Timestamp,
        /// What it was before, to be restored.
        before: Ended,
    },
}

/// How an archived job had ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its last run succeeded.
    Completed,
    /// Its last run did not.
    Failed(Reason),
}

/// What an active job is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The queue's first message is to be taken.
    Waiting,
    /// A message was taken and its last attempt is over; the next may begin at the given time.
    Retrying {
        /// What is carried out.
        delivery: Delivery,
        /// Not before then.
        #[serde(with = "micros")]
        not_before: Timestamp,
    },
    /// A worker has it.
    Running {
        /// What is carried out.
        delivery: Delivery,
        /// By whom, and for how long.
        lease: Lease,
    },
}

/// A message that has left the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delivery {
    /// Which message.
    pub message: MessageId,
    /// Attempts begun.
    pub attempts: u32,
    /// Attempts that failed in a way that may pass.
    pub failures: u32,
    /// Attempts whose worker died.
    pub losses: u32,
    /// How far its effect has come.
    pub progress: Progress,
    /// An interrupting message asked for it to stop.
    pub stop: bool,
    /// Set while a cause outside the message, such as a code host that does not answer, prevents it from being carried
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Box<Waiting>>,
    /// The worker whose machine may have caused the last failure; the next attempt prefers other workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<WorkerId>,
    /// The time at which the job was archived, if this message's work was being published then. Clients see the job as
    /// archived from that time on; its state becomes archived when the work is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_at: Option<Timestamp>,
    /// The final text of the turn, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Box<str>>,
}

/// The reason why a message waits for something outside it, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// The cause of the last attempt's failure.
    pub reason: Reason,
    /// The time since which this cause has delayed the message.
    #[serde(with = "micros")]
    pub since: Timestamp,
    /// The time at which the message fails if the cause persists.
    #[serde(with = "micros")]
    pub deadline: Timestamp,
    /// The number of attempts that failed for this cause.
    pub attempts: u32,
}

/// A message whose commits are recorded but not on the code host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unpublished {
    /// The message.
    pub message: MessageId,
    /// The commits of the turn, oldest first; empty if a rebase changed their hashes.
    pub commits: Vec<Sha>,
}

/// The durable points of a turn: what a taken-over run continues from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The agent is to be prompted (again).
    Prompting,
    /// The turn is over: `head` is to be pushed, then the pull request ensured.
    Publishing {
        /// The commit that the branch shall have.
        head: Sha,
        /// The commits of this message, oldest first; empty where nothing changed.
        commits: Vec<Sha>,
        /// Whether the turn was stopped by an interrupting message.
        stopped: bool,
        /// Why the turn was cut short, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut_short: Option<Box<Reason>>,
    },
}

impl Progress {
    /// Returns how the turn ended; `None` before its end.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        match self {
            Self::Prompting => None,
            Self::Publishing { stopped: true, .. } => Some(Ending::Stopped),
            Self::Publishing { cut_short, .. } => {
                let reason = cut_short.as_deref().cloned();
                Some(reason.map_or(Ending::Done, Ending::CutShort))
            }
        }
    }
}

/// A lease on a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The run that it was given to.
    pub run: RunId,
    /// What its holder must show.
    pub token: Token,
    /// The holder.
    pub worker: WorkerId,
    /// When it ends unless it is renewed.
    #[serde(with = "micros")]
    pub until: Timestamp,
    /// The sum of the model calls that the holder has recorded: the usage of a run that ends without its worker's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}

/// The branch a job works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Branch {
    /// Its name on the code host, without `refs/heads/`.
    pub name: String,
    /// 1 for the job's first branch.
    pub generation: u32,
    /// The commit that it started from.
    pub base: Sha,
    /// The newest commit that belongs on it, pushed or about to be.
    pub head: Sha,
    /// The newest commit that we know to be on the code host.
    pub pushed: Option<Sha>,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pull {
    /// Its number at the code host.
    pub number: u64,
    /// Its page.
    pub url: String,
}

/// A job's status, as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// A prompt is being processed or waits.
    Active,
    /// The agent finished.
    Completed,
    /// Put away.
    Archived,
    /// The agent met an unrecoverable error, or was cancelled.
    Failed,
}

impl JobStatus {
    /// The name on the wire and in the store.
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

/// The record that every job operation answers with: these seven fields, in this order, for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// Opaque, unique.
    pub id: JobId,
    /// Where the job stands.
    pub status: JobStatus,
    /// Where the job started from.
    pub source: Source,
    /// The AI model used for the job.
    pub model: String,
    /// URL of the pull request; `null` while active, or if no files were changed.
    pub pr_link: Option<String>,
    /// When the job was accepted.
    pub created_at: Timestamp,
    /// When it was archived; `null` while it is not.
    pub archived_at: Option<Timestamp>,
}

impl Job {
    /// The status that clients see.
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

    /// The record that clients see.
    #[must_use]
    pub fn record(&self) -> JobRecord {
        let active = self.status() == JobStatus::Active;
        JobRecord {
            id: self.id,
            status: self.status(),
            source: self.source.clone(),
            model: self.model.clone(),
            pr_link: self.pull.as_ref().filter(|_| !active).map(|pull| pull.url.clone()),
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
        let known = self.branch.as_ref().map(|branch| &branch.name).or(self.options.branch.as_ref());
        known.cloned().unwrap_or_else(|| branch_name(&self.title, &self.id, 1))
    }

    /// Returns the time at which the job was archived, while the work of its last message is still being published.
    #[must_use]
    pub const fn archive_requested_at(&self) -> Option<Timestamp> {
        match self.delivery() {
            Some(delivery) => delivery.archive_at,
            None => None,
        }
    }

    /// Returns the cause that the job's message waits for and the time of the next attempt; `None` during an attempt.
    #[must_use]
    pub const fn waiting(&self) -> Option<(&Waiting, Timestamp)> {
        match &self.state {
            JobState::Active(Work::Retrying { delivery, not_before }) => match &delivery.waiting {
                Some(waiting) => Some((waiting, *not_before)),
                None => None,
            },
            _ => None,
        }
    }

    /// Returns the time at which a worker should look at the job: the time since which a message has been waiting, the
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

    /// Since when the job rests; `None` while it is active.
    #[must_use]
    pub fn rests_since(&self) -> Option<Timestamp> {
        let rests = !matches!(self.state, JobState::Active(_));
        rests.then(|| self.settled_at.unwrap_or(self.created_at))
    }

    /// Whether a worker may find something to do, now or soon.
    #[must_use]
    pub const fn may_be_claimed(&self) -> bool {
        matches!(self.state, JobState::Active(Work::Waiting | Work::Retrying { .. }))
    }

    /// The worker that the job had better go to: the one that has its workspace. An attempt that is repeated begins with
    /// a new workspace, wherever.
    #[must_use]
    pub fn prefers(&self) -> Option<WorkerId> {
        self.warm.filter(|_| self.state == JobState::Active(Work::Waiting))
    }

    /// Returns the worker that should not get the job if another one can: the worker whose machine may have caused the
    /// last failure.
    #[must_use]
    pub const fn avoids(&self) -> Option<WorkerId> {
        match &self.state {
            JobState::Active(Work::Retrying { delivery, .. }) => delivery.avoid,
            _ => None,
        }
    }

    /// The lease, while a run has one.
    #[must_use]
    pub const fn lease(&self) -> Option<&Lease> {
        match &self.state {
            JobState::Active(Work::Running { lease, .. }) => Some(lease),
            _ => None,
        }
    }

    /// The message that has left the queue and is not final.
    #[must_use]
    pub const fn delivery(&self) -> Option<&Delivery> {
        match &self.state {
            JobState::Active(Work::Running { delivery, .. } | Work::Retrying { delivery, .. }) => Some(delivery),
            _ => None,
        }
    }

    /// Whether the beginning of `turn` would change nothing of it.
    #[must_use]
    pub fn is_ready_for(&self, turn: &TurnBegun) -> bool {
        self.delivery().is_some_and(|delivery| delivery.progress == Progress::Prompting)
            && self.branch.as_ref().is_some_and(|branch| *branch == turn.branch())
            && self.unpublished.is_empty()
    }
}

/// A title made of a prompt: its first line that is not blank, at most 120 characters.
#[must_use]
pub fn title_of(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Job");
    let mut title: String = line.chars().take(120).collect();
    if line.chars().nth(120).is_some() {
        title.pop();
        title.push('…');
    }
    title
}
