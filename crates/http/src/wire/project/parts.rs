//! The parts of a project's document, as clients read them.

use std::collections::BTreeMap;

use journeyman_core::model::price::Budgets;
use journeyman_core::project::{LimitSettings, PullRequestSettings, SandboxSettings};
use serde::Serialize;
use utoipa::ToSchema;

use super::choices::{CodeHostKind, Permissions, Pull, ToolKind};

/// Where a project's repository lives.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeHost {
    /// `null`: detected from the repository.
    #[schema(required)]
    pub kind: Option<CodeHostKind>,
    /// The user name that goes with the token over HTTP.
    #[schema(required)]
    pub username: Option<String>,
    /// Whether there is a credential; it is set with `token` and never shown.
    pub has_token: bool,
}

/// How a project's pull requests look. In the templates `{title}`, `{prompt}`, `{job}` and `{branch}` are replaced.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// Whether they open as drafts.
    pub draft: bool,
    /// The branch they are to be merged into; `null`: the project's ref if that is a branch, else the default branch.
    #[schema(required)]
    pub base: Option<String>,
    /// Template of the title; `null`: `{title}`.
    #[schema(required)]
    pub title: Option<String>,
    /// Template of the body; `null`: the prompt and the job's id.
    #[schema(required)]
    pub body: Option<String>,
    /// Labels to put on.
    pub labels: Vec<String>,
}

impl From<PullRequestSettings> for PullRequest {
    fn from(settings: PullRequestSettings) -> Self {
        let PullRequestSettings { draft, base, title, body, labels } = settings;
        Self { draft, base, title, body, labels }
    }
}

/// How much a project may use.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Seconds that one run may take; `null`: 3600.
    #[schema(required, minimum = 1, maximum = 604_800)]
    pub run_seconds: Option<u32>,
    /// Jobs created in an hour; `null`: as the server says; 0: no limit.
    #[schema(required)]
    pub create_per_hour: Option<u32>,
    /// Messages sent in an hour; `null`: as the server says; 0: no limit.
    #[schema(required)]
    pub message_per_hour: Option<u32>,
    /// Bytes that one file in a commit may have; `null`: 104857600.
    #[schema(required, minimum = 1)]
    pub file_bytes: Option<u64>,
    /// Runs at a time, on all workers together; `null`: as many as there are places.
    #[schema(required, minimum = 1)]
    pub concurrent_runs: Option<u32>,
    /// Bytes of memory that a run may use; `null`: 4294967296.
    #[schema(required, minimum = 67_108_864)]
    pub memory_bytes: Option<u64>,
    /// Processes and threads that a run may have; `null`: 1024.
    #[schema(required, minimum = 16, maximum = 4_194_304)]
    pub processes: Option<u32>,
    /// Thousandths of a processor that a run gets at most; `null`: no limit.
    #[schema(required, minimum = 100, maximum = 1_000_000)]
    pub cpu_millis: Option<u32>,
    /// Bytes that workspace and home of a job may have together; `null`: 10737418240.
    #[schema(required, minimum = 1_048_576)]
    pub disk_bytes: Option<u64>,
    /// Bytes that an agent may say in one turn, tools' output among it; `null`: 536870912.
    #[schema(required, minimum = 1_048_576)]
    pub output_bytes: Option<u64>,
    /// The most automatic continuations of a turn that was cut short by the model's limit of tokens, by the agent's limit
    /// of calls, or for an unknown reason; `null`: 2.
    #[schema(required, maximum = 100)]
    pub continuations: Option<u32>,
    /// Calls of the model that the built-in agent may make in one turn; `null`: 200.
    #[schema(required, minimum = 1, maximum = 100_000)]
    pub model_calls: Option<u32>,
    /// What calls of models may cost.
    pub budget: Budget,
}

/// What calls of models may cost, in millionths of a US dollar; `null`: anything. A call that could go beyond is not
/// made, and the run fails.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Those of one run.
    #[schema(required)]
    pub run_micros: Option<u64>,
    /// Those of a job, over all of its runs.
    #[schema(required)]
    pub job_micros: Option<u64>,
    /// Those of the project in one day of UTC.
    #[schema(required)]
    pub day_micros: Option<u64>,
    /// Those of the project.
    #[schema(required)]
    pub project_micros: Option<u64>,
}

impl From<LimitSettings> for Limits {
    fn from(limits: LimitSettings) -> Self {
        Self {
            run_seconds: limits.run_seconds,
            create_per_hour: limits.create_per_hour,
            message_per_hour: limits.message_per_hour,
            file_bytes: limits.file_bytes,
            concurrent_runs: limits.concurrent_runs,
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            cpu_millis: limits.cpu_millis,
            disk_bytes: limits.disk_bytes,
            output_bytes: limits.output_bytes,
            continuations: limits.continuations,
            model_calls: limits.model_calls,
            budget: limits.budget.into(),
        }
    }
}

impl From<Budgets> for Budget {
    fn from(Budgets { run, job, day, project }: Budgets) -> Self {
        Self { run_micros: run, job_micros: job, day_micros: day, project_micros: project }
    }
}

/// How a project's agents are contained.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// How permission requests are answered.
    pub permissions: Permissions,
    /// By what an agent wants to do; what is not among them: as `permissions` says.
    pub permission_kinds: BTreeMap<ToolKind, Permissions>,
    /// What programs may reach: `name:port`, or the name of a preset, such as `npm`.
    pub egress: Vec<String>,
    /// The image of its containers, where the server runs agents in containers; `null`: the server's.
    #[schema(required)]
    pub image: Option<String>,
    /// When it is fetched.
    pub pull: Pull,
}

impl From<SandboxSettings> for Sandbox {
    fn from(settings: SandboxSettings) -> Self {
        let SandboxSettings { permissions, permission_kinds, egress, image, pull } = settings;
        let permission_kinds =
            permission_kinds.into_iter().map(|(kind, policy)| (kind.into(), policy.into())).collect();
        Self { permissions: permissions.into(), permission_kinds, egress, image, pull: pull.into() }
    }
}
