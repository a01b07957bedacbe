//! Changes of projects.

use std::collections::BTreeMap;

use serde::Serialize;

use super::limit_changes::{LimitChanges, SandboxChanges};
use super::project::{CiFiles, CodeHostKind, Effort, KeepUpToDate, Lfs, SecretUse, Submodules};
use super::review_changes::{CheckChanges, CommentChanges};
use super::values::{Change, Secret};

/// The fields of a project that a client may set. A field that is left out keeps its value; at creation, it gets its
/// default. `Change::Reset` restores the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProjectChanges {
    /// The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host, where the
    /// repository is created without commits if it does not exist.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub repository: Change<String>,
    /// The branch, tag, or commit that jobs start from; by default, the repository's default branch.
    #[serde(rename = "ref", skip_serializing_if = "Change::is_keep")]
    pub reference: Change<String>,
    /// The agent of the project's jobs.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub agent: Change<String>,
    /// The model of the project's jobs.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub model: Change<String>,
    /// The effort of the model in the project's jobs; by default, the agent's, or else the model's own.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub effort: Change<Effort>,
    /// The code host of the repository.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub code_host: Change<CodeHostChanges>,
    /// The content of checkouts.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub checkout: Change<CheckoutChanges>,
    /// The settings of the commits that the service makes.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub commits: Change<CommitChanges>,
    /// The settings of the project's pull requests.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub pull_request: Change<PullRequestChanges>,
    /// The treatment of comments and issues on the code host.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub comments: Change<CommentChanges>,
    /// The treatment of the checks of pull requests.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub checks: Change<CheckChanges>,
    /// The limits of the project.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub limits: Change<LimitChanges>,
    /// The settings of the sandbox of the project's agents.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub sandbox: Change<SandboxChanges>,
    /// Environment variables for the setup command and the agent; `None` removes a variable.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub environment: Change<BTreeMap<String, Option<String>>>,
    /// A shell command that prepares a new workspace, such as `npm ci`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub setup: Change<String>,
    /// The processes that get each secret; only the setup command gets a secret that is not listed. `None` removes an
    /// entry.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub secret_uses: Change<BTreeMap<String, Option<Vec<SecretUse>>>>,
    /// Secret variables for the processes in `secretUses`. They are never shown again; `None` removes a variable.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub secrets: Change<BTreeMap<String, Option<Secret>>>,
}

impl ProjectChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `repository`.
    #[must_use]
    pub fn repository(mut self, value: impl Into<Change<String>>) -> Self {
        self.repository = value.into();
        self
    }

    /// Sets `reference`.
    #[must_use]
    pub fn reference(mut self, value: impl Into<Change<String>>) -> Self {
        self.reference = value.into();
        self
    }

    /// Sets `agent`.
    #[must_use]
    pub fn agent(mut self, value: impl Into<Change<String>>) -> Self {
        self.agent = value.into();
        self
    }

    /// Sets `model`.
    #[must_use]
    pub fn model(mut self, value: impl Into<Change<String>>) -> Self {
        self.model = value.into();
        self
    }

    /// Sets `effort`.
    #[must_use]
    pub fn effort(mut self, value: impl Into<Change<Effort>>) -> Self {
        self.effort = value.into();
        self
    }

    /// Sets `code_host`.
    #[must_use]
    pub fn code_host(mut self, value: impl Into<Change<CodeHostChanges>>) -> Self {
        self.code_host = value.into();
        self
    }

    /// Sets `checkout`.
    #[must_use]
    pub fn checkout(mut self, value: impl Into<Change<CheckoutChanges>>) -> Self {
        self.checkout = value.into();
        self
    }

    /// Sets `commits`.
    #[must_use]
    pub fn commits(mut self, value: impl Into<Change<CommitChanges>>) -> Self {
        self.commits = value.into();
        self
    }

    /// Sets `pull_request`.
    #[must_use]
    pub fn pull_request(mut self, value: impl Into<Change<PullRequestChanges>>) -> Self {
        self.pull_request = value.into();
        self
    }

    /// Sets `comments`.
    #[must_use]
    pub fn comments(mut self, value: impl Into<Change<CommentChanges>>) -> Self {
        self.comments = value.into();
        self
    }

    /// Sets `checks`.
    #[must_use]
    pub fn checks(mut self, value: impl Into<Change<CheckChanges>>) -> Self {
        self.checks = value.into();
        self
    }

    /// Sets `limits`.
    #[must_use]
    pub fn limits(mut self, value: impl Into<Change<LimitChanges>>) -> Self {
        self.limits = value.into();
        self
    }

    /// Sets `sandbox`.
    #[must_use]
    pub fn sandbox(mut self, value: impl Into<Change<SandboxChanges>>) -> Self {
        self.sandbox = value.into();
        self
    }

    /// Sets `environment`.
    #[must_use]
    pub fn environment(mut self, value: impl Into<Change<BTreeMap<String, Option<String>>>>) -> Self {
        self.environment = value.into();
        self
    }

    /// Sets `setup`.
    #[must_use]
    pub fn setup(mut self, value: impl Into<Change<String>>) -> Self {
        self.setup = value.into();
        self
    }

    /// Sets `secret_uses`.
    #[must_use]
    pub fn secret_uses(mut self, value: impl Into<Change<BTreeMap<String, Option<Vec<SecretUse>>>>>) -> Self {
        self.secret_uses = value.into();
        self
    }

    /// Sets `secrets`.
    #[must_use]
    pub fn secrets(mut self, value: impl Into<Change<BTreeMap<String, Option<Secret>>>>) -> Self {
        self.secrets = value.into();
        self
    }
}

