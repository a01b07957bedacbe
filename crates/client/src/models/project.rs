//! Projects.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Project {
    /// The ID: a slug that is chosen at creation.
    pub id: String,
    /// The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host.
    pub repository: String,
    /// The URL at which git reaches a `local:` repository, with a key as the password; `None` for other repositories.
    pub clone_url: Option<String>,
    /// The branch, tag, or commit that jobs start from; `None` means the repository's default branch.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The agent of the project's jobs.
    pub agent: String,
    /// The model of the project's jobs.
    pub model: String,
    /// The effort of the model in the project's jobs; `None` means the agent's, or else the model's default.
    pub effort: Option<Effort>,
    /// The time of creation.
    pub created_at: String,
    /// The code host of the repository.
    pub code_host: CodeHost,
    /// The content of checkouts; `None` from a server that does not have this setting.
    pub checkout: Option<Checkout>,
    /// The settings of the commits that the service makes; `None` from a server that does not have this setting.
    pub commits: Option<Commits>,
    /// The settings of the project's pull requests.
    pub pull_request: PullRequest,
    /// The treatment of comments and issues on the code host.
    pub comments: Comments,
    /// The treatment of the checks of pull requests.
    pub checks: Checks,
    /// The limits of the project.
    pub limits: Limits,
    /// The settings of the sandbox of the project's agents.
    pub sandbox: Sandbox,
    /// Environment variables for the setup command and the agent.
    pub environment: BTreeMap<String, String>,
    /// A shell command that prepares a new workspace.
    pub setup: Option<String>,
    /// The processes that get each secret; only the setup command gets a secret that is not listed.
    pub secret_uses: BTreeMap<String, Vec<SecretUse>>,
    /// The names of the project's secrets; the values are never shown.
    pub secrets: Vec<String>,
}

/// The code host of a project's repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CodeHost {
    /// The kind of code host; `None` means that it is found by the repository's address.
    pub kind: Option<CodeHostKind>,
    /// The ID of a code host of the installation; `None` means that it is found by the repository's address.
    pub host: Option<String>,
    /// The user name to send with the token over HTTP.
    pub username: Option<String>,
    /// `true` if there is a credential, which is set with `token` and never shown.
    pub has_token: bool,
    /// `true` if there is a secret for the webhooks of this project, which is set with `webhookSecret` and never
    /// shown.
    pub has_webhook_secret: bool,
    /// `true` if pushes may overwrite commits of the default branch on the built-in code host.
    #[serde(default)]
    pub allow_force_push: bool,
}

/// The settings of the commits that the service makes for a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Commits {
    /// The template of the subject; `None` means `{subject}`. `{subject}` is what was done, `{summary}` is the same with a
    /// small first letter, `{type}` is its type in Conventional Commits, `{issue}` the issue that asked for it, and
    /// `{branch}` the branch.
    pub subject: Option<String>,
    /// `true` if commits name the person at the code host who asked for the work as a co-author.
    pub co_authors: bool,
}

/// The content that a checkout has beside the commit's own files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Checkout {
    /// The treatment of submodules.
    pub submodules: Submodules,
    /// The treatment of files in Git LFS.
    pub lfs: Lfs,
}

open_enum! {
    /// The treatment of submodules.
    Submodules {
        /// The folders of submodules are empty.
        Off = "off",
        /// Submodules are filled, and agents can read them.
        Read = "read",
    }
}

open_enum! {
    /// The treatment of files in Git LFS.
    Lfs {
        /// The files have their pointers as content.
        Off = "off",
        /// The content of the files is fetched.
        Fetch = "fetch",
    }
}

open_enum! {
    /// The kind of code host of a repository.
    CodeHostKind {
        /// The value `local`.
        Local = "local",
        /// The value `plain`.
        Plain = "plain",
        /// The value `github`.
        Github = "github",
        /// The value `gitlab`.
        Gitlab = "gitlab",
        /// The value `gitea`.
        Gitea = "gitea",
        /// The value `forgejo`.
        Forgejo = "forgejo",
        /// The value `bitbucket`.
        Bitbucket = "bitbucket",
        /// The value `bitbucket_data_center`.
        BitbucketDataCenter = "bitbucket_data_center",
    }
}

