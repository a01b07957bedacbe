//! A project: a repository and how agents work on it.

pub mod check;
mod checkout;
pub mod hold;
mod host;
mod host_settings;
mod resources;

use std::collections::{BTreeMap, BTreeSet};

use crate::secret::SecretValue;

use serde::{Deserialize, Serialize};

use crate::ids::ProjectId;
use crate::model::Effort;
use crate::model::budget::Budgets;
use crate::time::Timestamp;
use crate::version::FIRST_VERSION;

pub use checkout::{CheckoutSettings, Lfs, Submodules};
pub use host::{Host, RestrictedHost, repository_host};
use host_settings::is_default;
pub use host_settings::{
    Answers, CODE_HOST_TOKEN, CheckMode, CheckSettings, CiFiles, CodeHostKind, CodeHostSettings, CommentSettings,
    CommitSettings, DEFAULT_CHECK_ATTEMPTS, DEFAULT_CHECK_SETTLE_SECONDS, DEFAULT_SETTLE_SECONDS, KeepUpToDate,
    LONGEST_SETTLE_SECONDS, PullRequestSettings, Resolve, ReviewRequests, Reviews, WEBHOOK_SECRET,
};

pub use self::resources::Resources;

/// The agent of projects that do not name one.
pub const DEFAULT_AGENT: &str = "journeyman";

/// The model of projects that do not name one: the built-in test model, which needs no key.
pub const DEFAULT_MODEL: &str = "test/scripted";

/// The default time limit of a run, in seconds.
pub const DEFAULT_RUN_SECONDS: u32 = 3600;

/// The default memory limit of a run, in bytes: enough for an agent and one or two compilers.
pub const DEFAULT_MEMORY_BYTES: u64 = 4 << 30;

/// The default limit on the processes and threads of a run.
pub const DEFAULT_PROCESSES: u32 = 1024;

/// The default limit on an agent's output in one turn, in bytes.
pub const DEFAULT_OUTPUT_BYTES: u64 = 512 << 20;

/// The default limit on the continuations of a turn that was cut short.
pub const DEFAULT_CONTINUATIONS: u32 = 2;

/// The default limit on the model calls of the built-in agent in one turn. It allows long work, and it stops an agent
/// that would never finish.
pub const DEFAULT_MODEL_CALLS: u32 = 200;

/// The default limit on automatic messages of a job in a day. A loop between the job and a bot ends there.
pub const DEFAULT_AUTOMATIC_PER_DAY: u32 = 20;

/// The default disk limit of a job, in bytes.
pub const DEFAULT_DISK_BYTES: u64 = 10 << 30;

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The ID, which is part of URLs.
    pub id: ProjectId,
    /// The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host.
    pub repository: String,
    /// The branch, tag or commit that jobs start from; `None` means the repository's default branch.
    pub reference: Option<String>,
    /// The default agent of jobs.
    pub agent: String,
    /// The default model of jobs.
    pub model: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// All other properties, which the store keeps as one opaque document.
    pub settings: Settings,
    /// The names of the project's secrets. Only [`crate::ports::ProjectStore::secrets`] returns the values.
    pub secret_names: Vec<String>,
    /// The number of the current version. Every change increases it, except of `identity`.
    pub version: u64,
    /// The repository on its code host, as it was first seen; `None` before that, and on the built-in code host.
    pub identity: Option<RepositoryIdentity>,
}

/// A repository that was seen on a code host. A repository keeps its ID when it is renamed, and its address may then be
/// given to another repository, which must not get the project's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryIdentity {
    /// The address in the project.
    pub address: String,
    /// The ID on the code host.
    pub id: String,
}

impl Project {
    /// Returns a new project with the default agent, model and settings.
    #[must_use]
    pub fn new(id: ProjectId, repository: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            id,
            repository: repository.into(),
            reference: None,
            agent: DEFAULT_AGENT.to_owned(),
            model: DEFAULT_MODEL.to_owned(),
            created_at,
            settings: Settings::default(),
            secret_names: Vec::new(),
            version: FIRST_VERSION,
            identity: None,
        }
    }

    /// Sets the address of the repository, and accepts whichever repository has that address.
    pub fn set_repository(&mut self, address: &str) {
        address.clone_into(&mut self.repository);
        self.identity = None;
    }

    /// Returns the ID of the repository on its code host, if it was seen at the current address.
    #[must_use]
    pub fn repository_id(&self) -> Option<&str> {
        self.identity.as_ref().filter(|seen| seen.address == self.repository).map(|seen| seen.id.as_str())
    }
}

