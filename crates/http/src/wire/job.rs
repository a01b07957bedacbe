//! The wire format of jobs.

use std::collections::BTreeMap;

use journeyman_core::job::{self, JobStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use super::project::Effort;

/// The status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent works on a message, or a message waits.
    Active,
    /// The last message finished; `prLink` has the pull request, if files were changed.
    Completed,
    /// The job has been archived.
    Archived,
    /// The last message did not finish, or the job was canceled.
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

/// The starting point of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// The repository of the project when the job was created.
    pub repository: String,
    /// The branch, tag, or commit; `HEAD` means the repository's default branch.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// The record of a job, which the operations on jobs return: these seven fields, in this order, and no others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
pub struct JobRecord {
    /// The unique and opaque ID of the job.
    #[schema(example = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    pub id: String,
    /// The status of the job.
    pub status: Status,
    /// The starting point of the job.
    pub source: Source,
    /// The AI model used for the job.
    pub model: String,
    /// The URL of the pull request; `null` while the job is active, or if no files were changed.
    #[schema(required)]
    pub pr_link: Option<String>,
    /// The time of creation (ISO 8601, UTC).
    #[schema(format = DateTime)]
    pub created_at: String,
    /// The time at which the job was archived (ISO 8601, UTC); `null` if it is not archived.
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
    /// The jobs, newest first.
    pub(crate) jobs: Vec<JobRecord>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// A job to create.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CreateJob {
    /// The prompt for the agent, which becomes the job's first message.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(crate) prompt: String,
    /// The branch, tag, or commit to start from; by default, the project's.
    #[schema(min_length = 1, max_length = 200)]
    #[serde(rename = "ref")]
    pub(crate) reference: Option<String>,
    /// The model; by default, the project's.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) model: Option<String>,
    /// The effort of the model; by default, the project's.
    pub(crate) effort: Option<Effort>,
    /// The agent; by default, the project's.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) agent: Option<String>,
    /// The name of the branch to work on; by default, a name derived from the title.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) branch: Option<String>,
    /// `true` to open the pull request as a draft; by default, as the project's settings say.
    pub(crate) draft: Option<bool>,
    /// `true` to ask the code host to merge the pull request when all requirements are met; by default, as the project's
    /// settings say. With an API key, `true` needs the scope `write`.
    #[serde(rename = "autoMerge")]
    pub(crate) auto_merge: Option<bool>,
    /// The title of the pull request; by default, the first line of the prompt.
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) title: Option<String>,
    /// The existing pull request to work on, instead of opening one.
    #[serde(rename = "pullRequest")]
    #[schema(schema_with = number_or_text)]
    pub(crate) pull_request: Option<PullRequestName>,
    /// Labels, by which lists select jobs.
    #[schema(max_items = 20, example = json!(["bug", "nightly"]))]
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    /// Data of your own, such as the ID of a ticket: up to 50 keys of up to 40 letters, digits, `_`, `-` and `.`, with
    /// values of up to 500 characters. Lists select jobs by it.
    #[schema(example = json!({"ticket": "SHOP-12"}))]
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// The name of a pull request: its number, or the URL of its page.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected the number or the URL of a pull request")]
pub(crate) enum PullRequestName {
    /// The number.
    Number(u64),
    /// The URL, or the number as text.
    Text(String),
}

/// Returns the schema of [`PullRequestName`]. Code generators have no name for the choices of an inline `oneOf`.
fn number_or_text() -> Object {
    let description = "The existing pull request to work on, instead of opening one: its number, or the URL of its page. \
                       The job starts from the newest commit of its branch and pushes to it. Excludes `branch` and `ref`.";
    let types = SchemaType::from_iter([Type::Integer, Type::String]);
    let examples = [json!(12), json!("https://github.com/example/shop/pull/12")];
    ObjectBuilder::new().schema_type(types).description(Some(description)).examples(examples).into()
}

impl From<PullRequestName> for String {
    fn from(name: PullRequestName) -> Self {
        match name {
            PullRequestName::Number(number) => number.to_string(),
            PullRequestName::Text(text) => text,
        }
    }
}
