//! The events of a job. An event has all data that the rows of a store need.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checks::{CheckReport, CheckStop};
use crate::code_host::{PullRef, PullState};
use crate::ids::{MessageId, RunId, Sha};
use crate::job::turn::{Ending, TurnArtifacts, TurnBegun};
use crate::job::updates::UpdateStop;
use crate::job::{Job, Lease, Unpublished, Waiting};
use crate::message::{MessageStatus, MessageText, NewMessage};
use crate::pull::base_comparison::BaseComparison;
use crate::pull::{Pull, PullSummary};
use crate::run::{Reason, RunStatus, Usage};
use crate::time::Timestamp;

/// An event of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The job was created. It has no messages yet.
    JobCreated(Box<Job>),
    /// A message was stored.
    MessageAccepted {
        /// The message.
        message: NewMessage,
        /// `true` if the message goes before the other queued messages.
        first: bool,
    },
    /// An interrupting message requested that the message in flight stop.
    StopRequested,
    /// A queued message was withdrawn.
    MessageWithdrawn(MessageId),
    /// The text of a queued message was replaced.
    MessageChanged {
        /// The message.
        message: MessageId,
        /// The new text.
        text: MessageText,
    },
    /// A worker took the job.
    RunStarted {
        /// The worker's lease.
        lease: Lease,
        /// The message that the run carries out.
        message: MessageId,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// The lease was renewed.
    LeaseRenewed {
        /// The new end of the lease.
        until: Timestamp,
    },
    /// The agent is about to be prompted.
    TurnBegun(TurnBegun),
    /// An entry was added to the agent's transcript.
    Transcript {
        /// The run of the entry.
        run: RunId,
        /// The entry.
        entry: TranscriptEntry,
    },
    /// The agent has ended its turn; the work is not recorded yet.
    Answered {
        /// The final text of the agent.
        answer: Option<String>,
        /// The run's usage of models so far.
        usage: Usage,
    },
    /// The turn has ended.
    TurnEnded {
        /// The commit that the branch must point to.
        head: Sha,
        /// The commits of this message, oldest first.
        commits: Vec<Sha>,
        /// The artifacts from which a later run continues.
        artifacts: TurnArtifacts,
        /// The end of the turn.
        ending: Ending,
    },
    /// The branch was pushed.
    CommitPushed {
        /// The run.
        run: RunId,
        /// The name of the branch.
        branch: String,
        /// The commit that the branch now points to.
        head: Sha,
        /// The new commits, oldest first.
        commits: Vec<Sha>,
    },
    /// A pull request was opened.
    PullRequestOpened {
        /// The run.
        run: RunId,
        /// The pull request.
        pull: Pull,
    },
    /// The pull request contains new commits.
    PullRequestUpdated {
        /// The run.
        run: RunId,
        /// The pull request.
        pull: Pull,
    },
    /// The code host has told a new state of a pull request of the job.
    PullRequestState {
        /// The pull request, which may belong to an earlier branch of the job.
        pull: PullRef,
        /// The state.
        state: PullState,
        /// `true` if the job is archived when its work is done, unless it opens another pull request.
        archives_job: bool,
    },
    /// The code host has told another title of the current pull request, or whether it is a draft.
    PullRequestDescribed(PullSummary),
    /// All checks of the newest commit have finished.
    ChecksSettled {
        /// The result, and what follows from it.
        report: Box<CheckReport>,
        /// The reason why failed checks are not repaired.
        stop: Option<CheckStop>,
    },
    /// A message was sent to repair failed checks.
    RepairRequested {
        /// The signature of the failure.
        signature: String,
    },
    /// The pull request conflicts with its base, or is behind it, and the project wants it to be updated.
    PullRequestOutdated {
        /// The number of the pull request.
        number: u64,
        /// How it compares with its base.
        comparison: Box<BaseComparison>,
        /// The reason why the agent is not asked to update it.
        stop: Option<UpdateStop>,
    },
    /// A run has ended.
    RunFinished {
        /// The run.
        run: RunId,
        /// The final status.
        status: RunStatus,
        /// The reason, if the run did not succeed or could open no pull request.
        reason: Option<Reason>,
        /// The usage of models.
        usage: Usage,
        /// The published commits.
        commits: Vec<Sha>,
        /// The next step for the message.
        next: AfterRun,
    },
    /// A message that was delivered has become final.
    MessageEnded {
        /// The message.
        message: MessageId,
        /// The final status: finished, failed or canceled.
        status: MessageStatus,
        /// The published commits of the message.
        commits: Vec<Sha>,
        /// The URL of the pull request that contains the commits.
        pr_link: Option<String>,
        /// The reason why the message did not finish.
        reason: Option<Reason>,
        /// The final text of the turn.
        answer: Option<String>,
        /// `true` if the message came from a code host, and is answered there.
        is_answered: bool,
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
    /// A client requested that the next attempt begin now.
    RetryRequested,
    /// Commits of earlier messages were published together with those of this message.
    PublishedWith {
        /// The message whose push included them.
        message: MessageId,
        /// The earlier messages.
        earlier: Vec<Unpublished>,
        /// The URL of the pull request that contains the commits.
        pr_link: Option<String>,
    },
    /// A client archived the job while the work of its last message was being published; [`Event::JobArchived`]
    /// follows.
    ArchiveRequested,
    /// The queue is empty, and the last message finished.
    JobCompleted,
    /// The queue is empty, and the last message did not finish or the job was canceled.
    JobFailed(Reason),
    /// The job was archived.
    JobArchived {
        /// The time at which the job was archived for clients, if that was earlier.
        requested_at: Option<Timestamp>,
    },
    /// The job was unarchived.
    JobUnarchived,
}

impl Event {
    /// Returns whether the event changes what a client may base its next message on: the messages, the branch, or the pull
    /// request.
    #[must_use]
    pub const fn is_revision(&self) -> bool {
        matches!(
            self,
            Self::MessageAccepted { .. }
                | Self::MessageWithdrawn(_)
                | Self::MessageChanged { .. }
                | Self::CommitPushed { .. }
                | Self::PullRequestState { .. }
        )
    }
}

/// The next step for a message after one of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRun {
    /// The message becomes final with the event that follows.
    Ends,
    /// The message is tried again.
    Retry {
        /// The earliest time of the next attempt.
        not_before: Timestamp,
        /// The counter that the attempt increments.
        counts: Counts,
    },
}

