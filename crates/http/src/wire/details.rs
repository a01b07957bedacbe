//! The wire format of a job's details.

use journeyman_core::job::{Job, JobState};
use journeyman_core::project::hold::Hold;
use journeyman_core::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::pull::PullRequestState;

use super::job::Status;
use super::run::Reason;

/// The details of a job that its record does not contain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobDetails {
    #[schema(example = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    id: String,
    status: Status,
    title: String,
    agent: String,
    model: String,
    /// The branch that the job works on; `null` before its first turn.
    #[schema(required)]
    branch: Option<String>,
    /// The pull request, also while the job is active; `null` if there is none.
    #[schema(required)]
    pull_request: Option<JobPullRequest>,
    /// The number of queued messages, without the current one.
    queue_length: usize,
    /// The external cause that the job waits for; `null` if there is none.
    #[schema(required)]
    waiting: Option<Waiting>,
    /// The reason why the job is `failed`; `null` if it is not.
    #[schema(required)]
    failure: Option<Reason>,
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

impl JobDetails {
    /// Returns the details of a job; `hold` is the hold of its project.
    pub(crate) fn of(job: &Job, hold: Option<&Hold>) -> Self {
        Self {
            id: job.id.to_string(),
            status: job.status().into(),
            title: job.title.clone(),
            agent: job.agent.clone(),
            model: job.model.clone(),
            branch: job.branch.as_ref().map(|branch| branch.name.clone()),
            pull_request: job.pull.as_ref().map(|pull| JobPullRequest {
                number: pull.number,
                url: pull.url.clone(),
                state: pull.state.into(),
            }),
            queue_length: job.queue.len(),
            waiting: Waiting::of(job, hold),
            failure: match &job.state {
                JobState::Failed(reason) => Some(reason.clone().into()),
                _ => None,
            },
        }
    }
}
