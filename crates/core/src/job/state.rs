//! The state of a job: its work in progress, and how it ended.

use serde::{Deserialize, Serialize};

use super::turn::Ending;
use crate::ids::{MessageId, RunId, Sha, WorkerId};
use crate::run::{Reason, Usage};
use crate::time::{Timestamp, micros};

/// A fencing token. Only the worker with the newest token may report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job has work in progress, or work that waits.
    Active(Work),
    /// The last message finished.
    Completed,
    /// The last message did not finish, or the job was canceled.
    Failed(Reason),
    /// The job is archived.
    Archived {
        /// The time at which the job was archived.
        #[serde(with = "micros")]
        at: Timestamp,
        /// The end of the job before it was archived, which unarchiving restores.
        before: Ended,
    },
}

/// The end of a job, or of a message that a run took.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The message finished.
    Completed,
    /// The message did not finish.
    Failed(Reason),
}

/// The work of an active job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The first message in the queue waits for a worker.
    Waiting,
    /// A run has taken a message, and the last attempt has ended. The next attempt begins at a given time.
    Retrying {
        /// The message.
        #[serde(rename = "delivery")]
        in_flight: InFlightMessage,
        /// The earliest time of the next attempt.
        #[serde(with = "micros")]
        not_before: Timestamp,
    },
    /// A worker carries out a message.
    Running {
        /// The message.
        #[serde(rename = "delivery")]
        in_flight: InFlightMessage,
        /// The worker's lease.
        lease: Lease,
    },
}

/// A message that has left the queue and is not final.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InFlightMessage {
    /// The ID of the message.
    pub message: MessageId,
    /// The number of attempts that have begun.
    pub attempts: u32,
    /// The number of attempts that failed for a cause that may be temporary.
    pub failures: u32,
    /// The number of attempts whose worker died.
    pub losses: u32,
    /// The progress of the turn.
    pub progress: Progress,
    /// `true` if an interrupting message has requested that the turn stop.
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
    /// Set from the agent's answer until the turn's work is recorded. Versions before 2026-11-29 do not know this field:
    /// a worker of theirs prompts the agent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
}

impl InFlightMessage {
    /// Returns whether the agent has yet to end its turn.
    #[must_use]
    pub fn awaits_agent(&self) -> bool {
        self.progress == Progress::Prompting && self.answered.is_none()
    }
}

/// A turn that the agent has ended, and whose work only one machine has. The next run on that machine collects the work
/// without prompting the agent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answered {
    /// The worker whose machine has the work.
    pub worker: WorkerId,
    /// The time at which the worker recorded the end of the turn.
    #[serde(with = "micros")]
    pub at: Timestamp,
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

/// The durable points of a turn, from which the next run continues.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The agent must be prompted, possibly again.
    Prompting,
    /// The turn has ended. A worker must push `head`, and then ensure that there is a pull request.
    Publishing {
        /// The commit that the branch must point to.
        head: Sha,
        /// The commits of this message, oldest first; empty if nothing has changed.
        commits: Vec<Sha>,
        /// `true` if an interrupting message stopped the turn.
        stopped: bool,
        /// The reason why the turn was cut short, if it was.
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

/// A worker's lease on a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The run of the lease.
    pub run: RunId,
    /// The token that the holder must send with its reports.
    pub token: Token,
    /// The holder.
    pub worker: WorkerId,
    /// The time at which the lease ends if it is not renewed.
    #[serde(with = "micros")]
    pub until: Timestamp,
    /// The sum of the model calls that the holder has recorded. It is the usage of a run that ends without its worker's
    /// report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}
