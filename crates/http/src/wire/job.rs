//! Jobs.

use journeyman_core::job::{self, JobStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent is processing a prompt, or one is waiting for it.
    Active,
    /// The agent finished; look at `prLink`.
    Completed,
    /// The job has been archived.
    Archived,
    /// The agent met an unrecoverable error, or was cancelled.
    Failed,
}

impl From<JobStatus> for Status {
    fn from(status: JobStatus) -> Self {
        match status {
            JobStatus::Active => Self::Active,
            JobStatus::Completed => Self::Completed,
            JobStatus::Archived => Self::Archived,
            JobStatus::Failed => Self::Failed,
        }
    }
}

impl From<Status> for JobStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Active => Self::Active,
            Status::Completed => Self::Completed,
            Status::Archived => Self::Archived,
            Status::Failed => Self::Failed,
        }
    }
}

/// Where a job started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// The project's repository when the job was created.
    pub repository: String,
    /// A branch, tag or commit; `HEAD` for the repository's default branch.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// The record that every job operation answers with: these seven fields, in this order, and no others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
pub struct JobRecord {
    /// Opaque, unique.
    #[schema(example = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    pub id: String,
    /// Where the job stands.
    pub status: Status,
    /// Where the job started from.
    pub source: Source,
    /// The AI model used for the job.
    pub model: String,
    /// URL of the pull request; `null` while active, and if no files were changed.
    #[schema(required)]
    pub pr_link: Option<String>,
    /// ISO 8601, UTC.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// ISO 8601, UTC; `null` while the job is not archived.
    #[schema(required, format = DateTime)]
    pub archived_at: Option<String>,
}

impl From<job::JobRecord> for JobRecord {
    fn from(record: job::JobRecord) -> Self {
        Self {
            id: record.id.to_string(),
            status: record.status.into(),
            source: Source { repository: record.source.repository, reference: record.source.reference },
            model: record.model,
            pr_link: record.pr_link,
            created_at: record.created_at.to_string(),
            archived_at: record.archived_at.map(|at| at.to_string()),
        }
    }
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobPage {
    /// Newest first.
    pub(crate) jobs: Vec<JobRecord>,
    /// Give it as `cursor` for the next page; `null` on the last.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// A job that is to be.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CreateJob {
    /// What the agent shall do; the job's first message.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(crate) prompt: String,
    /// The branch, tag or commit to start from, instead of the project's.
    #[schema(min_length = 1, max_length = 200)]
    #[serde(rename = "ref")]
    pub(crate) reference: Option<String>,
    /// The model, instead of the project's.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) model: Option<String>,
    /// The agent, instead of the project's.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) agent: Option<String>,
    /// The name of the branch to work on, instead of one made of the title.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) branch: Option<String>,
    /// Whether the pull request is a draft, instead of as the project says.
    pub(crate) draft: Option<bool>,
    /// The title of the pull request, instead of the prompt's first line.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) title: Option<String>,
}