/// The settings of a project's pull requests. In the templates, `{title}`, `{summary}`, `{prompt}`, `{job}`,
/// `{branch}`, `{url}`, and `{cost}` are replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequest {
    /// `true` to open pull requests as drafts.
    pub draft: bool,
    /// The branch to merge into; `None` means the project's `ref` if that is a branch, or else the default branch.
    pub base: Option<String>,
    /// The template of the title; `None` means `{title}`.
    pub title: Option<String>,
    /// The template of the body; `None` means the agent's answer, the prompt, and a link to the job.
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
    #[serde(default)]
    pub ci_paths: Vec<String>,
    /// The branches that jobs never push to, in addition to those that work is merged into. `*` stands for any characters
    /// but `/`, and `**` for any characters.
    #[serde(default)]
    pub protected_branches: Vec<String>,
    /// `true` if a job is archived when its pull request is merged.
    pub archive_on_merge: bool,
    /// The reaction to new commits of the branch that an open pull request is merged into; `None` from a server that
    /// does not have this setting.
    pub keep_up_to_date: Option<KeepUpToDate>,
    /// `true` if the code host is asked to merge a new pull request when all requirements are met.
    #[serde(default)]
    pub auto_merge: bool,
}

open_enum! {
    /// The reaction to new commits of the branch that an open pull request is merged into.
    KeepUpToDate {
        /// There is none.
        Off = "off",
        /// If the pull request conflicts with them, they become a message to the job.
        Conflicts = "conflicts",
        /// They always become a message to the job.
        Always = "always",
    }
}

open_enum! {
    /// The policy for commits that change files of CI pipelines.
    CiFiles {
        /// Changes of the files of the continuous integration are refused.
        Refuse = "refuse",
        /// Changes of the files of the continuous integration are allowed.
        Allow = "allow",
    }
}

/// The treatment of comments and issues on the code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Comments {
    /// The submitted reviews that become messages.
    pub reviews: Reviews,
    /// The name to mention, without `@`; `None` means the name of the service's user on the code host, and
    /// `journeyman`.
    pub mention: Option<String>,
    /// The time after the last comment until comments become one message, in seconds; `None` means 20, and 0 on the
    /// built-in code host.
    pub settle_seconds: Option<u32>,
    /// The label that makes a job of an issue; `None` means `journeyman`, and an empty text no label.
    pub issue_label: Option<String>,
    /// What people are told at the code host whose comments led to nothing; `None` from a server that does not have this
    /// setting.
    pub answers: Option<Answers>,
    /// The people who may ask for a review of a pull request; `None` from a server that does not have this setting.
    pub review_requests: Option<ReviewRequests>,
    /// The threads that the service marks as resolved; `None` from a server that does not have this setting.
    pub resolve: Option<Resolve>,
}

open_enum! {
    /// The people who may ask for a review of a pull request.
    ReviewRequests {
        /// People who may push to the repository.
        Write = "write",
        /// People who may read the repository. For a public one, this is everyone.
        Read = "read",
        /// No one: a mention that asks for a review is an ordinary task.
        Off = "off",
    }
}

open_enum! {
    /// The threads of comments that the service marks as resolved.
    Resolve {
        /// None.
        Never = "never",
        /// Those in which the service has replied, if commits answer the comments.
        Answered = "answered",
    }
}

open_enum! {
    /// What people are told at the code host whose comments led to nothing.
    Answers {
        /// The service reacts to the comment, and writes the reason once for each person, conversation and kind of reason.
        /// It also shows the progress of the messages that comments led to.
        Full = "full",
        /// The service only reacts to the comment, and writes nothing before a message has ended.
        Quiet = "quiet",
    }
}

open_enum! {
    /// The reviews that become messages: submitted reviews, and comments on lines on GitLab and Bitbucket.
    Reviews {
        /// All comments become messages.
        All = "all",
        /// Only comments that mention the name become messages.
        Mentioned = "mentioned",
        /// None becomes a message.
        Off = "off",
    }
}

/// The treatment of the checks of pull requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Checks {
    /// The reaction to failed checks.
    pub mode: CheckMode,
    /// The maximum number of automatic attempts for one pull request; `None` means 3.
    pub attempts: Option<u32>,
    /// The longest time to wait for checks that have not begun, in seconds; `None` means 600.
    pub settle_seconds: Option<u32>,
    /// The names of the checks that count, where `*` stands for any text; empty means all.
    pub only: Vec<String>,
    /// The names of the checks that do not count, where `*` stands for any text.
    pub ignore: Vec<String>,
}

