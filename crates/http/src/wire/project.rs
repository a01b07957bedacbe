//! Projects, and how a client changes one.
//!
//! A change is a JSON merge patch (RFC 7396) of the document that the client reads, and a creation is the patch of an
//! empty one: what is left out keeps its value, `null` gives it back its default. Secrets are not part of the document;
//! they are taken out of the patch before.

mod changes;

use std::collections::BTreeMap;

use journeyman_core::project::{
    self, Address, CODE_HOST_TOKEN, DEFAULT_AGENT, DEFAULT_MODEL, SecretChanges, SecretValue, parse_address,
};
use journeyman_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub(crate) use self::changes::CreateProject;
pub use self::changes::{
    BudgetChanges, CodeHostChanges, LimitChanges, ProjectChanges, PullRequestChanges, SandboxChanges,
};

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

/// Which code host a repository lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeHostKind {
    /// The built-in one.
    Local,
    /// A git remote without pull requests.
    Plain,
}

impl From<project::CodeHostKind> for CodeHostKind {
    fn from(kind: project::CodeHostKind) -> Self {
        match kind {
            project::CodeHostKind::Local => Self::Local,
            project::CodeHostKind::Plain => Self::Plain,
        }
    }
}

impl From<CodeHostKind> for project::CodeHostKind {
    fn from(kind: CodeHostKind) -> Self {
        match kind {
            CodeHostKind::Local => Self::Local,
            CodeHostKind::Plain => Self::Plain,
        }
    }
}

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

/// How permission requests of an agent are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Permissions {
    /// Each is allowed, once.
    #[default]
    Allow,
    /// Each is refused.
    Refuse,
}

impl From<project::PermissionPolicy> for Permissions {
    fn from(policy: project::PermissionPolicy) -> Self {
        match policy {
            project::PermissionPolicy::Allow => Self::Allow,
            project::PermissionPolicy::Refuse => Self::Refuse,
        }
    }
}

/// A process that secrets may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretUse {
    /// The setup command.
    Setup,
    /// The agent, and so whatever its model makes it run.
    Agent,
    /// Calls of models, outside of the sandbox: the key of a provider, under the name of its variable.
    Model,
}

impl From<project::SecretUse> for SecretUse {
    fn from(process: project::SecretUse) -> Self {
        match process {
            project::SecretUse::Setup => Self::Setup,
            project::SecretUse::Agent => Self::Agent,
            project::SecretUse::Model => Self::Model,
        }
    }
}

impl From<SecretUse> for project::SecretUse {
    fn from(process: SecretUse) -> Self {
        match process {
            SecretUse::Setup => Self::Setup,
            SecretUse::Agent => Self::Agent,
            SecretUse::Model => Self::Model,
        }
    }
}

/// What an agent wants to do, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Read files or data.
    Read,
    /// Change files.
    Edit,
    /// Remove files or data.
    Delete,
    /// Move or rename files.
    Move,
    /// Search.
    Search,
    /// Run commands.
    Execute,
    /// Think.
    Think,
    /// Get something from elsewhere.
    Fetch,
    /// Work in another mode.
    SwitchMode,
    /// Anything else, and what it gives no kind for.
    Other,
}

impl From<project::ToolKind> for ToolKind {
    fn from(kind: project::ToolKind) -> Self {
        match kind {
            project::ToolKind::Read => Self::Read,
            project::ToolKind::Edit => Self::Edit,
            project::ToolKind::Delete => Self::Delete,
            project::ToolKind::Move => Self::Move,
            project::ToolKind::Search => Self::Search,
            project::ToolKind::Execute => Self::Execute,
            project::ToolKind::Think => Self::Think,
            project::ToolKind::Fetch => Self::Fetch,
            project::ToolKind::SwitchMode => Self::SwitchMode,
            project::ToolKind::Other => Self::Other,
        }
    }
}

impl From<ToolKind> for project::ToolKind {
    fn from(kind: ToolKind) -> Self {
        match kind {
            ToolKind::Read => Self::Read,
            ToolKind::Edit => Self::Edit,
            ToolKind::Delete => Self::Delete,
            ToolKind::Move => Self::Move,
            ToolKind::Search => Self::Search,
            ToolKind::Execute => Self::Execute,
            ToolKind::Think => Self::Think,
            ToolKind::Fetch => Self::Fetch,
            ToolKind::SwitchMode => Self::SwitchMode,
            ToolKind::Other => Self::Other,
        }
    }
}

