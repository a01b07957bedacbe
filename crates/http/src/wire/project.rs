//! Projects, and how a client changes one.

mod changes;
mod choices;
mod parts;
mod patch;

use std::collections::BTreeMap;

use journeyman_core::project::{self, Address, CODE_HOST_TOKEN, parse_address};
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) use self::changes::CreateProject;
pub use self::changes::{
    BudgetChanges, CodeHostChanges, LimitChanges, ProjectChanges, PullRequestChanges, SandboxChanges,
};
pub use self::choices::{CodeHostKind, Permissions, Pull, SecretUse, ToolKind};
pub use self::parts::{Budget, CodeHost, Limits, PullRequest, Sandbox};
pub use self::patch::{change, create};

/// A project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// A slug, chosen at creation.
    #[schema(example = "web-shop", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    pub id: String,
    /// A URL, an absolute path on the server, or `local:<name>` on the built-in code host.
    pub repository: String,
    /// How people reach a `local:` repository by git over HTTP, with a key as the password; `null` for others.
    #[schema(required)]
    pub clone_url: Option<String>,
    /// The branch, tag or commit that jobs start from; `null`: the repository's default branch.
    #[serde(rename = "ref")]
    #[schema(required)]
    pub reference: Option<String>,
    /// The agent of its jobs.
    pub agent: String,
    /// The model of its jobs.
    pub model: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Where its repository lives.
    pub code_host: CodeHost,
    /// How its pull requests look.
    pub pull_request: PullRequest,
    /// How much it may use.
    pub limits: Limits,
    /// How its agents are contained.
    pub sandbox: Sandbox,
    /// Variables for the setup command and the agent.
    pub environment: BTreeMap<String, String>,
    /// A shell command that prepares a fresh workspace.
    #[schema(required)]
    pub setup: Option<String>,
    /// Which processes get which secret; one that is not named is for the setup command alone.
    pub secret_uses: BTreeMap<String, Vec<SecretUse>>,
    /// The names of its secrets; the values are never shown.
    pub secrets: Vec<String>,
}

/// All projects that the key may see.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProjectList {
    /// By id.
    pub projects: Vec<Project>,
}

/// The document that clients see.
#[must_use]
pub fn show(project: &project::Project, public_url: &str) -> Project {
    let settings = project.settings.clone();
    let local = matches!(parse_address(&project.repository), Ok(Address::Local(_)));
    let (tokens, secrets): (Vec<String>, Vec<String>) =
        project.secret_names.iter().cloned().partition(|name| name == CODE_HOST_TOKEN);
    Project {
        id: project.id.to_string(),
        repository: project.repository.clone(),
        clone_url: local.then(|| format!("{public_url}/git/{}.git", project.id)),
        reference: project.reference.clone(),
        agent: project.agent.clone(),
        model: project.model.clone(),
        created_at: project.created_at.to_string(),
        code_host: CodeHost {
            kind: settings.code_host.kind.map(CodeHostKind::from),
            username: settings.code_host.username,
            has_token: !tokens.is_empty(),
        },
        pull_request: settings.pull_request.into(),
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
