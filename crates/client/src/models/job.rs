//! Jobs, their details and their pull requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::project::Effort;
use super::values::PullRequestRef;

open_enum! {
    /// The status of a job.
    Status {
        /// A run is in progress, or a message is queued.
        Active = "active",
        /// The last message is finished.
        Completed = "completed",
        /// The job is archived, and takes no messages.
        Archived = "archived",
        /// The last message failed, or the job was canceled.
        Failed = "failed",
    }
}

/// The starting point of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Source {
    /// The repository of the project when the job was created.
    pub repository: String,
    /// The branch, tag, or commit; `HEAD` means the repository's default branch.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// The record of a job, which the operations on jobs return: these seven fields, in this order, and no others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Job {
    /// The unique and opaque ID of the job.
    pub id: String,
    /// The status of the job.
    pub status: Status,
    /// The starting point of the job.
    pub source: Source,
    /// The AI model used for the job.
    pub model: String,
    /// The URL of the pull request; `None` while the job is active, or if no files were changed.
    pub pr_link: Option<String>,
    /// The time of creation (ISO 8601, UTC).
    pub created_at: String,
    /// The time at which the job was archived (ISO 8601, UTC); `None` if it is not archived.
    pub archived_at: Option<String>,
}

/// A job with the details that its record does not contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobDetails {
    /// The ID.
    pub id: String,
    /// The ID of the project.
    pub project: String,
    /// The status.
    pub status: Status,
    /// The title.
    pub title: String,
    /// The starting point.
    pub source: Source,
    /// The ID of the agent.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The effort of the model, from the request or the project; `None` means the agent's, or else the model's default.
    pub effort: Option<Effort>,
    /// The sender of the first message: the name of a key, or a person; `None` if it is not known.
    pub author: Option<String>,
    /// The labels, sorted.
    pub labels: Vec<String>,
    /// The data that the client stored with the job.
    pub metadata: BTreeMap<String, String>,
    /// The branch that the job works on; `None` before its first turn.
    pub branch: Option<String>,
    /// The current pull request, also while the job is active; `None` if there is none.
    pub pull_request: Option<JobPullRequest>,
    /// All pull requests of the job, oldest first. `GET …/pulls` returns them with their texts.
    pub pull_requests: Vec<JobPullRequest>,
    /// The result of the checks of the newest commit whose checks have finished; `None` if there is none. `GET
    /// …/checks` returns each check.
    pub checks: Option<CheckSummary>,
    /// The number of queued messages, without the current one.
    pub queue_length: u64,
    /// The external cause that the job waits for; `None` if there is none.
    pub waiting: Option<Waiting>,
    /// The reason why the job is `failed`; `None` if it is not.
    pub failure: Option<Reason>,
    /// The model usage of all runs.
    pub usage: Usage,
    /// The time of the creation.
    pub created_at: String,
    /// The time at which the job was archived; `None` if it is not archived.
    pub archived_at: Option<String>,
    /// A number that increases with each message, each push, and each change of the state of a pull request.
    pub revision: u64,
}

/// The pull request of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobPullRequest {
    /// The number.
    pub number: u64,
    /// The URL.
    pub url: String,
    /// The state, as the code host last reported it.
    pub state: PullRequestState,
}

/// The result of the checks of a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckSummary {
    /// The commit.
    pub sha: String,
    /// `passed`, `failed`, `none` (the commit has no checks) or `timed_out`. New results may be added.
    pub result: String,
    /// The time of the result.
    pub settled_at: String,
}

/// An external cause that prevents a message from being carried out. The message is retried until the cause has
/// passed or the deadline is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Waiting {
    /// The current message; `None` if the project is on hold and no message of the job was tried yet.
    pub message_id: Option<String>,
    /// The cause.
    pub reason: Reason,
    /// The time at which the cause began.
    pub since: String,
    /// The time of the next attempt, by this job or by another job that probes the project.
    pub next_attempt_at: String,
    /// The time at which the message fails if the cause persists; `None` if it was not tried yet.
    pub deadline: Option<String>,
    /// The number of attempts that failed because of this cause.
    pub attempts: u32,
    /// `true` if all jobs of the project wait for the cause.
    pub project_on_hold: bool,
}

