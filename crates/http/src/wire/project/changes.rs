//! What a client may say about a project. Every field may be left out: what that means is in [`super::patch`].

use std::collections::BTreeMap;

use journeyman_core::model::price::Budgets;
use journeyman_core::project::{self, CodeHostSettings, LimitSettings, PullRequestSettings, SandboxSettings};
use serde::Deserialize;
use serde::de::IgnoredAny;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::choices::{CodeHostKind, Permissions, Pull, SecretUse, ToolKind};

/// What a client may set of a project. Left out: kept as it is, or the default at creation; `null`: the default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectChanges {
    /// A URL, an absolute path on the server, or `local:<name>` for one on the built-in code host, made empty if it is
    /// not there.
    #[schema(min_length = 2, max_length = 1000)]
    pub repository: Option<String>,
    /// The branch, tag or commit that jobs start from.
    #[schema(min_length = 1, max_length = 200)]
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The agent of its jobs.
    #[schema(min_length = 1, max_length = 200)]
    pub agent: Option<String>,
    /// The model of its jobs.
    #[schema(min_length = 1, max_length = 200)]
    pub model: Option<String>,
    /// Where its repository lives.
    pub code_host: Option<CodeHostChanges>,
    /// How its pull requests look.
    pub pull_request: Option<PullRequestChanges>,
    /// How much it may use.
    pub limits: Option<LimitChanges>,
    /// How its agents are contained.
    pub sandbox: Option<SandboxChanges>,
    /// Variables for the setup command and the agent; `null` removes one.
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub environment: Option<BTreeMap<String, String>>,
    /// A shell command that prepares a fresh workspace, such as `npm ci`.
    #[schema(max_length = 20_000)]
    pub setup: Option<String>,
    /// Which processes get which secret; one that is not named is for the setup command alone. `null` removes an entry.
    #[schema(value_type = Option<BTreeMap<String, Option<Vec<SecretUse>>>>)]
    pub secret_uses: Option<BTreeMap<String, Vec<SecretUse>>>,
    /// Secret variables for the processes that `secretUses` names, never shown again; `null` removes one.
    // Taken out of the document before it is read here, so that no error can quote a value.
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>, write_only)]
    pub secrets: Option<IgnoredAny>,
}

/// Where a project's repository lives.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct CodeHostChanges {
    /// Detected from the repository unless given.
    pub kind: Option<CodeHostKind>,
    /// The user name that goes with the token over HTTP.
    #[schema(min_length = 1, max_length = 200)]
    pub username: Option<String>,
    /// The credential for the repository, never shown again; `null` removes it.
    #[schema(value_type = Option<String>, write_only)]
    pub token: Option<IgnoredAny>,
}

/// How a project's pull requests look. In the templates `{title}`, `{prompt}`, `{job}` and `{branch}` are replaced.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct PullRequestChanges {
    /// Whether they open as drafts.
    pub draft: Option<bool>,
    /// The branch they are to be merged into; the project's ref if that is a branch, else the default branch.
    #[schema(min_length = 1, max_length = 200)]
    pub base: Option<String>,
    /// Template of the title; `{title}` unless given.
    #[schema(max_length = 20_000)]
    pub title: Option<String>,
    /// Template of the body; the prompt and the job's id unless given.
    #[schema(max_length = 20_000)]
    pub body: Option<String>,
    /// Labels to put on.
    #[schema(max_items = 50)]
    pub labels: Option<Vec<String>>,
}

