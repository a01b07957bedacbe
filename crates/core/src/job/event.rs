//! All that can happen to a job. Events carry everything that the rows of a store need.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{MessageId, RunId, Sha};
use crate::job::command::{Ending, Kept, TurnBegun};
use crate::job::{Job, Lease, Pull, Unpublished, Waiting};
use crate::message::{MessageStatus, NewMessage};
use crate::run::{Reason, RunStatus, Usage};
use crate::time::Timestamp;

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The job exists, still without messages.
    JobCreated(Box<Job>),
    /// A message was stored.
    MessageAccepted {
        /// The message.
        message: NewMessage,
        /// Whether it goes before the others that wait.
        first: bool,
    },
    /// The message under way was asked to make room.
    StopRequested,
    /// A queued message was taken back.
    MessageWithdrawn(MessageId),
    /// A worker took the job.
    RunStarted {
        /// By whom, and for how long.
        lease: Lease,
        /// For which message.
        message: MessageId,
        /// 1 for the first.
        attempt: u32,
    },
    /// The lease was renewed.
    LeaseRenewed {
        /// Its new end.
        until: Timestamp,
    },
    /// The agent is about to be prompted.
    TurnBegun(TurnBegun),
    /// The agent said or did something.
    Transcript {
        /// In which run.
        run: RunId,
        /// What.
        entry: TranscriptEntry,
    },
    /// The agent is done.
    TurnEnded {
        /// The commit that the branch shall have.
        head: Sha,
        /// The commits of this message, oldest first.
        commits: Vec<Sha>,
        /// What is kept for whoever goes on from here.
        kept: Kept,
        /// The end of the turn.
        ending: Ending,
    },
    /// The branch was pushed.
    CommitPushed {
        /// In which run.
        run: RunId,
        /// Which branch.
        branch: String,
        /// Its commit now.
        head: Sha,
        /// What was added, oldest first.
        commits: Vec<Sha>,
    },
    /// A pull request was opened.
    PullRequestOpened {
        /// In which run.
        run: RunId,
        /// Which.
        pull: Pull,
    },
    /// The pull request carries new commits.
    PullRequestUpdated {
        /// In which run.
        run: RunId,
        /// Which.
        pull: Pull,
    },
    /// A run is over.
    RunFinished {
        /// Which run.
        run: RunId,
        /// How.
        status: RunStatus,
        /// Why, if it did not succeed.
        reason: Option<Reason>,
        /// What the model used.
        usage: Usage,
        /// What was published.
        commits: Vec<Sha>,
        /// What happens to its message now.
        next: AfterRun,
    },
    /// A message that was delivered has become final.
    MessageEnded {
        /// Which.
        message: MessageId,
        /// How: finished, failed or cancelled.
        status: MessageStatus,
        /// What it led to.
        commits: Vec<Sha>,
        /// The pull request that carries it.
        pr_link: Option<String>,
        /// Why it did not finish.
        reason: Option<Reason>,
        /// The final text of the turn.
        answer: Option<String>,
    },
    /// A message waits for something outside it. This event follows the end of the run that encountered the cause.
    MessageWaiting {
        /// The message.
        message: MessageId,
        /// The cause and the deadline.
        waiting: Waiting,
        /// The time of the next attempt.
        next_attempt_at: Timestamp,
    },
    /// A client requested the next attempt now.
    RetryRequested,
    /// Commits of earlier messages were published together with those of this message.
    PublishedWith {
        /// The message whose push included them.
        message: MessageId,
        /// The earlier messages.
        earlier: Vec<Unpublished>,
        /// The pull request that carries them.
        pr_link: Option<String>,
    },
    /// A client archived the job while the work of its last message was being published; [`Event::JobArchived`]
    /// follows.
    ArchiveRequested,
    /// The queue is empty and the last run succeeded.
    JobCompleted,
    /// The queue is empty and the last run did not.
    JobFailed(Reason),
    /// The job was put away.
    JobArchived {
        /// The time at which the job was archived for clients, if that was earlier.
        requested_at: Option<Timestamp>,
    },
    /// It was taken out again.
    JobUnarchived,
}

/// What happens to a message after a run of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRun {
    /// It becomes final with the event that follows.
    Ends,
    /// It is tried again.
    Retry {
        /// Not before.
        not_before: Timestamp,
        /// What the attempt counts as.
        counts: Counts,
    },
}

/// What an attempt that did not end its message counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// A failure that may pass.
    Failure,
    /// A worker that died.
    Loss,
    /// Nothing: it was handed back.
    Nothing,
}

/// One thing that an agent said or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptEntry {
    /// Its kind.
    pub kind: TranscriptKind,
    /// Its content, as a JSON object.
    pub data: Value,
    /// When the worker heard of it.
    pub at: Timestamp,
}

impl TranscriptEntry {
    /// Returns the usage of a recorded model call; `None` for other entries.
    #[must_use]
    pub fn model_call(&self) -> Option<Usage> {
        let number = |field: &str| self.data[field].as_u64();
        let tokens = |field: &str| number(field).unwrap_or_default();
        (self.kind == TranscriptKind::ModelCalled).then(|| Usage {
            input_tokens: tokens("inputTokens"),
            output_tokens: tokens("outputTokens"),
            cached_tokens: tokens("cachedTokens"),
            cost_micros: number("costMicros"),
        })
    }
}

/// Kinds of things that an agent says or does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TranscriptKind {
    /// Text for the user.
    Message,
    /// Text of its thinking.
    Thought,
    /// Its plan, whole.
    Plan,
    /// A tool call, or news of one.
    ToolCall,
    /// What the model used so far.
    Usage,
    /// It asked for permission and was answered.
    Permission,
    /// Something that it runs has reached out of the sandbox.
    EgressAllowed,
    /// The same, and was not let.
    EgressDenied,
    /// Its session was opened.
    Session,
    /// It has called a model.
    ModelCalled,
    /// It wanted to, and was not let.
    ModelDenied,
    /// A line of the agent's output that was not a message of the protocol.
    LineDropped,
    /// The agent's turn was cut short and is continued.
    Continued,
}

/// What the types of lines begin with that tell what an agent said and did.
pub const TRANSCRIPT: &str = "agent.";

impl TranscriptKind {
    /// The event's type in the log.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Message => "agent.message",
            Self::Thought => "agent.thought",
            Self::Plan => "agent.plan",
            Self::ToolCall => "agent.tool_call",
            Self::Usage => "agent.usage",
            Self::Permission => "permission.answered",
            Self::EgressAllowed => "egress.allowed",
            Self::EgressDenied => "egress.denied",
            Self::Session => "agent.session",
            Self::ModelCalled => "agent.model_call",
            Self::ModelDenied => "model.denied",
            Self::LineDropped => "agent.line_dropped",
            Self::Continued => "agent.continued",
        }
    }
}

/// A line of a job's log, as clients see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// 1 for the job's first; without gaps.
    pub seq: u64,
    /// Such as `run.started`; clients ignore what they do not know.
    #[serde(rename = "type")]
    pub kind: String,
    /// When.
    pub at: Timestamp,
    /// In which run, if in one.
    pub run_id: Option<RunId>,
    /// Its content, as a JSON object.
    pub data: Value,
}
