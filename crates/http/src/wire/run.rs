//! The wire format of runs.

use journeyman_core::message::Message;
use journeyman_core::run;
use serde::Serialize;
use utoipa::ToSchema;

use super::message::LeftOut;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// A worker holds the lease.
    Running,
    /// The turn ended, and its result was published.
    Succeeded,
    /// The run failed; `reason` has the cause.
    Failed,
    /// The run was stopped on request, or handed back by a worker that was shutting down.
    Cancelled,
}

impl From<run::RunStatus> for RunStatus {
    fn from(status: run::RunStatus) -> Self {
        match status {
            run::RunStatus::Running => Self::Running,
            run::RunStatus::Succeeded => Self::Succeeded,
            run::RunStatus::Failed => Self::Failed,
            run::RunStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// The reason for the outcome of a run, for the failure of a job, or for a wait.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reason {
    /// The stable code, for programs. New codes may be added.
    #[schema(example = "timed_out")]
    code: String,
    /// A description of what happened and what to do about it.
    text: String,
}

impl From<run::Reason> for Reason {
    fn from(reason: run::Reason) -> Self {
        // The codes are unit variants: their JSON is a string.
        let code = serde_json::to_value(reason.code).ok().and_then(|code| code.as_str().map(str::to_owned));
        Self { code: code.unwrap_or_default(), text: reason.text }
    }
}

/// The model usage of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    /// The number of tokens that the model read.
    input_tokens: u64,
    /// The number of tokens that the model wrote.
    output_tokens: u64,
    /// The number of input tokens that came from the provider's cache.
    cached_tokens: u64,
    /// The cost in millionths of a US dollar; `null` if the price is not known.
    #[schema(required)]
    cost_micros: Option<u64>,
    /// The part of the cost that is an estimate, because calls were interrupted before the provider reported their
    /// tokens.
    estimated_micros: u64,
}

impl From<run::Usage> for Usage {
    fn from(usage: run::Usage) -> Self {
        let run::Usage { input_tokens, output_tokens, cached_tokens, cost_micros, estimated_micros } = usage;
        Self { input_tokens, output_tokens, cached_tokens, cost_micros, estimated_micros }
    }
}

/// A run: one attempt at one message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    #[schema(example = "run_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    id: String,
    /// The message that the run carries out.
    message_id: String,
    /// The number of the attempt at the message, starting at 1.
    attempt: u32,
    status: RunStatus,
    /// The reason why the run failed or was stopped, or why a successful run opened no pull request; otherwise `null`.
    #[schema(required)]
    reason: Option<Reason>,
    /// The ID of the worker that carries out the run.
    worker: String,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(required, format = DateTime)]
    finished_at: Option<String>,
    usage: Usage,
    /// The commits that the run published, oldest first.
    commits: Vec<String>,
    /// What the turn changed, but no commit has, with the reasons; at most 100 paths.
    left_out: Vec<LeftOut>,
    /// The number of further paths that were left out.
    left_out_more: u64,
}

impl Run {
    /// Describes a run. `messages` are those of its job: a message has what its last run left out.
    pub(crate) fn new(run: run::Run, messages: &[Message]) -> Self {
        let own = messages.iter().find(|message| message.run == Some(run.id));
        let diff = own.and_then(|message| message.diff.clone()).unwrap_or_default();
        Self {
            id: run.id.to_string(),
            message_id: run.message.to_string(),
            attempt: run.attempt,
            status: run.status.into(),
            reason: run.reason.map(Reason::from),
            worker: run.worker.to_string(),
            started_at: run.started_at.to_string(),
            finished_at: run.finished_at.map(|at| at.to_string()),
            usage: run.usage.into(),
            commits: run.commits.into_iter().map(String::from).collect(),
            left_out: diff.left_out.iter().map(LeftOut::from).collect(),
            left_out_more: diff.left_out_more,
        }
    }
}

/// A page of the runs of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunList {
    /// The runs, oldest first.
    pub(crate) runs: Vec<Run>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}