/// The code host of a project's repository.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CodeHostChanges {
    /// The kind of code host; by default, it is found by the repository's address.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub kind: Change<CodeHostKind>,
    /// The ID of a code host of the installation; by default, it is found by the repository's address.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub host: Change<String>,
    /// The user name to send with the token over HTTP.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub username: Change<String>,
    /// The credential for the repository. It is never shown again. `Change::Reset` removes it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub token: Change<Secret>,
    /// The secret with which the code host signs the webhooks of this project. It is never shown again. `Change::Reset`
    /// removes it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub webhook_secret: Change<Secret>,
    /// `true` to let pushes overwrite commits of the default branch on the built-in code host; by default, `false`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub allow_force_push: Change<bool>,
}

impl CodeHostChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `kind`.
    #[must_use]
    pub fn kind(mut self, value: impl Into<Change<CodeHostKind>>) -> Self {
        self.kind = value.into();
        self
    }

    /// Sets `host`.
    #[must_use]
    pub fn host(mut self, value: impl Into<Change<String>>) -> Self {
        self.host = value.into();
        self
    }

    /// Sets `username`.
    #[must_use]
    pub fn username(mut self, value: impl Into<Change<String>>) -> Self {
        self.username = value.into();
        self
    }

    /// Sets `token`.
    #[must_use]
    pub fn token(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.token = value.into();
        self
    }

    /// Sets `webhook_secret`.
    #[must_use]
    pub fn webhook_secret(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.webhook_secret = value.into();
        self
    }

    /// Sets `allow_force_push`.
    #[must_use]
    pub fn allow_force_push(mut self, value: impl Into<Change<bool>>) -> Self {
        self.allow_force_push = value.into();
        self
    }
}

/// The content that a checkout has beside the commit's own files.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckoutChanges {
    /// The treatment of submodules; by default, `read`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub submodules: Change<Submodules>,
    /// The treatment of files in Git LFS; by default, `fetch`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub lfs: Change<Lfs>,
}

impl CheckoutChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `submodules`.
    #[must_use]
    pub fn submodules(mut self, value: impl Into<Change<Submodules>>) -> Self {
        self.submodules = value.into();
        self
    }

    /// Sets `lfs`.
    #[must_use]
    pub fn lfs(mut self, value: impl Into<Change<Lfs>>) -> Self {
        self.lfs = value.into();
        self
    }
}

/// The settings of the commits that the service makes for a project.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommitChanges {
    /// The template of the subject; by default, `{subject}`. `{subject}` is what was done, `{summary}` is the same with a
    /// small first letter, `{type}` is its type in Conventional Commits, `{issue}` the issue that asked for it, and
    /// `{branch}` the branch.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub subject: Change<String>,
    /// `true` if commits name the person at the code host who asked for the work as a co-author; by default, `true`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub co_authors: Change<bool>,
}

