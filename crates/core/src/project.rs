//! A project: a repository and how agents work on it.

mod check;
pub mod hold;
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::ProjectId;
use crate::model::price::Budgets;
use crate::ports::Resources;
use crate::time::Timestamp;

pub use check::check;
pub use host::{Host, RestrictedHost, repository_host};

/// The agent of projects that name none.
pub const DEFAULT_AGENT: &str = "journeyman";

/// The model of projects that name none: the built-in test model, which needs no key.
pub const DEFAULT_MODEL: &str = "test/scripted";

/// How long a run may take unless the project says otherwise.
pub const DEFAULT_RUN_SECONDS: u32 = 3600;

/// Memory of a run unless the project says otherwise: a compiler or two beside an agent.
pub const DEFAULT_MEMORY_BYTES: u64 = 4 << 30;

/// Processes and threads of a run unless the project says otherwise.
pub const DEFAULT_PROCESSES: u32 = 1024;

/// What an agent may say in a turn unless the project says otherwise.
pub const DEFAULT_OUTPUT_BYTES: u64 = 512 << 20;

/// The default number of continuations of a turn that was cut short.
pub const DEFAULT_CONTINUATIONS: u32 = 2;

/// Calls of the model that the built-in agent may make in one turn by default: enough for long work, and an end to endless
/// work.
pub const DEFAULT_MODEL_CALLS: u32 = 200;

/// Disk of a job unless the project says otherwise.
pub const DEFAULT_DISK_BYTES: u64 = 10 << 30;

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its name in URLs.
    pub id: ProjectId,
    /// A URL, an absolute path on the server, or `local:<name>` on the built-in code host.
    pub repository: String,
    /// The branch, tag or commit that jobs start from; `None`: the repository's default branch.
    pub reference: Option<String>,
    /// The agent of its jobs.
    pub agent: String,
    /// The model of its jobs.
    pub model: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Everything else; an opaque document in the store.
    pub settings: Settings,
    /// The names of its secrets; the values are read by [`crate::ports::ProjectStore::secrets`] alone.
    pub secret_names: Vec<String>,
}

/// A project's settings. Every field has a default, so that documents stored by older versions can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Where its repository lives.
    pub code_host: CodeHostSettings,
    /// How its pull requests look.
    pub pull_request: PullRequestSettings,
    /// How much it may use.
    pub limits: LimitSettings,
    /// How its agents are contained.
    pub sandbox: SandboxSettings,
    /// Variables for the setup command and the agent.
    pub environment: BTreeMap<String, String>,
    /// A shell command that prepares a fresh workspace, such as `npm ci`.
    pub setup: Option<String>,
    /// Which processes get which secret; one that is not named: [`SecretUse::Setup`] alone.
    pub secret_uses: BTreeMap<String, BTreeSet<SecretUse>>,
}

impl Settings {
    /// Whether a process gets a secret.
    #[must_use]
    pub fn secret_is_for(&self, name: &str, process: SecretUse) -> bool {
        self.secret_uses.get(name).map_or(process == SecretUse::Setup, |uses| uses.contains(&process))
    }
}

/// A process that secrets may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretUse {
    /// The setup command.
    Setup,
    /// The agent, and so whatever its model makes it run.
    Agent,
    /// Calls of models, outside of the sandbox: the key of a provider, under the name of its variable.
    Model,
}

/// Which code host a repository lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeHostKind {
    /// The built-in one.
    Local,
    /// A git remote without pull requests.
    Plain,
}

/// Where a project's repository lives. The credential is a secret named [`CODE_HOST_TOKEN`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeHostSettings {
    /// `None`: detected from the repository.
    pub kind: Option<CodeHostKind>,
    /// The user name that goes with the token over HTTP.
    pub username: Option<String>,
}

/// The name under which a project's credential for its code host is kept; no variable can have it.
pub const CODE_HOST_TOKEN: &str = "code-host.token";

/// How a project's pull requests look. In the templates `{title}`, `{prompt}`, `{job}` and `{branch}` are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullRequestSettings {
    /// Whether they open as drafts.
    pub draft: bool,
    /// The branch they are to be merged into; `None`: the project's ref if that is a branch, else the default branch.
    pub base: Option<String>,
    /// Template of the title; `None`: `{title}`.
    pub title: Option<String>,
    /// Template of the body; `None`: the prompt and the job's id.
    pub body: Option<String>,
    /// Labels to put on.
    pub labels: Vec<String>,
}

/// How much a project may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitSettings {
    /// Seconds that one run may take; `None`: [`DEFAULT_RUN_SECONDS`].
    pub run_seconds: Option<u32>,
    /// Jobs created in an hour; `None`: as the server says; 0: no limit.
    pub create_per_hour: Option<u32>,
    /// Messages sent in an hour; `None`: as the server says; 0: no limit.
    pub message_per_hour: Option<u32>,
    /// Bytes that one file in a commit may have; `None`: 100 MiB.
    pub file_bytes: Option<u64>,
    /// Runs of this project at a time, on all workers together; `None`: as many as there are places.
    pub concurrent_runs: Option<u32>,
    /// Bytes of memory that a run may use; `None`: [`DEFAULT_MEMORY_BYTES`].
    pub memory_bytes: Option<u64>,
    /// Processes and threads that a run may have; `None`: [`DEFAULT_PROCESSES`].
    pub processes: Option<u32>,
    /// Thousandths of a processor that a run gets at most; `None`: no limit.
    pub cpu_millis: Option<u32>,
    /// Bytes that workspace and home of a job may have together; `None`: [`DEFAULT_DISK_BYTES`].
    pub disk_bytes: Option<u64>,
    /// Bytes that an agent may say in one turn, tools' output among it; `None`: [`DEFAULT_OUTPUT_BYTES`].
    pub output_bytes: Option<u64>,
    /// The most continuations of a turn that was cut short; `None`: [`DEFAULT_CONTINUATIONS`].
    pub continuations: Option<u32>,
    /// Calls of the model that the built-in agent may make in one turn; `None`: [`DEFAULT_MODEL_CALLS`].
    pub model_calls: Option<u32>,
    /// What calls of models may cost.
    pub budget: Budgets,
}

