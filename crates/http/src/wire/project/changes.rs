//! The fields of a project that a client may send. All of them are optional; [`super::patch`] defines the meaning of
//! an absent field.

use std::collections::BTreeMap;

use journeyman_core::model::budget::Budgets;
use journeyman_core::project::{
    self, CheckSettings, CheckoutSettings, CodeHostSettings, CommentSettings, CommitSettings, LimitSettings,
    PullRequestSettings, SandboxSettings,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::choices::{
    Answers, CheckMode, CiFiles, CodeHostKind, Effort, KeepUpToDate, Lfs, Permissions, Pull, Resolve, ReviewRequests,
    Reviews, SecretUse, Submodules, ToolKind,
};

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
    /// The effort of the model in the project's jobs; by default, the agent's, or else the model's own.
    pub effort: Option<Effort>,
    /// The code host of the repository.
    pub code_host: Option<CodeHostChanges>,
    /// The content of checkouts.
    pub checkout: Option<CheckoutChanges>,
    /// The settings of the commits that the service makes.
    pub commits: Option<CommitChanges>,
    /// The settings of the project's pull requests.
    pub pull_request: Option<PullRequestChanges>,
    /// The treatment of comments and issues on the code host.
    pub comments: Option<CommentChanges>,
    /// The treatment of the checks of pull requests.
    pub checks: Option<CheckChanges>,
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
#[serde(rename_all = "camelCase")]
pub struct CodeHostChanges {
    /// The kind of code host; by default, it is found by the repository's address.
    pub kind: Option<CodeHostKind>,
    /// The ID of a code host of the installation; by default, it is found by the repository's address.
    #[schema(pattern = "^[a-z0-9][a-z0-9.-]{0,62}$")]
    pub host: Option<String>,
    /// The user name to send with the token over HTTP.
    #[schema(min_length = 1, max_length = 200)]
    pub username: Option<String>,
    /// The credential for the repository. It is never shown again. `null` removes it.
    #[schema(value_type = Option<String>, write_only)]
    pub token: Option<IgnoredAny>,
    /// The secret with which the code host signs the webhooks of this project. It is never shown again. `null` removes
    /// it.
    #[schema(value_type = Option<String>, write_only)]
    pub webhook_secret: Option<IgnoredAny>,
    /// `true` to let pushes overwrite commits of the default branch on the built-in code host; by default, `false`.
    pub allow_force_push: Option<bool>,
}

/// The content that a checkout has beside the commit's own files.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutChanges {
    /// The treatment of submodules; by default, `read`.
    pub submodules: Option<Submodules>,
    /// The treatment of files in Git LFS; by default, `fetch`.
    pub lfs: Option<Lfs>,
}

/// The settings of the commits that the service makes for a project.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitChanges {
    /// The template of the subject; by default, `{subject}`. `{subject}` is what was done, `{summary}` is the same with a
    /// small first letter, `{type}` is its type in Conventional Commits, `{issue}` the issue that asked for it, and
    /// `{branch}` the branch.
    pub subject: Option<String>,
    /// `true` if commits name the person at the code host who asked for the work as a co-author; by default, `true`.
    pub co_authors: Option<bool>,
}

/// The settings of a project's pull requests. In the templates, `{title}`, `{summary}`, `{prompt}`, `{job}`, `{branch}`,
/// `{url}`, and `{cost}` are replaced.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestChanges {
    /// `true` to open pull requests as drafts; by default, `false`.
    pub draft: Option<bool>,
    /// The branch to merge into; by default, the project's `ref` if that is a branch, or else the default branch.
    #[schema(min_length = 1, max_length = 200)]
    pub base: Option<String>,
    /// The template of the title; by default, `{title}`.
    #[schema(max_length = 20_000)]
    pub title: Option<String>,
    /// The template of the body; by default, the agent's answer, the prompt, and a link to the job.
    #[schema(max_length = 20_000)]
    pub body: Option<String>,
    /// The labels of the pull requests.
    #[schema(max_items = 50)]
    pub labels: Option<Vec<String>>,
    /// The users, and teams as `owner/team`, to ask for a review.
    #[schema(max_items = 50)]
    pub reviewers: Option<Vec<String>>,
    /// The users to assign.
    #[schema(max_items = 50)]
    pub assignees: Option<Vec<String>>,
    /// The policy for commits that change files of CI pipelines, such as `.github/workflows`; by default, `refuse`.
    pub ci_files: Option<CiFiles>,
    /// More files of CI pipelines, which commits must not change either: paths from the root, in which `*` stands for any
    /// characters but `/`, and `**` for any characters. A path that ends with `/` stands for all files in the folder.
    #[schema(max_items = 50)]
    pub ci_paths: Option<Vec<String>>,
    /// The branches that jobs never push to, in addition to those that work is merged into. `*` stands for any characters
    /// but `/`, and `**` for any characters.
    #[schema(max_items = 50)]
    pub protected_branches: Option<Vec<String>>,
    /// `true` to archive a job when its pull request is merged; by default, `false`.
    pub archive_on_merge: Option<bool>,
    /// The reaction to new commits of the branch that an open pull request is merged into; by default, `off`.
    pub keep_up_to_date: Option<KeepUpToDate>,
    /// `true` to ask the code host to merge a new pull request when all requirements are met, such as checks and
    /// approvals; by default, `false`.
    pub auto_merge: Option<bool>,
}

