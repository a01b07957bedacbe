//! Runs, and the reasons why they fail. A run is one leased attempt at one message.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, MessageId, RunId, Sha, WorkerId};
use crate::time::Timestamp;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A worker holds the lease.
    Running,
    /// The turn ended, and its result was published.
    Succeeded,
    /// The run failed; its reason has the cause.
    Failed,
    /// The run was stopped on request, or handed back by a worker that was shutting down.
    Cancelled,
}

/// A stable code for the reason of an outcome; [`Reason::text`] describes the reason for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// The job was canceled or archived.
    Cancelled,
    /// A message with `delivery: "interrupt"` replaced the message.
    Interrupted,
    /// The worker shut down and handed the run back.
    HandedBack,
    /// The worker died or was disconnected, and its lease expired.
    WorkerLost,
    /// The run took longer than the project's limit.
    TimedOut,
    /// The machine's sandbox lacks a required guarantee.
    SandboxUnsafe,
    /// The sandbox's backing service, such as a container engine, does not answer.
    SandboxUnavailable,
    /// The container image does not exist, cannot be pulled, or lacks something that jobs need.
    ImageRefused,
    /// A process of the run was killed for lack of memory.
    OutOfMemory,
    /// The run reached the project's limit on processes.
    TooManyProcesses,
    /// The workspace and the agent's home exceeded the project's limit on disk space.
    DiskLimit,
    /// The agent's output exceeded the limit of a run.
    OutputLimit,
    /// The agent's program could not be started.
    AgentNotStarted,
    /// The agent's process ended during the turn.
    AgentExited,
    /// The agent answered the prompt with an error.
    AgentFailed,
    /// The agent violated the protocol, or did not answer.
    AgentProtocol,
    /// The model refused to continue.
    AgentRefused,
    /// The model, the agent, or a limit ended the turn before the agent was done, even after the turn was continued.
    TurnCutShort,
    /// The agent ended its turn because the project's policy refused a permission.
    PermissionRefused,
    /// The project refuses kinds of tool calls for which its agent does not ask permission.
    UnsupportedPolicy,
    /// The model cannot be called: its provider is not configured, or has no key.
    ModelNotConfigured,
    /// The provider refused the key.
    ModelUnauthorized,
    /// The provider refused the call because of a rate limit.
    ModelRateLimited,
    /// The provider failed or could not be reached.
    ModelUnavailable,
    /// The provider did not answer in time.
    ModelTimedOut,
    /// The provider's answer was incomplete.
    ModelCut,
    /// The provider rejected the call.
    ModelRefused,
    /// A call could have exceeded a budget.
    OverBudget,
    /// No agent with this name is configured.
    UnknownAgent,
    /// The project's setup command failed.
    SetupFailed,
    /// The repository could not be reached.
    RepositoryUnreachable,
    /// The repository does not exist at its address.
    RepositoryNotFound,
    /// The repository has no commits.
    RepositoryEmpty,
    /// The repository has a form that jobs cannot use.
    RepositoryUnsupported,
    /// The branch, tag or commit to start from does not exist.
    UnknownRef,
    /// The repository refused the credential.
    CredentialRefused,
    /// The code host refused the push.
    PushRefused,
    /// People's commits on the branch conflict with the agent's.
    PushConflict,
    /// The code host did not accept the pull request.
    PullRequestFailed,
    /// The branch was pushed, but the remote is on no supported code host, so there is no pull request.
    NoCodeHost,
    /// The pull request was opened, but labels, reviewers or assignees could not be set.
    PullRequestIncomplete,
    /// The code host's credential lacks a permission.
    PermissionMissing,
    /// The repository is archived on the code host, so it is read-only.
    RepositoryArchived,
    /// The project has another repository than the one that the job has worked on.
    RepositoryChanged,
    /// The code host accepts no more requests for some time.
    CodeHostRateLimited,
    /// The commits change files of CI pipelines, and the project or the code host does not allow that.
    CiFilesChanged,
    /// The service may not push to the branch of an existing pull request.
    PullRequestNotWritable,
    /// The disk is full.
    DiskFull,
    /// The blob store cannot be read or written, or a disk of the service fails or is read-only.
    StorageUnavailable,
    /// The service refused the files or commits that the agent left in the workspace.
    WorkspaceRefused,
    /// The agent left conflicts, or an operation of git that is not concluded, also after the turn was continued.
    UnresolvedConflicts,
    /// An internal error of the service, or an error of the machine.
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

/// The reason for the outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reason {
    /// The code, for programs.
    pub code: ReasonCode,
    /// The text, for people: the cause, and the remedy.
    pub text: String,
}

impl Reason {
    /// Creates a reason.
    #[must_use]
    pub fn new(code: ReasonCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// A run's usage of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The number of tokens that the model read.
    pub input_tokens: u64,
    /// The number of tokens that the model wrote.
    pub output_tokens: u64,
    /// The number of input tokens that came from the provider's cache.
    pub cached_tokens: u64,
    /// The cost in millionths of a US dollar, if the price is known.
    pub cost_micros: Option<u64>,
    /// The part of the cost that is an estimate, because calls were interrupted before the provider reported their
    /// tokens.
    #[serde(default)]
    pub estimated_micros: u64,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The ID of the run.
    pub id: RunId,
    /// The job of the message.
    pub job: JobId,
    /// The message that the run carries out.
    pub message: MessageId,
    /// The number of this attempt at the message, from 1.
    pub attempt: u32,
    /// The status of the run.
    pub status: RunStatus,
    /// The reason why the run failed or was stopped. A run that succeeded has one if it could open no pull request.
    pub reason: Option<Reason>,
    /// The worker that carries out the run.
    pub worker: WorkerId,
    /// The time at which the lease was granted.
    pub started_at: Timestamp,
    /// The time at which the outcome was recorded.
    pub finished_at: Option<Timestamp>,
    /// The tokens and the cost.
    pub usage: Usage,
    /// The commits that the run published, oldest first.
    pub commits: Vec<Sha>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the codes in their order, from the source of the enum.
    fn codes() -> Vec<String> {
        let source = include_str!("run.rs");
        let (_, rest) = source.split_once("pub enum ReasonCode {").expect("the enum");
        let (body, _) = rest.split_once("\n}").expect("its end");
        let lines = body.lines().map(str::trim).filter(|line| !line.starts_with('/'));
        let code = |variant: &str| {
            let mut code = String::new();
            for c in variant.chars() {
                if c.is_ascii_uppercase() && !code.is_empty() {
                    code.push('_');
                }
                code.push(c.to_ascii_lowercase());
            }
            code
        };
        lines.filter_map(|line| line.strip_suffix(',')).map(code).collect()
    }

    #[test]
    fn the_operations_guide_explains_every_reason_code() {
        let documented: Vec<&str> = include_str!("../../../docs/operations.md")
            .split_once("## Troubleshooting by reason code")
            .and_then(|(_, rest)| rest.split("\n## ").next())
            .expect("the section")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(code, _)| code))
            .collect();
        let codes = codes();
        for code in &codes {
            let parsed: ReasonCode = serde_json::from_value(code.as_str().into()).expect("a code");
            assert_eq!(serde_json::to_value(parsed).expect("JSON"), code.as_str(), "the code of a variant");
        }
        assert_eq!(documented, codes, "docs/operations.md and ReasonCode, in their order");
    }
}