impl LimitSettings {
    /// What programs of a run may use.
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

    /// Bytes that an agent may say in one turn.
    #[must_use]
    pub fn output_bytes(&self) -> u64 {
        self.output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES)
    }

    /// Returns the most continuations of a turn that was cut short.
    #[must_use]
    pub fn continuations(&self) -> u32 {
        self.continuations.unwrap_or(DEFAULT_CONTINUATIONS)
    }

    /// Returns the most calls of the model that the built-in agent may make in one turn.
    #[must_use]
    pub fn model_calls(&self) -> u32 {
        self.model_calls.unwrap_or(DEFAULT_MODEL_CALLS)
    }

    /// Bytes that workspace and home may have together.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes.unwrap_or(DEFAULT_DISK_BYTES)
    }
}

/// How a project's agents are contained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSettings {
    /// How permission requests of an agent are answered.
    pub permissions: PermissionPolicy,
    /// By what an agent wants to do; what is not among them: as `permissions` says.
    pub permission_kinds: BTreeMap<ToolKind, PermissionPolicy>,
    /// What programs may reach: destinations and presets ([`crate::egress`]).
    pub egress: Vec<String>,
    /// The image of its containers; `None`: the server's.
    pub image: Option<String>,
    /// When it is fetched.
    pub pull: PullPolicy,
}

/// When an image is fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    /// When it is not there.
    #[default]
    Missing,
    /// At the first use, and again after a while.
    Always,
    /// By hand.
    Never,
}

/// What an agent wants to do, as it says itself (the kinds of tool calls of the Agent Client Protocol, version 1).
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
    /// Think.
    Think,
    /// Get something from elsewhere.
    Fetch,
    /// Work in another mode.
    SwitchMode,
    /// Anything else, and what it gives no kind for.
    Other,
}

impl ToolKind {
    /// Its name in the protocol.
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

/// How permission requests of an agent are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    /// Each is allowed, once.
    #[default]
    Allow,
    /// Each is refused.
    Refuse,
}

/// A secret's value. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(pub String);

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// What to do with a project's secrets: `None` removes one.
pub type SecretChanges = BTreeMap<String, Option<SecretValue>>;

/// Why a project's field is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProject {
    /// No usable address.
    #[error(
        "repository must be a URL (https://…, ssh://…, git@host:path), an absolute path on the server, or local:<name> \
         with a name of a-z, 0-9, '-', '_' and '.'"
    )]
    Repository,
    /// A URL with a password in it.
    #[error("repository must not contain a password; give the token as codeHost.token")]
    CredentialInUrl,
    /// What programs may reach.
    #[error(
        "sandbox.egress: {0:?} is neither a destination (name:port, in lower case, no address) nor one of {presets}",
        presets = preset_names()
    )]
    Egress(String),
    /// A variable's name.
    #[error("{0:?} is not a name for an environment variable: letters, digits and '_', not beginning with a digit")]
    Variable(String),
    /// A value that no process can be given.
    #[error("the value of {0} contains a NUL character")]
    Value(String),
    /// A text that is empty, too long or holds control characters.
    #[error("{field} must have 1 to {most} characters, and no control characters")]
    Text {
        /// Which field.
        field: &'static str,
        /// Characters that it may have.
        most: usize,
    },
    /// A number out of its range.
    #[error("{field} must be from {least} to {most}")]
    Number {
        /// Which field.
        field: &'static str,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A list that is too long.
    #[error("{field} may have {most} entries at most")]
    TooMany {
        /// Which field.
        field: &'static str,
        /// Entries that it may have.
        most: usize,
    },
    /// A branch or ref.
    #[error("{0}")]
    Ref(#[from] crate::branch::InvalidRefName),
}

fn preset_names() -> String {
    crate::egress::PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Where a repository is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// On the built-in code host, by name.
    Local(String),
    /// A path on the server.
    Path(String),
    /// Anything that git fetches from.
    Url(String),
}

/// Reads a repository's address.
///
/// # Errors
/// It is none of the forms known, carries a password, or asks git for a transport that runs commands.
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

/// Checks names and values of environment variables, of secrets too.
///
/// # Errors
/// Names the first that is refused.
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
    fn addresses_that_are_taken() {
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
    fn addresses_that_are_refused() {
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
    fn variables_have_names_that_shells_take() {
        assert!(check_variable("_A1", "x").is_ok());
        for bad in ["", "1A", "A-B", "A=B", "Ä", CODE_HOST_TOKEN] {
            assert!(check_variable(bad, "x").is_err(), "{bad}");
        }
        assert!(check_variable("A", "\0").is_err());
    }
}