/// The reason for the outcome of a run, for the failure of a job, or for a wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reason {
    /// The stable code, for programs. New codes may be added.
    pub code: String,
    /// A description of what happened and what to do about it.
    pub text: String,
}

/// The model usage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Usage {
    /// The number of tokens that the model read.
    pub input_tokens: u64,
    /// The number of tokens that the model wrote.
    pub output_tokens: u64,
    /// The number of input tokens that came from the provider's cache.
    pub cached_tokens: u64,
    /// The cost in millionths of a US dollar; `None` if the price is not known.
    pub cost_micros: Option<u64>,
    /// The part of the cost that is an estimate, because calls were interrupted before the provider reported their
    /// tokens.
    #[serde(default)]
    pub estimated_micros: u64,
}

/// A pull request of a job. The text, the labels and the base branch of those on other code hosts than the built-in
/// one are on the code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobPull {
    /// The number.
    pub number: u64,
    /// The URL.
    pub url: String,
    /// The state, as the code host last reported it.
    pub state: PullRequestState,
    /// `true` if it was a draft when the code host was last asked.
    pub draft: Option<bool>,
    /// The title, as the code host last reported it; `None` if it is not known.
    pub title: Option<String>,
    /// The description, in Markdown.
    pub body: Option<String>,
    /// The branch with the commits.
    pub head: String,
    /// The branch to merge into.
    pub base: Option<String>,
    /// The labels.
    pub labels: Vec<String>,
    /// The files in which it conflicts with its base; `None` if it has ended, or if they could not be found out.
    #[serde(default)]
    pub conflicts: Option<PullConflicts>,
    /// The number of commits of its base that it does not have, at most 1,000; `None` like `conflicts`.
    #[serde(default)]
    pub behind: Option<u64>,
    /// The time at which it was compared with its base; `None` if it has ended, or if it was not compared yet.
    #[serde(default)]
    pub compared_at: Option<String>,
    /// Why it was not compared with its base; `None` if it was, or if it has ended.
    #[serde(default)]
    pub not_compared: Option<NotCompared>,
    /// The time at which the job opened it.
    pub created_at: String,
    /// The time at which the pull request was merged or closed; on other code hosts than the built-in one, the time
    /// at which this was recorded.
    pub ended_at: Option<String>,
}

/// The files in which a pull request conflicts with its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullConflicts {
    /// The paths of the first 100 files; none if the branches can be merged. Bytes of a path that are not UTF-8 are
    /// written as `\xNN`.
    pub files: Vec<String>,
    /// The number of files that are not named.
    pub more: u64,
}

open_enum! {
    /// The reason why a pull request was not compared with its base.
    NotCompared {
        /// It was not compared yet.
        NotYet = "not_yet",
        /// Its branch is in a fork.
        InFork = "in_fork",
        /// One of the two branches does not exist.
        BranchMissing = "branch_missing",
        /// The project has another repository now.
        OtherRepository = "other_repository",
        /// The code host says that it has ended, and no webhook has told of it yet.
        Ended = "ended",
    }
}

open_enum! {
    /// The state of a pull request.
    PullRequestState {
        /// The pull request is open.
        Open = "open",
        /// The pull request is merged.
        Merged = "merged",
        /// The pull request is closed without a merge.
        Closed = "closed",
    }
}

/// The checks of the newest commit that a job has pushed to its pull request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JobChecks {
    /// The commit; `None` if the job has pushed none to a pull request on a code host with checks.
    pub sha: Option<String>,
    /// The result: `passed`, `failed`, `none` (the commit has no checks) or `timed_out`; `None` while the checks have
    /// not finished. New results may be added.
    pub result: Option<String>,
    /// The time of the result.
    pub settled_at: Option<String>,
    /// The checks when they were last read, those that failed first.
    pub checks: Vec<Check>,
    /// The reason why failed checks are not repaired: `head_moved`, `fails_on_base`, `same_failure`, `attempts_used`,
    /// `daily_limit` or `archived`. New reasons may be added.
    pub stop: Option<String>,
    /// The number of messages that were sent to repair checks since they last passed, or a person last sent a
    /// message.
    pub attempts: u32,
    /// The maximum number of attempts.
    pub most_attempts: u32,
}