/// The counter that is incremented by an attempt that did not end its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// The counter of failures that may be temporary.
    Failure,
    /// The counter of workers that died.
    Loss,
    /// No counter: the run was handed back, or the message waits for something outside it.
    Nothing,
}

/// An entry of an agent's transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptEntry {
    /// The kind of the entry.
    pub kind: TranscriptKind,
    /// The content, as a JSON object.
    pub data: Value,
    /// The time at which the worker received the entry.
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
            estimated_micros: if self.data["estimated"] == true { tokens("costMicros") } else { 0 },
        })
    }
}

/// The kind of a transcript entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TranscriptKind {
    /// Text for the user.
    Message,
    /// Text of the agent's reasoning.
    Thought,
    /// The agent's complete plan.
    Plan,
    /// A tool call, or an update of one.
    ToolCall,
    /// The usage of models so far.
    Usage,
    /// A request of the agent for permission, with the answer.
    Permission,
    /// A connection from the sandbox to the network.
    EgressAllowed,
    /// A denied connection from the sandbox to the network.
    EgressDenied,
    /// The start of a session.
    Session,
    /// A call of a model.
    ModelCalled,
    /// A denied call of a model.
    ModelDenied,
    /// A line of the agent's output that was not a message of the protocol.
    LineDropped,
    /// The agent's turn was cut short and is continued.
    Continued,
    /// The turn changed files that its commits do not have.
    LeftOut,
    /// The working tree does not have everything that the repository or an earlier turn has.
    CheckoutIncomplete,
    /// The agent's home was not stored after the turn.
    HomeNotStored,
}

/// The prefix of the types of log entries about an agent's texts and actions.
pub const TRANSCRIPT: &str = "agent.";

impl TranscriptKind {
    /// Returns the type of the log entry.
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
            Self::LeftOut => "changes.left_out",
            Self::CheckoutIncomplete => "checkout.incomplete",
            Self::HomeNotStored => "home.not_stored",
        }
    }
}

/// An entry of a job's log, as clients see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// The sequence number, from 1 and without gaps.
    pub seq: u64,
    /// The type, such as `run.started`. Clients ignore types that they do not know.
    #[serde(rename = "type")]
    pub kind: String,
    /// The time of the event.
    pub at: Timestamp,
    /// The run of the event, if it belongs to one.
    pub run_id: Option<RunId>,
    /// The content, as a JSON object.
    pub data: Value,
}