impl From<Permissions> for project::PermissionPolicy {
    fn from(permissions: Permissions) -> Self {
        match permissions {
            Permissions::Allow => Self::Allow,
            Permissions::Refuse => Self::Refuse,
        }
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

/// When an image is fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pull {
    /// When it is not there.
    #[default]
    Missing,
    /// At the first use, and again after ten minutes.
    Always,
    /// By hand.
    Never,
}

impl From<project::PullPolicy> for Pull {
    fn from(policy: project::PullPolicy) -> Self {
        match policy {
            project::PullPolicy::Missing => Self::Missing,
            project::PullPolicy::Always => Self::Always,
            project::PullPolicy::Never => Self::Never,
        }
    }
}

impl From<Pull> for project::PullPolicy {
    fn from(pull: Pull) -> Self {
        match pull {
            Pull::Missing => Self::Missing,
            Pull::Always => Self::Always,
            Pull::Never => Self::Never,
        }
    }
}

/// All projects that the key may see.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProjectList {
    /// By id.
    pub projects: Vec<Project>,
}

/// Makes a project out of the body of a creation.
///
/// # Errors
/// A sentence that names the field that is refused.
pub fn create(body: Value, now: Timestamp) -> Result<(project::Project, SecretChanges), String> {
    let Value::Object(mut body) = body else { return Err("the body must be a JSON object".to_owned()) };
    let id = match body.remove("id") {
        Some(Value::String(id)) => id.parse().map_err(|error| format!("id: {error}"))?,
        Some(_) => return Err("id must be a string".to_owned()),
        None => return Err("id is missing".to_owned()),
    };
    let blank = project::Project {
        id,
        repository: String::new(),
        reference: None,
        agent: DEFAULT_AGENT.to_owned(),
        model: DEFAULT_MODEL.to_owned(),
        created_at: now,
        settings: project::Settings::default(),
        secret_names: Vec::new(),
    };
    merged(blank, Map::new(), body)
}

/// Applies a patch to a project.
///
/// # Errors
/// A sentence that names the field that is refused.
pub fn change(current: project::Project, patch: Value) -> Result<(project::Project, SecretChanges), String> {
    let Value::Object(mut patch) = patch else { return Err("the body must be a JSON object".to_owned()) };
    if patch.remove("id").is_some_and(|id| id != Value::String(current.id.to_string())) {
        return Err("id cannot be changed; create another project".to_owned());
    }
    let Ok(Value::Object(document)) = serde_json::to_value(show(&current, "")) else {
        return Err("the project has no JSON form".to_owned());
    };
    merged(current, document, patch)
}

fn merged(
    mut project: project::Project,
    mut document: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(project::Project, SecretChanges), String> {
    let secrets = take_secrets(&mut patch)?;
    document.remove("secrets");
    merge(&mut document, patch);
    let changes: ProjectChanges = serde_path_to_error::deserialize(Value::Object(document))
        .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
    project.repository = changes.repository.clone().ok_or("repository is missing")?;
    project.reference = changes.reference.clone();
    project.agent = changes.agent.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned());
    project.model = changes.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    project.settings = changes.settings();
    project::check(&project, &secrets).map_err(|error| error.to_string())?;
    Ok((project, secrets))
}

/// RFC 7396.
fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(&name);
            }
            Value::Object(inner) => {
                let slot = target.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(slot) = slot {
                    merge(slot, inner);
                }
            }
            other => {
                target.insert(name, other);
            }
        }
    }
}