impl CommitChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `subject`.
    #[must_use]
    pub fn subject(mut self, value: impl Into<Change<String>>) -> Self {
        self.subject = value.into();
        self
    }

    /// Sets `co_authors`.
    #[must_use]
    pub fn co_authors(mut self, value: impl Into<Change<bool>>) -> Self {
        self.co_authors = value.into();
        self
    }
}

/// The settings of a project's pull requests. In the templates, `{title}`, `{summary}`, `{prompt}`, `{job}`,
/// `{branch}`, `{url}`, and `{cost}` are replaced.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PullRequestChanges {
    /// `true` to open pull requests as drafts; by default, `false`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub draft: Change<bool>,
    /// The branch to merge into; by default, the project's `ref` if that is a branch, or else the default branch.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub base: Change<String>,
    /// The template of the title; by default, `{title}`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub title: Change<String>,
    /// The template of the body; by default, the agent's answer, the prompt, and a link to the job.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub body: Change<String>,
    /// The labels of the pull requests.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub labels: Change<Vec<String>>,
    /// The users, and teams as `owner/team`, to ask for a review.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub reviewers: Change<Vec<String>>,
    /// The users to assign.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub assignees: Change<Vec<String>>,
    /// The policy for commits that change files of CI pipelines, such as `.github/workflows`; by default, `refuse`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub ci_files: Change<CiFiles>,
    /// More files of CI pipelines, which commits must not change either: paths from the root, in which `*` stands for any
    /// characters but `/`, and `**` for any characters. A path that ends with `/` stands for all files in the folder.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub ci_paths: Change<Vec<String>>,
    /// The branches that jobs never push to, in addition to those that work is merged into. `*` stands for any characters
    /// but `/`, and `**` for any characters.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub protected_branches: Change<Vec<String>>,
    /// `true` to archive a job when its pull request is merged; by default, `false`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub archive_on_merge: Change<bool>,
    /// The reaction to new commits of the branch that an open pull request is merged into; by default, `off`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub keep_up_to_date: Change<KeepUpToDate>,
    /// `true` to ask the code host to merge a new pull request when all requirements are met, such as checks and
    /// approvals; by default, `false`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub auto_merge: Change<bool>,
}

impl PullRequestChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `draft`.
    #[must_use]
    pub fn draft(mut self, value: impl Into<Change<bool>>) -> Self {
        self.draft = value.into();
        self
    }

    /// Sets `base`.
    #[must_use]
    pub fn base(mut self, value: impl Into<Change<String>>) -> Self {
        self.base = value.into();
        self
    }

    /// Sets `title`.
    #[must_use]
    pub fn title(mut self, value: impl Into<Change<String>>) -> Self {
        self.title = value.into();
        self
    }

    /// Sets `body`.
    #[must_use]
    pub fn body(mut self, value: impl Into<Change<String>>) -> Self {
        self.body = value.into();
        self
    }

    /// Sets `labels`.
    #[must_use]
    pub fn labels(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.labels = value.into();
        self
    }

    /// Sets `reviewers`.
    #[must_use]
    pub fn reviewers(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.reviewers = value.into();
        self
    }

    /// Sets `assignees`.
    #[must_use]
    pub fn assignees(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.assignees = value.into();
        self
    }

    /// Sets `ci_files`.
    #[must_use]
    pub fn ci_files(mut self, value: impl Into<Change<CiFiles>>) -> Self {
        self.ci_files = value.into();
        self
    }

    /// Sets `ci_paths`.
    #[must_use]
    pub fn ci_paths(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.ci_paths = value.into();
        self
    }

    /// Sets `protected_branches`.
    #[must_use]
    pub fn protected_branches(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.protected_branches = value.into();
        self
    }

    /// Sets `archive_on_merge`.
    #[must_use]
    pub fn archive_on_merge(mut self, value: impl Into<Change<bool>>) -> Self {
        self.archive_on_merge = value.into();
        self
    }

    /// Sets `keep_up_to_date`.
    #[must_use]
    pub fn keep_up_to_date(mut self, value: impl Into<Change<KeepUpToDate>>) -> Self {
        self.keep_up_to_date = value.into();
        self
    }

    /// Sets `auto_merge`.
    #[must_use]
    pub fn auto_merge(mut self, value: impl Into<Change<bool>>) -> Self {
        self.auto_merge = value.into();
        self
    }
}