/// A project's settings. Every field has a default, so that documents stored by older versions can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The default effort of jobs; `None` means that of the agent's table, or else the model's default.
    #[serde(skip_serializing_if = "is_default")]
    pub effort: Option<Effort>,
    /// The code host of the repository.
    pub code_host: CodeHostSettings,
    /// The content of checkouts.
    #[serde(skip_serializing_if = "is_default")]
    pub checkout: CheckoutSettings,
    /// The properties of the service's commits.
    #[serde(skip_serializing_if = "is_default")]
    pub commits: CommitSettings,
    /// The properties of pull requests.
    pub pull_request: PullRequestSettings,
    /// The treatment of comments and issues.
    pub comments: CommentSettings,
    /// The treatment of checks.
    pub checks: CheckSettings,
    /// The limits on resources and costs.
    pub limits: LimitSettings,
    /// The settings of sandboxes.
    pub sandbox: SandboxSettings,
    /// Environment variables for the setup command and the agent.
    pub environment: BTreeMap<String, String>,
    /// A shell command that prepares a fresh workspace, such as `npm ci`.
    pub setup: Option<String>,
    /// The processes that receive a secret, by its name. A secret that is not listed is for [`SecretUse::Setup`] only.
    pub secret_uses: BTreeMap<String, BTreeSet<SecretUse>>,
}

impl Settings {
    /// Returns whether a process receives a secret.
    #[must_use]
    pub fn secret_is_for(&self, name: &str, process: SecretUse) -> bool {
        self.secret_uses.get(name).map_or(process == SecretUse::Setup, |uses| uses.contains(&process))
    }
}

/// A process that can receive secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretUse {
    /// The setup command.
    Setup,
    /// The agent, and therefore every program that its model runs.
    Agent,
    /// Model calls, which the service makes outside of the sandbox. The secret is the key of a provider, and its name
    /// is the name of the provider's variable.
    Model,
}

/// The limits of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitSettings {
    /// The time limit of a run, in seconds; `None` means [`DEFAULT_RUN_SECONDS`].
    pub run_seconds: Option<u32>,
    /// The maximum number of jobs created in an hour; `None` means the setting of the server, 0 means no limit.
    pub create_per_hour: Option<u32>,
    /// The maximum number of messages sent in an hour; `None` means the setting of the server, 0 means no limit.
    pub message_per_hour: Option<u32>,
    /// The maximum size of a file in a commit, in bytes; `None` means 100 MiB.
    pub file_bytes: Option<u64>,
    /// The maximum number of concurrent runs of the project, on all workers together; `None` means no limit but the
    /// capacity of the workers.
    pub concurrent_runs: Option<u32>,
    /// The memory limit of a run, in bytes; `None` means [`DEFAULT_MEMORY_BYTES`].
    pub memory_bytes: Option<u64>,
    /// The maximum number of processes and threads of a run; `None` means [`DEFAULT_PROCESSES`].
    pub processes: Option<u32>,
    /// The processor time of a run, in thousandths of one processor; `None` means no limit.
    pub cpu_millis: Option<u32>,
    /// The maximum total size of a job's workspace and home, in bytes; `None` means [`DEFAULT_DISK_BYTES`].
    pub disk_bytes: Option<u64>,
    /// The maximum output of an agent in one turn, including the output of its tools, in bytes; `None` means
    /// [`DEFAULT_OUTPUT_BYTES`].
    pub output_bytes: Option<u64>,
    /// The maximum number of continuations of a turn that was cut short; `None` means [`DEFAULT_CONTINUATIONS`].
    pub continuations: Option<u32>,
    /// The maximum number of model calls of the built-in agent in one turn; `None` means [`DEFAULT_MODEL_CALLS`].
    pub model_calls: Option<u32>,
    /// The maximum number of automatic messages of a job in a day, such as those about failed checks; `None` means
    /// [`DEFAULT_AUTOMATIC_PER_DAY`], 0 means none.
    pub automatic_per_day: Option<u32>,
    /// The budgets for model calls.
    pub budget: Budgets,
}

impl LimitSettings {
    /// Returns the resource limits for the programs of a run.
    #[must_use]
    pub fn resources(&self) -> Resources {
        Resources {
            memory_bytes: Some(self.memory_bytes.unwrap_or(DEFAULT_MEMORY_BYTES)),
            processes: Some(self.processes.unwrap_or(DEFAULT_PROCESSES)),
            cpu_millis: self.cpu_millis,
            file_bytes: Some(self.disk_bytes()),
            disk_bytes: Some(self.disk_bytes()),
        }
    }

