//! A run: one leased attempt at one message, and the reason why one failed.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, MessageId, RunId, Sha, WorkerId};
use crate::time::Timestamp;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A worker has the lease.
    Running,
    /// The turn ended and its effect is published.
    Succeeded,
    /// It did not; the reason says why.
    Failed,
    /// Stopped on request, or handed back by a worker that shuts down.
    Cancelled,
}

/// What went wrong, as a stable code; [`Reason::text`] says it to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// Somebody cancelled or archived the job.
    Cancelled,
    /// A message with `delivery: "interrupt"` took its place.
    Interrupted,
    /// The worker shut down and handed the run back.
    HandedBack,
    /// The worker died or was cut off: its lease ran out.
    WorkerLost,
    /// The run took longer than the project allows.
    TimedOut,
    /// The machine's sandbox does not hold what it must.
    SandboxUnsafe,
    /// The sandbox's backing service, such as a container engine, does not answer.
    SandboxUnavailable,
    /// The container image does not exist, may not be fetched, or lacks what a job needs.
    ImageRefused,
    /// A process of the run was killed because there was no more memory for it.
    OutOfMemory,
    /// The run started more processes than the project allows.
    TooManyProcesses,
    /// The workspace and the agent's home became larger than the project allows.
    DiskLimit,
    /// The agent said more than a run may.
    OutputLimit,
    /// The agent's program could not be started.
    AgentNotStarted,
    /// The agent's process ended in the middle of the turn.
    AgentExited,
    /// The agent answered the prompt with an error.
    AgentFailed,
    /// The agent broke the protocol or did not answer.
    AgentProtocol,
    /// The model refused to go on.
    AgentRefused,
    /// The model, the agent, or a limit ended the turn before the agent was done, also after it was continued.
    TurnCutShort,
    /// The agent ended its turn because the project's policy refused a permission.
    PermissionRefused,
    /// The project refuses kinds of tool calls for which its agent does not ask permission.
    UnsupportedPolicy,
    /// The model cannot be called: its provider is not configured, or has no key.
    ModelNotConfigured,
    /// The provider of the model refused the key.
    ModelUnauthorized,
    /// The provider takes no more calls for now.
    ModelRateLimited,
    /// The provider failed or could not be reached.
    ModelUnavailable,
    /// The provider did not answer in time.
    ModelTimedOut,
    /// The provider's answer broke off.
    ModelCut,
    /// The provider did not take the call as it was.
    ModelRefused,
    /// A call could have cost more than there is.
    OverBudget,
    /// No agent of that name is configured.
    UnknownAgent,
    /// The project's setup command failed.
    SetupFailed,
    /// The repository could not be reached.
    RepositoryUnreachable,
    /// There is nothing at the repository's address.
    RepositoryNotFound,
    /// The repository has no commits.
    RepositoryEmpty,
    /// The ref to start from does not exist.
    UnknownRef,
    /// The repository refused the credential.
    CredentialRefused,
    /// The code host refused the push.
    PushRefused,
    /// People's commits on the branch contradict the agent's.
    PushConflict,
    /// The code host did not take the pull request.
    PullRequestFailed,
    /// The branch was pushed; the remote is no code host that we know, so there is no pull request.
    NoCodeHost,
    /// The disk is full.
    DiskFull,
    /// What the agent left in the workspace is refused.
    WorkspaceRefused,
    /// A fault of ours or of the machine.
    Internal,
    /// A cause that a newer version has stored and this version does not know.
    #[serde(other)]
    Unknown,
}

impl ReasonCode {
    /// Returns whether the machine that carried out the run may be the cause, so that another machine may succeed.
    #[must_use]
    pub const fn may_be_the_machines(self) -> bool {
        matches!(
            self,
            Self::SandboxUnsafe | Self::SandboxUnavailable | Self::AgentNotStarted | Self::DiskFull | Self::Internal
        )
    }
}

/// Why a run ended as it did.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reason {
    /// For programs.
    pub code: ReasonCode,
    /// For people: what happened, and what to do about it.
    pub text: String,
}

impl Reason {
    /// A reason.
    #[must_use]
    pub fn new(code: ReasonCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// What a run used of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read by the model.
    pub input_tokens: u64,
    /// Tokens written by the model.
    pub output_tokens: u64,
    /// Tokens of the input that came from the provider's cache.
    pub cached_tokens: u64,
    /// Millionths of a US dollar, where the price is known.
    pub cost_micros: Option<u64>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Which run.
    pub id: RunId,
    /// The job it works on.
    pub job: JobId,
    /// The message it carries out.
    pub message: MessageId,
    /// 1 for the first attempt at the message.
    pub attempt: u32,
    /// How it stands.
    pub status: RunStatus,
    /// Why it failed or was stopped; also why a run that succeeded opened no pull request.
    pub reason: Option<Reason>,
    /// Who carries it out.
    pub worker: WorkerId,
    /// When the lease was given.
    pub started_at: Timestamp,
    /// When the outcome was recorded.
    pub finished_at: Option<Timestamp>,
    /// Tokens and money.
    pub usage: Usage,
    /// The commits it published, oldest first.
    pub commits: Vec<Sha>,
}