open_enum! {
    /// The reaction to failed checks.
    CheckMode {
        /// Checks are not read.
        Off = "off",
        /// The result of the checks is reported.
        Report = "report",
        /// Failed checks start a message to the agent.
        Fix = "fix",
    }
}

/// The limits of a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Limits {
    /// The maximum duration of a run, in seconds; `None` means 3600.
    pub run_seconds: Option<u32>,
    /// The maximum number of jobs created per hour; `None` means the server's limit, and 0 no limit.
    pub create_per_hour: Option<u32>,
    /// The maximum number of messages sent per hour; `None` means the server's limit, and 0 no limit.
    pub message_per_hour: Option<u32>,
    /// The maximum size of a file in a commit, in bytes; `None` means 104857600.
    pub file_bytes: Option<u64>,
    /// The maximum number of concurrent runs, on all workers together; `None` means that only the workers limit it.
    pub concurrent_runs: Option<u32>,
    /// The maximum memory of a run, in bytes; `None` means 4294967296.
    pub memory_bytes: Option<u64>,
    /// The maximum number of processes and threads of a run; `None` means 1024.
    pub processes: Option<u32>,
    /// The maximum CPU usage of a run, in thousandths of a processor; `None` means no limit.
    pub cpu_millis: Option<u32>,
    /// The maximum size of a job's workspace and home together, in bytes; `None` means 10737418240.
    pub disk_bytes: Option<u64>,
    /// The maximum output of an agent in one turn, in bytes, including the output of tools; `None` means 536870912.
    pub output_bytes: Option<u64>,
    /// The maximum number of automatic continuations of a turn that was cut short by the model's token limit, by the
    /// agent's call limit, or for an unknown reason; `None` means 2.
    pub continuations: Option<u32>,
    /// The maximum number of model calls of the built-in agent in one turn; `None` means 200.
    pub model_calls: Option<u32>,
    /// The maximum number of automatic messages of a job in a day, such as those about failed checks; `None` means
    /// 20.
    pub automatic_per_day: Option<u32>,
    /// The budgets for model calls.
    pub budget: Budget,
}

/// The budgets for model calls, in millionths of a US dollar; `None` means no limit. A call that could exceed a
/// budget is not made, and the run fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Budget {
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sandbox {
    /// The answer to permission requests.
    pub permissions: Permissions,
    /// The answers by kind of tool call. Kinds that are not listed get the answer in `permissions`.
    pub permission_kinds: BTreeMap<String, Permissions>,
    /// The destinations that programs may reach over HTTPS: `name:port`, or the name of a preset, such as `npm`.
    pub egress: Vec<String>,
    /// The container image, if the server runs agents in containers; `None` means the server's image.
    pub image: Option<String>,
    /// The policy for pulling the image.
    pub pull: Pull,
}

open_enum! {
    /// The answer to permission requests of an agent.
    Permissions {
        /// The permission is granted.
        Allow = "allow",
        /// The permission is refused.
        Refuse = "refuse",
    }
}

open_enum! {
    /// The effort with which a model reasons about its answers. Not every model knows every value.
    Effort {
        /// No reasoning.
        None = "none",
        /// The least reasoning.
        Minimal = "minimal",
        /// Little reasoning.
        Low = "low",
        /// The middle value.
        Medium = "medium",
        /// Much reasoning.
        High = "high",
        /// More than `high`.
        XHigh = "xhigh",
        /// The most reasoning that the model can do.
        Max = "max",
    }
}

open_enum! {
    /// The policy for pulling an image.
    Pull {
        /// The image is pulled if it is missing.
        Missing = "missing",
        /// The image is pulled before each run.
        Always = "always",
        /// The image is never pulled.
        Never = "never",
    }
}

open_enum! {
    /// A process that may get secrets.
    SecretUse {
        /// The setup command gets the secret.
        Setup = "setup",
        /// The agent gets the secret.
        Agent = "agent",
        /// The calls of the model use the secret.
        Model = "model",
    }
}

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Finding {
    /// The name of the test, such as `credential`. New ones may be added.
    pub check: String,
    /// The health.
    pub health: Health,
    /// The result, and the remedy unless the test passed; for people.
    pub text: String,
}

open_enum! {
    /// The health of one tested thing.
    Health {
        /// The check passed.
        Ok = "ok",
        /// The check found a problem that does not prevent jobs.
        Warning = "warning",
        /// The check failed.
        Failure = "failure",
    }
}