    /// Returns the maximum output of an agent in one turn, in bytes.
    #[must_use]
    pub fn output_bytes(&self) -> u64 {
        self.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES)
    }

    /// Returns the maximum number of continuations of a turn that was cut short.
    #[must_use]
    pub fn continuations(&self) -> u32 {
        self.continuations.unwrap_or(DEFAULT_CONTINUATIONS)
    }

    /// Returns the maximum number of model calls of the built-in agent in one turn.
    #[must_use]
    pub fn model_calls(&self) -> u32 {
        self.model_calls.unwrap_or(DEFAULT_MODEL_CALLS)
    }

    /// Returns the maximum total size of a job's workspace and home, in bytes.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes.unwrap_or(DEFAULT_DISK_BYTES)
    }
}

/// The settings of the sandboxes of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSettings {
    /// The policy for an agent's permission requests.
    pub permissions: PermissionPolicy,
    /// The policies for certain kinds of tool calls, which take precedence over `permissions`.
    pub permission_kinds: BTreeMap<ToolKind, PermissionPolicy>,
    /// The destinations and presets that programs may connect to ([`crate::egress`]).
    pub egress: Vec<String>,
    /// The image of the project's containers; `None` means the image of the server's configuration.
    pub image: Option<String>,
    /// The policy for fetching the image.
    pub pull: PullPolicy,
}

/// A policy for fetching an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    /// The image is fetched if the container engine does not have it.
    #[default]
    Missing,
    /// The image is fetched at its first use, and again after some time, so that it stays current.
    Always,
    /// The image is never fetched; an operator must provide it.
    Never,
}

/// The kind of a tool call, as the agent declares it (Agent Client Protocol, version 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// Reason or plan.
    Think,
    /// Get data from elsewhere.
    Fetch,
    /// Switch to another session mode.
    SwitchMode,
    /// Anything else, including calls without a kind.
    Other,
}

impl ToolKind {
    /// Returns the name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::SwitchMode => "switch_mode",
            Self::Other => "other",
        }
    }
}

/// A policy for an agent's permission requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    /// Each request is allowed, for one call.
    #[default]
    Allow,
    /// Each request is refused.
    Refuse,
}

/// Changes to a project's secrets, by name; `None` removes a secret.
pub type SecretChanges = BTreeMap<String, Option<SecretValue>>;

