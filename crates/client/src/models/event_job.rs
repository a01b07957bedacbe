//! Data of the events of jobs, messages, runs and pull requests.

use serde::{Deserialize, Serialize};

use super::job::{PullConflicts, Reason, Source};
use super::message::{Delivery, MessageOrigin, MessageStatus, RunStatus};
use super::project::Effort;

/// The job was created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobCreated {
    /// The title.
    pub title: String,
    /// The starting point.
    pub source: Source,
    /// The ID of the agent.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The effort of the model; `None` means the agent's, or else the model's default.
    pub effort: Option<Effort>,
}

/// No messages are left, and the last run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobFailed {
    /// The cause.
    pub reason: Reason,
}

/// A message was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageAccepted {
    /// The ID of the message.
    pub message_id: String,
    /// The prompt.
    pub prompt: String,
    /// The origin.
    pub origin: MessageOrigin,
    /// The sender.
    pub author: Option<String>,
    /// The treatment of the message if the job was active.
    pub delivery: Delivery,
}

/// A queued message was withdrawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageWithdrawn {
    /// The ID of the message.
    pub message_id: String,
}

/// The comments of a queued message were edited on the code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageChanged {
    /// The ID of the message.
    pub message_id: String,
    /// The prompt.
    pub prompt: String,
}

/// A message waits for something outside the job, such as its code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageWaiting {
    /// The ID of the message.
    pub message_id: String,
    /// The cause.
    pub reason: Reason,
    /// The time at which the cause began.
    pub since: String,
    /// The time at which the message fails if the cause persists.
    pub deadline: String,
    /// The time of the next attempt.
    pub next_attempt_at: String,
}

/// Commits of earlier messages were published with those of this message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessagePublishedWith {
    /// The ID of the message.
    pub message_id: String,
    /// The IDs of the earlier messages.
    pub earlier: Vec<String>,
}

/// A delivered message finished, failed, or was cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageFinished {
    /// The ID of the message.
    pub message_id: String,
    /// The status.
    pub status: MessageStatus,
    /// The answer of the agent.
    pub answer: Option<String>,
    /// The commits.
    pub commits: Vec<String>,
    /// The URL of the pull request.
    pub pr_link: Option<String>,
    /// The cause.
    pub reason: Option<Reason>,
}

/// A worker started a run for a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunStarted {
    /// The ID of the message.
    pub message_id: String,
    /// The number of the attempt.
    pub attempt: u64,
    /// The worker that carries out the run.
    pub worker: String,
}

/// A run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunFinished {
    /// The status.
    pub status: RunStatus,
    /// The cause.
    pub reason: Option<Reason>,
    /// The commits.
    pub commits: Vec<String>,
}

/// The branch was pushed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommitPushed {
    /// The branch.
    pub branch: String,
    /// The newest commit.
    pub head: String,
    /// The commits.
    pub commits: Vec<String>,
}

/// A pull request was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequestOpened {
    /// The number.
    pub number: u64,
    /// The URL.
    pub url: String,
}

/// The pull request has new commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequestUpdated {
    /// The number.
    pub number: u64,
    /// The URL.
    pub url: String,
}

/// A pull request was merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequestMerged {
    /// The number.
    pub number: u64,
}

/// A pull request was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequestClosed {
    /// The number.
    pub number: u64,
}

/// A pull request was reopened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequestReopened {
    /// The number.
    pub number: u64,
}

/// The pull request conflicts with its base branch, or is behind it, and the project wants it to be updated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequestOutdated {
    /// The number.
    pub number: u64,
    /// The branch to merge into.
    pub base: String,
    /// The newest commit of that branch.
    pub base_sha: String,
    /// The newest commit of the pull request.
    pub head_sha: String,
    /// The number of commits of the base that the pull request does not have, at most 1,000.
    pub behind: u64,
    /// The files in which they conflict.
    pub conflicts: PullConflicts,
    /// The reason why the agent is not asked to merge the base: `daily_limit` or `last_failed`; `None` if it is.
    pub stop: Option<String>,
}

/// All checks of the newest commit of the pull request have finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChecksSettled {
    /// The commit.
    pub sha: String,
    /// The result.
    pub result: String,
    /// The names of the failed checks.
    pub failed: Vec<String>,
    /// The reason why the checks start no message; `None` if they may.
    pub stop: Option<String>,
}
