//! The wire format of projects, and of their changes.

mod changes;
mod choices;
mod parts;
mod patch;

use std::collections::BTreeMap;

use journeyman_core::project::{self, Address, CODE_HOST_TOKEN, WEBHOOK_SECRET, parse_address};
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) use self::changes::CreateProject;
pub use self::changes::{
    BudgetChanges, CheckChanges, CheckoutChanges, CodeHostChanges, CommentChanges, CommitChanges, LimitChanges,
    ProjectChanges, PullRequestChanges, SandboxChanges,
};
pub use self::choices::{
    Answers, CheckMode, CiFiles, CodeHostKind, Effort, KeepUpToDate, Lfs, Permissions, Pull, Resolve, ReviewRequests,
    Reviews, SecretUse, Submodules, ToolKind,
};
pub use self::parts::{Budget, Checkout, Checks, CodeHost, Comments, Commits, Limits, PullRequest, Sandbox};
pub use self::patch::{change, create};

/// A project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// The ID: a slug that is chosen at creation.
    #[schema(example = "web-shop", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    pub id: String,
    /// The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host.
    pub repository: String,
    /// The URL at which git reaches a `local:` repository, with a key as the password; `null` for other repositories.
    #[schema(required)]
    pub clone_url: Option<String>,
    /// The branch, tag, or commit that jobs start from; `null` means the repository's default branch.
    #[serde(rename = "ref")]
    #[schema(required)]
    pub reference: Option<String>,
    /// The agent of the project's jobs.
    pub agent: String,
    /// The model of the project's jobs.
    pub model: String,
    /// The effort of the model in the project's jobs; `null` means the agent's, or else the model's default.
    #[schema(required)]
    pub effort: Option<Effort>,
    /// The time of creation.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// The code host of the repository.
    pub code_host: CodeHost,
    /// The content of checkouts.
    pub checkout: Checkout,
    /// The settings of the commits that the service makes.
    pub commits: Commits,
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
    #[schema(required)]
    pub setup: Option<String>,
    /// The processes that get each secret; only the setup command gets a secret that is not listed.
    pub secret_uses: BTreeMap<String, Vec<SecretUse>>,
    /// The names of the project's secrets; the values are never shown.
    pub secrets: Vec<String>,
}

/// A page of the projects that the key may see.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectList {
    /// The projects, ordered by ID.
    pub projects: Vec<Project>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// Returns the project as clients see it; `public_url` is the base of the clone URL.
#[must_use]
pub fn show(project: &project::Project, public_url: &str) -> Project {
    let settings = project.settings.clone();
    let local = matches!(parse_address(&project.repository), Ok(Address::Local(_)));
    let is_of_host = |name: &String| name == CODE_HOST_TOKEN || name == WEBHOOK_SECRET;
    let (of_host, secrets): (Vec<String>, Vec<String>) = project.secret_names.iter().cloned().partition(is_of_host);
    let has = |secret: &str| of_host.iter().any(|name| name == secret);
    Project {
        id: project.id.to_string(),
        repository: project.repository.clone(),
        clone_url: local.then(|| format!("{public_url}/git/{}.git", project.id)),
        reference: project.reference.clone(),
        agent: project.agent.clone(),
        model: project.model.clone(),
        effort: settings.effort.map(Effort::from),
        created_at: project.created_at.to_string(),
        code_host: CodeHost {
            kind: settings.code_host.kind.map(CodeHostKind::from),
            host: settings.code_host.host.map(String::from),
            username: settings.code_host.username,
            allow_force_push: settings.code_host.allow_force_push,
            has_token: has(CODE_HOST_TOKEN),
            has_webhook_secret: has(WEBHOOK_SECRET),
        },
        checkout: settings.checkout.into(),
        commits: settings.commits.into(),
        pull_request: settings.pull_request.into(),
        comments: settings.comments.into(),
        checks: settings.checks.into(),
        limits: settings.limits.into(),
        sandbox: settings.sandbox.into(),
        environment: settings.environment,
        setup: settings.setup,
        secret_uses: (settings.secret_uses.into_iter())
            .map(|(name, uses)| (name, uses.into_iter().map(Into::into).collect()))
            .collect(),
        secrets,
    }
}
