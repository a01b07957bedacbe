//! The parts of a project's document, in the form in which clients read them.

use std::collections::BTreeMap;

use journeyman_core::model::budget::Budgets;
use journeyman_core::project::{
    CheckSettings, CheckoutSettings, CommentSettings, CommitSettings, LimitSettings, PullRequestSettings,
    SandboxSettings,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::choices::{
    Answers, CheckMode, CiFiles, CodeHostKind, KeepUpToDate, Lfs, Permissions, Pull, Resolve, ReviewRequests, Reviews,
    Submodules, ToolKind,
};

/// The code host of a project's repository.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeHost {
    /// The kind of code host; `null` means that it is found by the repository's address.
    #[schema(required)]
    pub kind: Option<CodeHostKind>,
    /// The ID of a code host of the installation; `null` means that it is found by the repository's address.
    #[schema(required)]
    pub host: Option<String>,
    /// The user name to send with the token over HTTP.
    #[schema(required)]
    pub username: Option<String>,
    /// `true` if there is a credential, which is set with `token` and never shown.
    pub has_token: bool,
    /// `true` if there is a secret for the webhooks of this project, which is set with `webhookSecret` and never shown.
    pub has_webhook_secret: bool,
    /// `true` if pushes may overwrite commits of the default branch on the built-in code host.
    pub allow_force_push: bool,
}

/// The content that a checkout has beside the commit's own files.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkout {
    /// The treatment of submodules.
    pub submodules: Submodules,
    /// The treatment of files in Git LFS.
    pub lfs: Lfs,
}

impl From<CheckoutSettings> for Checkout {
    fn from(CheckoutSettings { submodules, lfs }: CheckoutSettings) -> Self {
        Self { submodules: submodules.into(), lfs: lfs.into() }
    }
}

/// The settings of the commits that the service makes for a project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Commits {
    /// The template of the subject; `null` means `{subject}`. `{subject}` is what was done, `{summary}` is the same with a
    /// small first letter, `{type}` is its type in Conventional Commits, `{issue}` the issue that asked for it, and
    /// `{branch}` the branch.
    #[schema(required)]
    pub subject: Option<String>,
    /// `true` if commits name the person at the code host who asked for the work as a co-author.
    pub co_authors: bool,
}

impl From<CommitSettings> for Commits {
    fn from(CommitSettings { subject, co_authors }: CommitSettings) -> Self {
        Self { subject, co_authors }
    }
}

/// The settings of a project's pull requests. In the templates, `{title}`, `{summary}`, `{prompt}`, `{job}`, `{branch}`,
/// `{url}`, and `{cost}` are replaced.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// `true` to open pull requests as drafts.
    pub draft: bool,
    /// The branch to merge into; `null` means the project's `ref` if that is a branch, or else the default branch.
    #[schema(required)]
    pub base: Option<String>,
    /// The template of the title; `null` means `{title}`.
    #[schema(required)]
    pub title: Option<String>,
    /// The template of the body; `null` means the agent's answer, the prompt, and a link to the job.
    #[schema(required)]
    pub body: Option<String>,
    /// The labels of the pull requests.
    pub labels: Vec<String>,
    /// The users, and teams as `owner/team`, who are asked for a review.
    pub reviewers: Vec<String>,
    /// The users who are assigned.
    pub assignees: Vec<String>,
    /// The policy for commits that change files of CI pipelines.
    pub ci_files: CiFiles,
    /// More files of CI pipelines, which commits must not change either: paths from the root, in which `*` stands for any
    /// characters but `/`, and `**` for any characters. A path that ends with `/` stands for all files in the folder.
    pub ci_paths: Vec<String>,
    /// The branches that jobs never push to, in addition to those that work is merged into. `*` stands for any characters
    /// but `/`, and `**` for any characters.
    pub protected_branches: Vec<String>,
    /// `true` if a job is archived when its pull request is merged.
    pub archive_on_merge: bool,
    /// The reaction to new commits of the branch that an open pull request is merged into.
    pub keep_up_to_date: KeepUpToDate,
    /// `true` if the code host is asked to merge a new pull request when all requirements are met.
    pub auto_merge: bool,
}

impl From<PullRequestSettings> for PullRequest {
    fn from(settings: PullRequestSettings) -> Self {
        Self {
            draft: settings.draft,
            base: settings.base,
            title: settings.title,
            body: settings.body,
            labels: settings.labels,
            reviewers: settings.reviewers,
            assignees: settings.assignees,
            ci_files: settings.ci_files.into(),
            ci_paths: settings.ci_paths,
            protected_branches: settings.protected_branches,
            archive_on_merge: settings.archive_on_merge,
            keep_up_to_date: settings.keep_up_to_date.into(),
            auto_merge: settings.auto_merge,
        }
    }
}

/// The treatment of comments and issues on the code host.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comments {
    /// The submitted reviews that become messages.
    pub reviews: Reviews,
    /// The name to mention, without `@`; `null` means the name of the service's user on the code host, and
    /// `journeyman`.
    #[schema(required)]
    pub mention: Option<String>,
    /// The time after the last comment until comments become one message, in seconds; `null` means 20,
    /// and 0 on the built-in code host.
    #[schema(required, maximum = 120)]
    pub settle_seconds: Option<u32>,
    /// The label that makes a job of an issue; `null` means `journeyman`, and an empty text no label.
    #[schema(required)]
    pub issue_label: Option<String>,
    /// What people are told at the code host whose comments led to nothing.
    pub answers: Answers,
    /// The people who may ask for a review of a pull request.
    pub review_requests: ReviewRequests,
    /// The threads that the service marks as resolved. Hosts without resolution of threads ignore it.
    pub resolve: Resolve,
}

