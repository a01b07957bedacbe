//! The wire format of a job's details.

use std::collections::BTreeMap;

use journeyman_app::DetailedJob;
use journeyman_core::checks::CheckResult;
use journeyman_core::job::{Job, JobState};
use journeyman_core::project::hold::Hold;
use journeyman_core::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::pull::PullRequestState;

use super::job::{Source, Status};
use super::project::Effort;
use super::run::{Reason, Usage};

/// A job with the details that its record does not contain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobDetails {
    #[schema(example = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    id: String,
    /// The ID of the project.
    project: String,
    status: Status,
    title: String,
    source: Source,
    agent: String,
    model: String,
    /// The effort of the model, from the request or the project; `null` means the agent's, or else the model's default.
    #[schema(required)]
    effort: Option<Effort>,
    /// The sender of the first message: the name of a key, or a person; `null` if it is not known.
    #[schema(required)]
    author: Option<String>,
    /// The labels, sorted.
    labels: Vec<String>,
    /// The data that the client stored with the job.
    metadata: BTreeMap<String, String>,
    /// The branch that the job works on. Before its first turn, the branch that the job was created with, or `null`.
    #[schema(required)]
    branch: Option<String>,
    /// The current pull request, also while the job is active; `null` if there is none.
    #[schema(required)]
    pull_request: Option<JobPullRequest>,
    /// All pull requests of the job, oldest first. `GET …/pulls` returns them with their texts.
    pull_requests: Vec<JobPullRequest>,
    /// The result of the checks of the newest commit whose checks have finished; `null` if there is none. `GET …/checks`
    /// returns each check.
    #[schema(required)]
    checks: Option<CheckSummary>,
    /// The number of queued messages, without the current one.
    queue_length: usize,
    /// The external cause that the job waits for; `null` if there is none.
    #[schema(required)]
    waiting: Option<Waiting>,
    /// The reason why the job is `failed`; `null` if it is not.
    #[schema(required)]
    failure: Option<Reason>,
    /// The model usage of all runs.
    usage: Usage,
    #[schema(format = DateTime)]
    created_at: String,
    /// The time at which the job was archived; `null` if it is not archived.
    #[schema(required, format = DateTime)]
    archived_at: Option<String>,
    /// A number that increases with each message, each push, and each change of the state of a pull request.
    revision: u64,
}

/// The result of the checks of a commit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckSummary {
    /// The commit.
    sha: String,
    /// `passed`, `failed`, `none` (the commit has no checks) or `timed_out`. New results may be added.
    #[schema(value_type = String)]
    result: CheckResult,
    /// The time of the result.
    #[schema(format = DateTime)]
    settled_at: String,
}

/// A page of jobs with their details.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobDetailsPage {
    /// The jobs, newest first.
    pub(crate) jobs: Vec<JobDetails>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// The pull request of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPullRequest {
    number: u64,
    url: String,
    /// The state, as the code host last reported it.
    state: PullRequestState,
}

/// An external cause that prevents a message from being carried out. The message is retried until the cause has passed
/// or the deadline is reached.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    /// The current message; `null` if the project is on hold and no message of the job was tried yet.
    #[schema(required)]
    message_id: Option<String>,
    reason: Reason,
    /// The time at which the cause began.
    #[schema(format = DateTime)]
    since: String,
    /// The time of the next attempt, by this job or by another job that probes the project.
    #[schema(format = DateTime)]
    next_attempt_at: String,
    /// The time at which the message fails if the cause persists; `null` if it was not tried yet.
    #[schema(required, format = DateTime)]
    deadline: Option<String>,
    /// The number of attempts that failed because of this cause.
    attempts: u32,
    /// `true` if all jobs of the project wait for the cause.
    project_on_hold: bool,
}

impl Waiting {
    /// Returns the cause that a job waits for, if any; `hold` is the hold of its project.
    fn of(job: &Job, hold: Option<&Hold>) -> Option<Self> {
        let later = |at: Timestamp| hold.map_or(at, |hold| at.max(hold.next_probe_at)).to_string();
        if let Some((waiting, next)) = job.waiting() {
            return Some(Self {
                message_id: job.in_flight().map(|message| message.message.to_string()),
                reason: waiting.reason.clone().into(),
                since: waiting.since.to_string(),
                next_attempt_at: later(next),
                deadline: Some(waiting.deadline.to_string()),
                attempts: waiting.attempts,
                project_on_hold: hold.is_some(),
            });
        }
        let hold = hold.filter(|_| job.may_be_claimed())?;
        Some(Self {
            message_id: None,
            reason: hold.reason.clone().into(),
            since: hold.since.to_string(),
            next_attempt_at: hold.next_probe_at.to_string(),
            deadline: None,
            attempts: hold.attempts,
            project_on_hold: true,
        })
    }
}

impl From<DetailedJob> for JobDetails {
    fn from(detailed: DetailedJob) -> Self {
        let DetailedJob { job, hold, author, labels, metadata, usage, pulls } = detailed;
        let record = job.record();
        Self {
            id: job.id.to_string(),
            project: job.project.to_string(),
            status: record.status.into(),
            author,
            labels,
            metadata,
            branch: job.branch.as_ref().map(|branch| branch.name.clone()).or_else(|| job.options.branch.clone()),
            pull_request: job.pull.as_ref().map(|pull| JobPullRequest {
                number: pull.number,
                url: pull.url.clone(),
                state: pull.state.into(),
            }),
            pull_requests: pulls
                .into_iter()
                .map(|pull| JobPullRequest { number: pull.number, url: pull.url, state: pull.state.into() })
                .collect(),
            checks: job.checks.as_ref().map(|checks| CheckSummary {
                sha: checks.sha.to_string(),
                result: checks.result,
                settled_at: checks.at.to_string(),
            }),
            queue_length: job.queue.len(),
            waiting: Waiting::of(&job, hold.as_ref()),
            failure: match &job.state {
                JobState::Failed(reason) => Some(reason.clone().into()),
                _ => None,
            },
            usage: usage.into(),
            created_at: job.created_at.to_string(),
            archived_at: record.archived_at.map(|at| at.to_string()),
            revision: job.revision,
            title: job.title,
            source: Source { repository: record.source.repository, reference: record.source.reference },
            agent: job.agent,
            model: job.model,
            effort: job.effort.map(Effort::from),
        }
    }
}