/// An error in a field of a project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProject {
    /// The address of the repository has no supported form.
    #[error(
        "repository must be a URL (https://…, ssh://…, git@host:path), an absolute path on the server, or local:<name> \
         with a name of a-z, 0-9, '-', '_' and '.'"
    )]
    Repository,
    /// The URL of the repository contains a password.
    #[error("repository must not contain a password; give the token as codeHost.token")]
    CredentialInUrl,
    /// An entry of `sandbox.egress` is not valid.
    #[error(
        "sandbox.egress: {0:?} is neither a destination (name:port in lower case, no IP address) nor one of {presets}",
        presets = preset_names()
    )]
    Egress(String),
    /// The name of an environment variable is not valid.
    #[error("{0:?} is not a valid environment variable name; use letters, digits and '_', and no digit at the start")]
    Variable(String),
    /// The value of an environment variable contains a NUL character, which no process can receive.
    #[error("the value of {0} contains a NUL character")]
    Value(String),
    /// A line of text is empty, too long, or contains control characters.
    #[error("{field} must have 1 to {most} characters, and no control characters")]
    Text {
        /// The field.
        field: &'static str,
        /// The maximum number of characters.
        most: usize,
    },
    /// The template of the subjects of commits has no subject.
    #[error("commits.subject: must contain {{subject}} or {{summary}}")]
    Subject,
    /// The name to mention begins with `@`.
    #[error("comments.mention is the name without @")]
    Mention,
    /// A text of several lines is too long, or contains a NUL character.
    #[error("{field} must have at most {most} characters, and no NUL character")]
    Lines {
        /// The field.
        field: &'static str,
        /// The maximum number of characters.
        most: usize,
    },
    /// A number is out of range.
    #[error("{field} must be from {least} to {most}")]
    Number {
        /// The field.
        field: &'static str,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// A list is too long.
    #[error("{field} may have at most {most} entries")]
    TooMany {
        /// The field.
        field: &'static str,
        /// The maximum number of entries.
        most: usize,
    },
    /// The name of a branch or ref is not valid.
    #[error("{0}")]
    Ref(#[from] crate::branch::InvalidRefName),
}

fn preset_names() -> String {
    crate::egress::PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The address of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The name of a repository on the built-in code host.
    Local(String),
    /// A path on the server.
    Path(String),
    /// A URL, or the short form of ssh, that git fetches from.
    Url(String),
}

/// Parses the address of a repository.
///
/// # Errors
/// Returns an error if the address has no supported form, contains a password, or selects a transport of git that runs
/// commands.
pub fn parse_address(repository: &str) -> Result<Address, InvalidProject> {
    if repository.chars().any(|c| c.is_control() || c == ' ') || repository.len() > 1000 {
        return Err(InvalidProject::Repository);
    }
    if let Some(name) = repository.strip_prefix("local:") {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        let valid = (1..=100).contains(&name.len()) && name.bytes().all(good) && !name.starts_with(['.', '-']);
        return if valid && !name.contains("..") && !name.ends_with(".git") && !name.ends_with(".lock") {
            Ok(Address::Local(name.to_owned()))
        } else {
            Err(InvalidProject::Repository)
        };
    }
    if repository.starts_with('/') {
        return Ok(Address::Path(repository.to_owned()));
    }
    for scheme in ["https://", "http://", "ssh://", "git://", "file:///"] {
        let Some(rest) = repository.strip_prefix(scheme) else { continue };
        let authority = rest.split('/').next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        if user.is_some_and(|user| user.contains(':') || scheme.starts_with("http")) {
            return Err(InvalidProject::CredentialInUrl);
        }
        let valid = !rest.is_empty() && !rest.starts_with('-') && (scheme == "file:///" || rest.contains('/'));
        return if valid { Ok(Address::Url(repository.to_owned())) } else { Err(InvalidProject::Repository) };
    }
    // The short form of ssh: user@host:path. `ext::…` and other transports that run commands have no '@' before ':'.
    match repository.split_once(':') {
        Some((host, path))
            if host.contains('@') && !host.starts_with('-') && !path.is_empty() && !path.starts_with(':') =>
        {
            Ok(Address::Url(repository.to_owned()))
        }
        _ => Err(InvalidProject::Repository),
    }
}

/// Checks the name and the value of an environment variable, which may be a secret.
///
/// # Errors
/// Returns an error if the name or the value is not valid.
pub fn check_variable(name: &str, value: &str) -> Result<(), InvalidProject> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || name.len() > 200 || !name.bytes().all(good) || name.as_bytes()[0].is_ascii_digit() {
        return Err(InvalidProject::Variable(name.chars().take(80).collect()));
    }
    if value.contains('\0') { Err(InvalidProject::Value(name.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_address_is_accepted() {
        let local = |name: &str| Ok(Address::Local(name.to_owned()));
        assert_eq!(parse_address("local:shop"), local("shop"));
        assert_eq!(parse_address("/srv/git/shop.git"), Ok(Address::Path("/srv/git/shop.git".into())));
        for url in
            ["https://example.com/a/b.git", "ssh://git@example.com/a", "git@example.com:a/b.git", "file:///srv/a.git"]
        {
            assert_eq!(parse_address(url), Ok(Address::Url(url.into())), "{url}");
        }
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for bad in [
            "",
            "shop",
            "local:",
            "local:../x",
            "local:A",
            "local:.x",
            "local:a..b",
            "./x",
            "ext::sh -c id",
            "ext::id",
            "https://",
            "https://example.com",
            "--upload-pack=id",
            "-x@y:z",
            "https://a\nb/c",
        ] {
            assert_eq!(parse_address(bad), Err(InvalidProject::Repository), "{bad}");
        }
        for secret in ["https://user:pw@example.com/a", "https://token@example.com/a", "ssh://u:p@example.com/a"] {
            assert_eq!(parse_address(secret), Err(InvalidProject::CredentialInUrl), "{secret}");
        }
    }

    #[test]
    fn an_environment_variable_has_a_name_that_shells_accept() {
        assert!(check_variable("_A1", "x").is_ok());
        for bad in ["", "1A", "A-B", "A=B", "Ä", CODE_HOST_TOKEN] {
            assert!(check_variable(bad, "x").is_err(), "{bad}");
        }
        assert!(check_variable("A", "\0").is_err());
    }
}
