//! The fields of a project that a client may send. All of them are optional; [`super::patch`] defines the meaning of
//! an absent field.

use std::collections::BTreeMap;

use journeyman_core::model::price::Budgets;
use journeyman_core::project::{self, CodeHostSettings, LimitSettings, PullRequestSettings, SandboxSettings};
use serde::Deserialize;
use serde::de::IgnoredAny;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::choices::{CodeHostKind, Permissions, Pull, SecretUse, ToolKind};

/// The fields of a project that a client may set. A field that is left out keeps its value; at creation, it gets its
/// default. `null` restores the default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectChanges {
    /// The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host, where the
    /// repository is created without commits if it does not exist.
    #[schema(min_length = 2, max_length = 1000)]
    pub repository: Option<String>,
    /// The branch, tag, or commit that jobs start from; by default, the repository's default branch.
    #[schema(min_length = 1, max_length = 200)]
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The agent of the project's jobs.
    #[schema(min_length = 1, max_length = 200)]
    pub agent: Option<String>,
    /// The model of the project's jobs.
    #[schema(min_length = 1, max_length = 200)]
    pub model: Option<String>,
    /// The code host of the repository.
    pub code_host: Option<CodeHostChanges>,
    /// The settings of the project's pull requests.
    pub pull_request: Option<PullRequestChanges>,
    /// The limits of the project.
    pub limits: Option<LimitChanges>,
    /// The settings of the sandbox of the project's agents.
    pub sandbox: Option<SandboxChanges>,
    /// Environment variables for the setup command and the agent; `null` removes a variable.
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub environment: Option<BTreeMap<String, String>>,
    /// A shell command that prepares a new workspace, such as `npm ci`.
    #[schema(max_length = 20_000)]
    pub setup: Option<String>,
    /// The processes that get each secret; only the setup command gets a secret that is not listed. `null` removes an
    /// entry.
    #[schema(value_type = Option<BTreeMap<String, Option<Vec<SecretUse>>>>)]
    pub secret_uses: Option<BTreeMap<String, Vec<SecretUse>>>,
    /// Secret variables for the processes in `secretUses`. They are never shown again; `null` removes a variable.
    // Secrets are removed from the document before it is parsed here, so that no error can quote a value.
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>, write_only)]
    pub secrets: Option<IgnoredAny>,
}

/// The code host of a project's repository.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct CodeHostChanges {
    /// The kind of code host; by default, it is detected from the repository.
    pub kind: Option<CodeHostKind>,
    /// The user name to send with the token over HTTP.
    #[schema(min_length = 1, max_length = 200)]
    pub username: Option<String>,
    /// The credential for the repository. It is never shown again. `null` removes it.
    #[schema(value_type = Option<String>, write_only)]
    pub token: Option<IgnoredAny>,
}

/// The settings of a project's pull requests. In the templates, `{title}`, `{prompt}`, `{job}`, and `{branch}` are
/// replaced.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct PullRequestChanges {
    /// `true` to open pull requests as drafts; by default, `false`.
    pub draft: Option<bool>,
    /// The branch to merge into; by default, the project's `ref` if that is a branch, or else the default branch.
    #[schema(min_length = 1, max_length = 200)]
    pub base: Option<String>,
    /// The template of the title; by default, `{title}`.
    #[schema(max_length = 20_000)]
    pub title: Option<String>,
    /// The template of the body; by default, the prompt and the job's ID.
    #[schema(max_length = 20_000)]
    pub body: Option<String>,
    /// The labels of the pull requests.
    #[schema(max_items = 50)]
    pub labels: Option<Vec<String>>,
}

/// The limits of a project.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitChanges {
    /// The maximum duration of a run, in seconds; by default, 3600.
    #[schema(minimum = 1, maximum = 604_800)]
    pub run_seconds: Option<u32>,
    /// The maximum number of jobs created per hour; by default, the server's limit. 0 means no limit.
    pub create_per_hour: Option<u32>,
    /// The maximum number of messages sent per hour; by default, the server's limit. 0 means no limit.
    pub message_per_hour: Option<u32>,
    /// The maximum size of a file in a commit, in bytes; by default, 104857600.
    #[schema(minimum = 1)]
    pub file_bytes: Option<u64>,
    /// The maximum number of concurrent runs, on all workers together; by default, only the workers limit it.
    #[schema(minimum = 1)]
    pub concurrent_runs: Option<u32>,
    /// The maximum memory of a run, in bytes; by default, 4294967296.
    #[schema(minimum = 67_108_864)]
    pub memory_bytes: Option<u64>,
    /// The maximum number of processes and threads of a run; by default, 1024.
    #[schema(minimum = 16, maximum = 4_194_304)]
    pub processes: Option<u32>,
    /// The maximum CPU usage of a run, in thousandths of a processor; by default, no limit.
    #[schema(minimum = 100, maximum = 1_000_000)]
    pub cpu_millis: Option<u32>,
    /// The maximum size of a job's workspace and home together, in bytes; by default, 10737418240.
    #[schema(minimum = 1_048_576)]
    pub disk_bytes: Option<u64>,
    /// The maximum output of an agent in one turn, in bytes, including the output of tools; by default, 536870912.
    #[schema(minimum = 1_048_576)]
    pub output_bytes: Option<u64>,
    /// The maximum number of automatic continuations of a turn that was cut short by the model's token limit, by the
    /// agent's call limit, or for an unknown reason; by default, 2.
    #[schema(maximum = 100)]
    pub continuations: Option<u32>,
    /// The maximum number of model calls of the built-in agent in one turn; by default, 200.
    #[schema(minimum = 1, maximum = 100_000)]
    pub model_calls: Option<u32>,
    /// The budgets for model calls.
    pub budget: Option<BudgetChanges>,
}