/// The treatment of comments and issues on the code host.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommentChanges {
    /// The submitted reviews that become messages; by default, `all`.
    pub reviews: Option<Reviews>,
    /// The name to mention, without `@`; by default, the name of the service's user on the code host, and `journeyman`.
    #[schema(min_length = 1, max_length = 200)]
    pub mention: Option<String>,
    /// The time after the last comment until comments become one message, in seconds; by default, 20,
    /// and 0 on the built-in code host.
    #[schema(maximum = 120)]
    pub settle_seconds: Option<u32>,
    /// The label that makes a job of an issue; by default, `journeyman`. An empty text means no label.
    #[schema(max_length = 200)]
    pub issue_label: Option<String>,
    /// What people are told at the code host whose comments led to nothing; by default, `full`.
    pub answers: Option<Answers>,
    /// The people who may ask for a review of a pull request; by default, `write`.
    pub review_requests: Option<ReviewRequests>,
    /// The threads that the service marks as resolved; by default, `never`.
    pub resolve: Option<Resolve>,
}

/// The treatment of the checks of pull requests.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckChanges {
    /// The reaction to failed checks; by default, `report`.
    pub mode: Option<CheckMode>,
    /// The maximum number of automatic attempts for one pull request; by default, 3.
    #[schema(minimum = 1, maximum = 20)]
    pub attempts: Option<u32>,
    /// The longest time to wait for checks that have not begun, in seconds; by default, 600.
    #[schema(minimum = 0, maximum = 86_400)]
    pub settle_seconds: Option<u32>,
    /// The names of the checks that count, where `*` stands for any text; by default, all.
    #[schema(max_items = 50)]
    pub only: Option<Vec<String>>,
    /// The names of the checks that do not count, where `*` stands for any text; by default, none.
    #[schema(max_items = 50)]
    pub ignore: Option<Vec<String>>,
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
    /// The maximum number of automatic messages of a job in a day, such as those about failed checks; by default, 20.
    #[schema(maximum = 1000)]
    pub automatic_per_day: Option<u32>,
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
    ///
    /// # Errors
    /// A field is not valid; the error is a sentence that names it.
    pub(super) fn settings(self) -> Result<project::Settings, String> {
        let host = self.code_host.unwrap_or_default();
        let checkout = self.checkout.unwrap_or_default();
        let commits = self.commits.unwrap_or_default();
        let pulls = self.pull_request.unwrap_or_default();
        let mut limits = self.limits.unwrap_or_default();
        let budget = limits.budget.take().unwrap_or_default();
        let sandbox = self.sandbox.unwrap_or_default();
        let (comments, checks) = (self.comments.unwrap_or_default(), self.checks.unwrap_or_default());
        Ok(project::Settings {
            effort: self.effort.map(Effort::into),
            code_host: CodeHostSettings {
                kind: host.kind.map(CodeHostKind::into),
                host: host.host.map(|id| id.parse()).transpose().map_err(|error| format!("codeHost.host: {error}"))?,
                username: host.username,
                allow_force_push: host.allow_force_push.unwrap_or_default(),
            },
            checkout: CheckoutSettings {
                submodules: checkout.submodules.unwrap_or_default().into(),
                lfs: checkout.lfs.unwrap_or_default().into(),
            },
            commits: CommitSettings {
                subject: commits.subject,
                co_authors: commits.co_authors.unwrap_or(CommitSettings::default().co_authors),
            },
            pull_request: PullRequestSettings {
                draft: pulls.draft.unwrap_or_default(),
                base: pulls.base,
                title: pulls.title,
                body: pulls.body,
                labels: pulls.labels.unwrap_or_default(),
                reviewers: pulls.reviewers.unwrap_or_default(),
                assignees: pulls.assignees.unwrap_or_default(),
                ci_files: pulls.ci_files.unwrap_or_default().into(),
                ci_paths: pulls.ci_paths.unwrap_or_default(),
                protected_branches: pulls.protected_branches.unwrap_or_default(),
                archive_on_merge: pulls.archive_on_merge.unwrap_or_default(),
                keep_up_to_date: pulls.keep_up_to_date.unwrap_or_default().into(),
                auto_merge: pulls.auto_merge.unwrap_or_default(),
            },
            comments: CommentSettings {
                reviews: comments.reviews.unwrap_or_default().into(),
                mention: comments.mention,
                settle_seconds: comments.settle_seconds,
                issue_label: comments.issue_label,
                answers: comments.answers.unwrap_or_default().into(),
                review_requests: comments.review_requests.unwrap_or_default().into(),
                resolve: comments.resolve.unwrap_or_default().into(),
            },
            checks: CheckSettings {
                mode: checks.mode.unwrap_or_default().into(),
                attempts: checks.attempts,
                settle_seconds: checks.settle_seconds,
                only: checks.only.unwrap_or_default(),
                ignore: checks.ignore.unwrap_or_default(),
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
                automatic_per_day: limits.automatic_per_day,
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
        })
    }
}