/// How much a project may use.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitChanges {
    /// Seconds that one run may take; 3600 unless given.
    #[schema(minimum = 1, maximum = 604_800)]
    pub run_seconds: Option<u32>,
    /// Jobs created in an hour; as the server says unless given; 0: no limit.
    pub create_per_hour: Option<u32>,
    /// Messages sent in an hour; as the server says unless given; 0: no limit.
    pub message_per_hour: Option<u32>,
    /// Bytes that one file in a commit may have; 104857600 unless given.
    #[schema(minimum = 1)]
    pub file_bytes: Option<u64>,
    /// Runs at a time, on all workers together; as many as there are places unless given.
    #[schema(minimum = 1)]
    pub concurrent_runs: Option<u32>,
    /// Bytes of memory that a run may use; 4294967296 unless given.
    #[schema(minimum = 67_108_864)]
    pub memory_bytes: Option<u64>,
    /// Processes and threads that a run may have; 1024 unless given.
    #[schema(minimum = 16, maximum = 4_194_304)]
    pub processes: Option<u32>,
    /// Thousandths of a processor that a run gets at most; no limit unless given.
    #[schema(minimum = 100, maximum = 1_000_000)]
    pub cpu_millis: Option<u32>,
    /// Bytes that workspace and home of a job may have together; 10737418240 unless given.
    #[schema(minimum = 1_048_576)]
    pub disk_bytes: Option<u64>,
    /// Bytes that an agent may say in one turn, tools' output among it; 536870912 unless given.
    #[schema(minimum = 1_048_576)]
    pub output_bytes: Option<u64>,
    /// The most automatic continuations of a turn that was cut short by the model's limit of tokens, by the agent's limit
    /// of calls, or for an unknown reason; 2 unless given.
    #[schema(maximum = 100)]
    pub continuations: Option<u32>,
    /// Calls of the model that the built-in agent may make in one turn; 200 unless given.
    #[schema(minimum = 1, maximum = 100_000)]
    pub model_calls: Option<u32>,
    /// What calls of models may cost.
    pub budget: Option<BudgetChanges>,
}

/// What calls of models may cost, in millionths of a US dollar; anything unless given. A call that could go beyond is not
/// made, and the run fails.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetChanges {
    /// Those of one run.
    pub run_micros: Option<u64>,
    /// Those of a job, over all of its runs.
    pub job_micros: Option<u64>,
    /// Those of the project in one day of UTC.
    pub day_micros: Option<u64>,
    /// Those of the project.
    pub project_micros: Option<u64>,
}

/// How a project's agents are contained.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxChanges {
    /// How permission requests are answered; `allow` unless given.
    pub permissions: Option<Permissions>,
    /// By what an agent wants to do; as `permissions` says unless given. `null` removes an entry.
    #[schema(value_type = Option<BTreeMap<String, Permissions>>)]
    pub permission_kinds: Option<BTreeMap<ToolKind, Permissions>>,
    /// What programs may reach by https: `name:port`, or the name of a preset (`cargo`, `composer`, `debian`, `go`, `hex`,
    /// `maven`, `npm`, `nuget`, `pub`, `pypi`, `rubygems`); nothing unless given.
    #[schema(max_items = 200)]
    pub egress: Option<Vec<String>>,
    /// The image of its containers, where the server runs agents in containers; the server's unless given.
    #[schema(min_length = 1, max_length = 200)]
    pub image: Option<String>,
    /// When it is fetched; `missing` unless given.
    pub pull: Option<Pull>,
}

/// A project that is to be: its schema alone, because a creation is read as the patch of an empty document.
pub(crate) enum CreateProject {}

impl PartialSchema for CreateProject {
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut object)) = ProjectChanges::schema() else { return ProjectChanges::schema() };
        object.description =
            Some("A project that is to be; everything but `id` and `repository` has a default.".to_owned());
        object.required = vec!["id".to_owned(), "repository".to_owned()];
        if let Some(RefOr::T(Schema::Object(repository))) = object.properties.get_mut("repository") {
            repository.schema_type = SchemaType::Type(Type::String);
        }
        let id = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[a-z0-9][a-z0-9-]{0,62}$"));
        object.properties.insert("id".to_owned(), id.description(Some("Its name in URLs, for ever.")).into());
        object.into()
    }
}

impl ToSchema for CreateProject {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ProjectChanges::schemas(schemas);
    }
}

impl ProjectChanges {
    /// The settings that a whole document describes.
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