/// The budgets for model calls, in millionths of a US dollar; by default, there is no limit. A call that could exceed a
/// budget is not made, and the run fails.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetChanges {
    /// The budget of one run.
    pub run_micros: Option<u64>,
    /// The budget of a job, for all of its runs.
    pub job_micros: Option<u64>,
    /// The budget of the project for one day in UTC.
    pub day_micros: Option<u64>,
    /// The budget of the project in total.
    pub project_micros: Option<u64>,
}

/// The settings of the sandbox of a project's agents.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxChanges {
    /// The answer to permission requests; by default, `allow`.
    pub permissions: Option<Permissions>,
    /// The answers by kind of tool call. Kinds that are not listed get the answer in `permissions`. `null` removes an
    /// entry.
    #[schema(value_type = Option<BTreeMap<String, Permissions>>)]
    pub permission_kinds: Option<BTreeMap<ToolKind, Permissions>>,
    /// The destinations that programs may reach over HTTPS: `name:port`, or the name of a preset (`cargo`, `composer`,
    /// `debian`, `go`, `hex`, `maven`, `npm`, `nuget`, `pub`, `pypi`, `rubygems`); by default, none.
    #[schema(max_items = 200)]
    pub egress: Option<Vec<String>>,
    /// The container image, if the server runs agents in containers; by default, the server's image.
    #[schema(min_length = 1, max_length = 200)]
    pub image: Option<String>,
    /// The policy for pulling the image; by default, `missing`.
    pub pull: Option<Pull>,
}

/// The schema of a project to create. There are no values of this type, because the request is read as a patch of an
/// empty document.
pub(crate) enum CreateProject {}

impl PartialSchema for CreateProject {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut object)) = ProjectChanges::schema() else { return ProjectChanges::schema() };
        object.description =
            Some("A project to create; all fields except `id` and `repository` have defaults.".to_owned());
        object.required = vec!["id".to_owned(), "repository".to_owned()];
        if let Some(RefOr::T(Schema::Object(repository))) = object.properties.get_mut("repository") {
            repository.schema_type = SchemaType::Type(Type::String);
        }
        let id = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[a-z0-9][a-z0-9-]{0,62}$"));
        object.properties.insert(
            "id".to_owned(),
            id.description(Some("The ID of the project in URLs, which cannot be changed.")).into(),
        );
        object.into()
    }
}

impl ToSchema for CreateProject {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ProjectChanges::schemas(schemas);
    }
}

impl ProjectChanges {
    /// Returns the settings that a complete document describes.
    pub(super) fn settings(self) -> project::Settings {
        let host = self.code_host.unwrap_or_default();
        let pulls = self.pull_request.unwrap_or_default();
        let mut limits = self.limits.unwrap_or_default();
        let budget = limits.budget.take().unwrap_or_default();
        let sandbox = self.sandbox.unwrap_or_default();
        project::Settings {
            code_host: CodeHostSettings { kind: host.kind.map(CodeHostKind::into), username: host.username },
            pull_request: PullRequestSettings {
                draft: pulls.draft.unwrap_or_default(),
                base: pulls.base,
                title: pulls.title,
                body: pulls.body,
                labels: pulls.labels.unwrap_or_default(),
            },
            limits: LimitSettings {
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
                budget: Budgets {
                    run: budget.run_micros,
                    job: budget.job_micros,
                    day: budget.day_micros,
                    project: budget.project_micros,
                },
            },
            sandbox: SandboxSettings {
                permissions: sandbox.permissions.unwrap_or_default().into(),
                permission_kinds: (sandbox.permission_kinds.unwrap_or_default().into_iter())
                    .map(|(kind, policy)| (kind.into(), policy.into()))
                    .collect(),
                egress: sandbox.egress.unwrap_or_default(),
                image: sandbox.image,
                pull: sandbox.pull.unwrap_or_default().into(),
            },
            environment: self.environment.unwrap_or_default(),
            setup: self.setup,
            secret_uses: (self.secret_uses.unwrap_or_default().into_iter())
                .map(|(name, uses)| (name, uses.into_iter().map(Into::into).collect()))
                .collect(),
        }
    }
}
