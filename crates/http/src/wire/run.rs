//! Runs: attempts at messages.

use journeyman_core::run;
use serde::Serialize;
use utoipa::ToSchema;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// A worker has it.
    Running,
    /// The turn ended and its effect is published.
    Succeeded,
    /// It did not; the reason says why.
    Failed,
    /// Stopped on request, or handed back by a worker that shut down.
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

/// Why a run ended as it did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reason {
    /// Stable, for programs; new ones may come.
    #[schema(example = "timed_out")]
    code: String,
    /// What happened and what to do about it.
    text: String,
}

impl From<run::Reason> for Reason {
    fn from(reason: run::Reason) -> Self {
        // The codes are unit variants: their JSON is a string.
        let code = serde_json::to_value(reason.code).ok().and_then(|code| code.as_str().map(str::to_owned));
        Self { code: code.unwrap_or_default(), text: reason.text }
    }
}

/// What a run used of the model.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    /// Tokens read by the model.
    input_tokens: u64,
    /// Tokens written by the model.
    output_tokens: u64,
    /// Tokens of the input that came from the provider's cache.
    cached_tokens: u64,
    /// Millionths of a US dollar; `null` where the price is not known.
    #[schema(required)]
    cost_micros: Option<u64>,
}

impl From<run::Usage> for Usage {
    fn from(usage: run::Usage) -> Self {
        let run::Usage { input_tokens, output_tokens, cached_tokens, cost_micros } = usage;
        Self { input_tokens, output_tokens, cached_tokens, cost_micros }
    }
}

/// A run: one attempt at one message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    #[schema(example = "run_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    id: String,
    /// The message it carries out.
    message_id: String,
    /// 1 for the first attempt at the message.
    attempt: u32,
    status: RunStatus,
    /// Why it failed or was stopped; also why one that succeeded opened no pull request.
    #[schema(required)]
    reason: Option<Reason>,
    /// Who carries it out.
    worker: String,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(required, format = DateTime)]
    finished_at: Option<String>,
    usage: Usage,
    /// The commits it published, oldest first.
    commits: Vec<String>,
}

impl From<run::Run> for Run {
    fn from(run: run::Run) -> Self {
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
        }
    }
}

/// All runs of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunList {
    /// Oldest first.
    pub(crate) runs: Vec<Run>,
}