/// A check of a commit: a CI job, or a commit status of another service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Check {
    /// The name.
    pub name: String,
    /// The state.
    pub state: CheckState,
    /// The page of the check.
    pub url: Option<String>,
    /// A line of text about the result.
    pub summary: Option<String>,
    /// `true` if the check both failed and passed on the commit.
    #[serde(default)]
    pub flaky: bool,
}

open_enum! {
    /// The state of a check.
    CheckState {
        /// The check has not finished.
        Pending = "pending",
        /// The check passed.
        Passed = "passed",
        /// The check failed.
        Failed = "failed",
        /// The check was skipped.
        Skipped = "skipped",
        /// The check continues when a person acts, such as by an approval.
        Waiting = "waiting",
        /// The entry does not count in the result, and its summary says why.
        Ignored = "ignored",
    }
}

/// A job to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateJob {
    /// The prompt for the agent, which becomes the job's first message.
    pub prompt: String,
    /// The branch, tag, or commit to start from; by default, the project's.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The model; by default, the project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort of the model; by default, the project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The agent; by default, the project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The name of the branch to work on; by default, a name derived from the title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// `true` to open the pull request as a draft; by default, as the project's settings say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<bool>,
    /// `true` to ask the code host to merge the pull request when all requirements are met; by default, as the project's
    /// settings say. With an API key, `true` needs the scope `write`.
    #[serde(rename = "autoMerge", skip_serializing_if = "Option::is_none")]
    pub auto_merge: Option<bool>,
    /// The title of the pull request; by default, the first line of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The existing pull request to work on, instead of opening one: its number, or the URL of its page. The job
    /// starts from the newest commit of its branch and pushes to it. Excludes `branch` and `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequestRef>,
    /// Labels, by which lists select jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Data of your own, such as the ID of a ticket: up to 50 keys of up to 40 letters, digits, `_`, `-` and `.`,
    /// with values of up to 500 characters. Lists select jobs by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl CreateJob {
    /// Returns the request with its required fields.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            reference: None,
            model: None,
            effort: None,
            agent: None,
            branch: None,
            draft: None,
            auto_merge: None,
            title: None,
            pull_request: None,
            labels: None,
            metadata: None,
        }
    }

    /// Sets `reference`.
    #[must_use]
    pub fn reference(mut self, value: impl Into<String>) -> Self {
        self.reference = Some(value.into());
        self
    }

    /// Sets `model`.
    #[must_use]
    pub fn model(mut self, value: impl Into<String>) -> Self {
        self.model = Some(value.into());
        self
    }

    /// Sets `effort`.
    #[must_use]
    pub fn effort(mut self, value: Effort) -> Self {
        self.effort = Some(value);
        self
    }

    /// Sets `agent`.
    #[must_use]
    pub fn agent(mut self, value: impl Into<String>) -> Self {
        self.agent = Some(value.into());
        self
    }

    /// Sets `branch`.
    #[must_use]
    pub fn branch(mut self, value: impl Into<String>) -> Self {
        self.branch = Some(value.into());
        self
    }

    /// Sets `auto_merge`.
    #[must_use]
    pub fn auto_merge(mut self, value: bool) -> Self {
        self.auto_merge = Some(value);
        self
    }

    /// Sets `draft`.
    #[must_use]
    pub fn draft(mut self, value: bool) -> Self {
        self.draft = Some(value);
        self
    }

    /// Sets `title`.
    #[must_use]
    pub fn title(mut self, value: impl Into<String>) -> Self {
        self.title = Some(value.into());
        self
    }

    /// Sets `pull_request`.
    #[must_use]
    pub fn pull_request(mut self, value: impl Into<PullRequestRef>) -> Self {
        self.pull_request = Some(value.into());
        self
    }

    /// Sets `labels`.
    #[must_use]
    pub fn labels(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.labels = Some(value.into_iter().map(Into::into).collect());
        self
    }

    /// Sets `metadata`.
    #[must_use]
    pub fn metadata(mut self, value: BTreeMap<String, String>) -> Self {
        self.metadata = Some(value);
        self
    }
}