impl From<CommentSettings> for Comments {
    fn from(settings: CommentSettings) -> Self {
        let CommentSettings { reviews, mention, settle_seconds, issue_label, answers, review_requests, resolve } =
            settings;
        let (reviews, answers, review_requests) = (reviews.into(), answers.into(), review_requests.into());
        Self { reviews, mention, settle_seconds, issue_label, answers, review_requests, resolve: resolve.into() }
    }
}

/// The treatment of the checks of pull requests.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checks {
    /// The reaction to failed checks.
    pub mode: CheckMode,
    /// The maximum number of automatic attempts for one pull request; `null` means 3.
    #[schema(required, minimum = 1, maximum = 20)]
    pub attempts: Option<u32>,
    /// The longest time to wait for checks that have not begun, in seconds; `null` means 600.
    #[schema(required, minimum = 0, maximum = 86_400)]
    pub settle_seconds: Option<u32>,
    /// The names of the checks that count, where `*` stands for any text; empty means all.
    pub only: Vec<String>,
    /// The names of the checks that do not count, where `*` stands for any text.
    pub ignore: Vec<String>,
}

impl From<CheckSettings> for Checks {
    fn from(settings: CheckSettings) -> Self {
        let CheckSettings { mode, attempts, settle_seconds, only, ignore } = settings;
        Self { mode: mode.into(), attempts, settle_seconds, only, ignore }
    }
}

/// The limits of a project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The maximum duration of a run, in seconds; `null` means 3600.
    #[schema(required, minimum = 1, maximum = 604_800)]
    pub run_seconds: Option<u32>,
    /// The maximum number of jobs created per hour; `null` means the server's limit, and 0 no limit.
    #[schema(required)]
    pub create_per_hour: Option<u32>,
    /// The maximum number of messages sent per hour; `null` means the server's limit, and 0 no limit.
    #[schema(required)]
    pub message_per_hour: Option<u32>,
    /// The maximum size of a file in a commit, in bytes; `null` means 104857600.
    #[schema(required, minimum = 1)]
    pub file_bytes: Option<u64>,
    /// The maximum number of concurrent runs, on all workers together; `null` means that only the workers limit it.
    #[schema(required, minimum = 1)]
    pub concurrent_runs: Option<u32>,
    /// The maximum memory of a run, in bytes; `null` means 4294967296.
    #[schema(required, minimum = 67_108_864)]
    pub memory_bytes: Option<u64>,
    /// The maximum number of processes and threads of a run; `null` means 1024.
    #[schema(required, minimum = 16, maximum = 4_194_304)]
    pub processes: Option<u32>,
    /// The maximum CPU usage of a run, in thousandths of a processor; `null` means no limit.
    #[schema(required, minimum = 100, maximum = 1_000_000)]
    pub cpu_millis: Option<u32>,
    /// The maximum size of a job's workspace and home together, in bytes; `null` means 10737418240.
    #[schema(required, minimum = 1_048_576)]
    pub disk_bytes: Option<u64>,
    /// The maximum output of an agent in one turn, in bytes, including the output of tools; `null` means 536870912.
    #[schema(required, minimum = 1_048_576)]
    pub output_bytes: Option<u64>,
    /// The maximum number of automatic continuations of a turn that was cut short by the model's token limit, by the
    /// agent's call limit, or for an unknown reason; `null` means 2.
    #[schema(required, maximum = 100)]
    pub continuations: Option<u32>,
    /// The maximum number of model calls of the built-in agent in one turn; `null` means 200.
    #[schema(required, minimum = 1, maximum = 100_000)]
    pub model_calls: Option<u32>,
    /// The maximum number of automatic messages of a job in a day, such as those about failed checks; `null` means 20.
    #[schema(required, maximum = 1000)]
    pub automatic_per_day: Option<u32>,
    /// The budgets for model calls.
    pub budget: Budget,
}

/// The budgets for model calls, in millionths of a US dollar; `null` means no limit. A call that could exceed a budget
/// is not made, and the run fails.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The budget of one run.
    #[schema(required)]
    pub run_micros: Option<u64>,
    /// The budget of a job, for all of its runs.
    #[schema(required)]
    pub job_micros: Option<u64>,
    /// The budget of the project for one day in UTC.
    #[schema(required)]
    pub day_micros: Option<u64>,
    /// The budget of the project in total.
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
            automatic_per_day: limits.automatic_per_day,
            budget: limits.budget.into(),
        }
    }
}

impl From<Budgets> for Budget {
    fn from(Budgets { run, job, day, project }: Budgets) -> Self {
        Self { run_micros: run, job_micros: job, day_micros: day, project_micros: project }
    }
}

/// The settings of the sandbox of a project's agents.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// The answer to permission requests.
    pub permissions: Permissions,
    /// The answers by kind of tool call. Kinds that are not listed get the answer in `permissions`.
    pub permission_kinds: BTreeMap<ToolKind, Permissions>,
    /// The destinations that programs may reach over HTTPS: `name:port`, or the name of a preset, such as `npm`.
    pub egress: Vec<String>,
    /// The container image, if the server runs agents in containers; `null` means the server's image.
    #[schema(required)]
    pub image: Option<String>,
    /// The policy for pulling the image.
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
