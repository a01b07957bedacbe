//! Events of the feed, which webhooks deliver too.

use serde::{Deserialize, Serialize};

use super::job::{Job, Reason};

open_enum! {
    /// The type of an event. A later version of the server may add types; ignore those that are unknown.
    ProjectEventType {
        /// A job was created.
        JobCreated = "job.created",
        /// The last message of a job finished, and its queue is empty.
        JobCompleted = "job.completed",
        /// The last message of a job did not finish, or the job was canceled.
        JobFailed = "job.failed",
        /// A job was archived.
        JobArchived = "job.archived",
        /// A job was unarchived.
        JobUnarchived = "job.unarchived",
        /// A message finished.
        MessageFinished = "message.finished",
        /// A message failed or was canceled after a run had taken it.
        MessageFailed = "message.failed",
        /// A job opened a pull request.
        PullRequestOpened = "pull_request.opened",
        /// A job pushed commits to its pull request.
        PullRequestUpdated = "pull_request.updated",
        /// A pull request of a job was merged.
        PullRequestMerged = "pull_request.merged",
        /// A pull request of a job was closed without being merged.
        PullRequestClosed = "pull_request.closed",
        /// A closed pull request of a job was opened again.
        PullRequestReopened = "pull_request.reopened",
        /// All checks of the newest commit of a pull request have finished.
        ChecksSettled = "checks.settled",
        /// A run failed because a model call could have exceeded a budget.
        BudgetReached = "budget.reached",
    }
}

/// An event of a project, for integrations. Webhooks have the same body without the ID.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProjectEvent {
    /// The position in the feed, which is also a cursor. Later events have larger numbers.
    pub id: String,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: ProjectEventType,
    /// The time of the event.
    pub timestamp: String,
    /// The job after the change, and the subject of the event.
    pub data: ProjectEventData,
}

/// The data of an event: IDs, and the job's record after the change. Ask the interface for more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProjectEventData {
    /// The job after the change.
    pub job: Job,
    /// The project of the job.
    pub project_id: String,
    /// The title of the job.
    pub title: String,
    /// The message, in `message.finished`, `message.failed`, `budget.reached`, and `pull_request.opened` and
    /// `.updated`.
    pub message_id: Option<String>,
    /// The run, in the same events.
    pub run_id: Option<String>,
    /// The pull request, in events of pull requests.
    pub pull_request: Option<EventPullRequest>,
    /// The reason, in `job.failed`, `message.failed` and `budget.reached`.
    pub reason: Option<Reason>,
}

/// The pull request of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EventPullRequest {
    /// The number.
    pub number: u64,
    /// The page; `None` if it is a pull request of an earlier branch of the job.
    pub url: Option<String>,
}

/// The body of a request to the endpoint of a webhook with the format `standard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebhookBody {
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: ProjectEventType,
    /// The time of the event.
    pub timestamp: String,
    /// The job after the change, and the subject of the event.
    pub data: ProjectEventData,
}