/// `secrets` and `codeHost.token`, out of the patch.
fn take_secrets(patch: &mut Map<String, Value>) -> Result<SecretChanges, String> {
    let mut changes = SecretChanges::new();
    let secret = |value: Value, place: &str| match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(SecretValue(text))),
        // The value is not shown: it is a secret of the wrong form.
        _ => Err(format!("{place}: must be a string, or null to remove it")),
    };
    match patch.remove("secrets") {
        None | Some(Value::Null) => {}
        Some(Value::Object(secrets)) => {
            for (name, value) in secrets {
                // Only `codeHost.token` sets the credential for the code host.
                if name == CODE_HOST_TOKEN {
                    return Err(format!("secrets.{name}: is not a name for a variable"));
                }
                let value = secret(value, &format!("secrets.{name}"))?;
                changes.insert(name, value);
            }
        }
        Some(_) => return Err("secrets: must be an object of names and values".to_owned()),
    }
    if let Some(Value::Object(host)) = patch.get_mut("codeHost") {
        host.remove("hasToken");
        if let Some(token) = host.remove("token") {
            changes.insert(CODE_HOST_TOKEN.to_owned(), secret(token, "codeHost.token")?);
        }
    }
    Ok(changes)
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
        pull_request: {
            let project::PullRequestSettings { draft, base, title, body, labels } = settings.pull_request;
            PullRequest { draft, base, title, body, labels }
        },
        limits: {
            let limits = settings.limits;
            Limits {
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
                budget: Budget {
                    run_micros: limits.budget.run,
                    job_micros: limits.budget.job,
                    day_micros: limits.budget.day,
                    project_micros: limits.budget.project,
                },
            }
        },
        sandbox: Sandbox {
            permissions: settings.sandbox.permissions.into(),
            permission_kinds: (settings.sandbox.permission_kinds.into_iter())
                .map(|(kind, policy)| (kind.into(), policy.into()))
                .collect(),
            egress: settings.sandbox.egress,
            image: settings.sandbox.image,
            pull: settings.sandbox.pull.into(),
        },
        environment: settings.environment,
        setup: settings.setup,
        secret_uses: (settings.secret_uses.into_iter())
            .map(|(name, uses)| (name, uses.into_iter().map(Into::into).collect()))
            .collect(),
        secrets,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shop() -> project::Project {
        let body =
            json!({"id": "shop", "repository": "local:shop", "limits": {"runSeconds": 60}, "secrets": {"A": "x"}});
        let (mut project, secrets) = create(body, Timestamp::default()).expect("a project");
        assert_eq!(secrets.len(), 1);
        project.secret_names = vec!["A".into(), CODE_HOST_TOKEN.into()];
        project
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_gives_the_default_back() {
        let patch = json!({
            "model": "m", "limits": {"createPerHour": 5}, "environment": {"X": "1"}, "pullRequest": {"labels": ["a"]},
        });
        let (changed, secrets) = change(shop(), patch).expect("a change");
        assert_eq!((changed.model.as_str(), secrets.len()), ("m", 0));
        let limits = &changed.settings.limits;
        assert_eq!((limits.run_seconds, limits.create_per_hour), (Some(60), Some(5)));

        let back = json!({"model": null, "limits": {"runSeconds": null}, "environment": {"X": null}, "setup": null});
        let (changed, _) = change(changed, back).expect("a change");
        assert_eq!(changed.model, DEFAULT_MODEL);
        assert_eq!(changed.settings.limits.run_seconds, None);
        assert_eq!(changed.settings.limits.create_per_hour, Some(5));
        assert!(changed.settings.environment.is_empty());
        assert_eq!(changed.settings.pull_request.labels, ["a"]);
    }

    #[test]
    fn secrets_go_in_and_never_come_out() {
        let patch = json!({"secrets": {"A": null, "B": "hush"}, "codeHost": {"token": "ghp_hush", "username": "me"}});
        let (changed, secrets) = change(shop(), patch).expect("a change");
        let names: Vec<(&str, bool)> = secrets.iter().map(|(name, value)| (name.as_str(), value.is_some())).collect();
        assert_eq!(names, [("A", false), ("B", true), (CODE_HOST_TOKEN, true)]);
        let shown = serde_json::to_string(&show(&changed, "http://x")).expect("JSON");
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("\"hasToken\":true") && shown.contains("\"secrets\":[\"A\"]"), "{shown}");
        assert!(shown.contains("\"cloneUrl\":\"http://x/git/shop.git\""), "{shown}");
    }

    #[test]
    fn a_document_that_was_read_can_be_sent_back() {
        let document = serde_json::to_value(show(&shop(), "http://x")).expect("JSON");
        let mut document = document.as_object().expect("an object").clone();
        document.remove("secrets");
        let (same, secrets) = change(shop(), Value::Object(document)).expect("no change");
        assert_eq!((same, secrets.len()), (shop(), 0));
    }

    #[test]
    fn each_wrong_field_is_named() {
        for (patch, named) in [
            (json!([]), "JSON object"),
            (json!({"id": "other"}), "id cannot be changed"),
            (json!({"repository": null}), "repository is missing"),
            (json!({"repository": 5}), "repository"),
            (json!({"repository": "shop"}), "repository"),
            (json!({"limits": {"runSeconds": -1}}), "limits.runSeconds"),
            (json!({"limits": {"runSeconds": 0}}), "limits.runSeconds"),
            (json!({"limits": 5}), "limits"),
            (json!({"codeHost": {"kind": "github"}}), "codeHost.kind"),
            (json!({"codeHost": {"token": 5}}), "codeHost.token"),
            (json!({"secrets": "hush"}), "secrets"),
            (json!({"secrets": {"A": 5}}), "secrets.A"),
            (json!({"secrets": {"code-host.token": "x"}}), "secrets.code-host.token"),
            (json!({"secrets": {"A B": "x"}}), "A B"),
            (json!({"environment": {"A": 5}}), "environment.A"),
            (json!({"sandbox": {"permissions": "maybe"}}), "sandbox.permissions"),
        ] {
            let error = change(shop(), patch.clone()).expect_err(named);
            assert!(error.contains(named), "{patch}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
        for (body, named) in [
            (json!({"repository": "local:a"}), "id is missing"),
            (json!({"id": 5, "repository": "local:a"}), "id must be"),
            (json!({"id": "A", "repository": "local:a"}), "id:"),
            (json!({"id": "a"}), "repository is missing"),
        ] {
            let error = create(body, Timestamp::default()).expect_err(named);
            assert!(error.contains(named), "{error}");
        }
    }
}
