//! Agents, described by data: any program that speaks the Agent Client Protocol on its standard streams.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{Dialect, Effort};
use crate::project::{PermissionPolicy, SandboxSettings, ToolKind};

/// The command that starts an agent, and what the agent needs. In `command`, `environment` and `files`, the
/// placeholders of [`PlaceholderValues`] are replaced, and also `{model_url}`, the URL at which the agent calls models in the
/// sandbox, and `{model_token}`, the token that the agent sends there in place of a key. If no effort is set, lines with
/// `{effort}` are omitted, and an argument, a variable or a file without any other line too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AgentSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The display name.
    #[serde(default)]
    pub name: Option<String>,
    /// Files and folders of the host that the agent needs in addition to the system's. The sandbox makes them readable
    /// at the same paths.
    #[serde(default)]
    pub readable: Vec<PathBuf>,
    /// Environment variables in addition to the project's. A variable with `{model_url}` or `{model_token}` is omitted
    /// if the model has no server, as for the test model.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files that are written to the home of the agent before each start, by their path in it. They are omitted in the
    /// same case as variables.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The dialects in which the agent can call models; if empty, any dialect.
    #[serde(default)]
    pub dialects: Vec<Dialect>,
    /// The packages of the agent, if the service can install it.
    #[serde(default)]
    pub install: Option<Install>,
    /// `true` if a new process of the agent can resume its sessions. Otherwise, each process opens a new session, and
    /// its first prompt includes the earlier messages.
    #[serde(default = "AgentSpec::resumes")]
    pub resume: bool,
    /// The session mode in which the agent does not ask for permission, such as `bypassPermissions`.
    #[serde(default)]
    pub mode: Option<String>,
    /// The session mode in which the agent asks for permission, such as `ask`. `None`: the agent's initial mode.
    #[serde(default)]
    pub ask_mode: Option<String>,
    /// The authentication method to use if the agent requires authentication before it opens a session.
    #[serde(default)]
    pub auth_method: Option<String>,
    /// The kinds of tool calls for which the agent asks permission in `ask_mode`. If empty, the agent never asks, and a
    /// project that refuses any kind cannot use it.
    #[serde(default)]
    pub asks: BTreeSet<ToolKind>,
    /// The effort of jobs that have none.
    #[serde(default)]
    pub effort: Option<Effort>,
    /// `true` if the model must also be selected through the protocol, after the session is open.
    #[serde(default)]
    pub select_model: bool,
    /// The maximum time in seconds for the agent to start and to answer `initialize`.
    #[serde(default = "AgentSpec::initialize_seconds")]
    pub initialize_seconds: u64,
    /// The time in milliseconds for which the agent keeps running after its answer, before it is paused and its home is
    /// stored. Some agents write their session shortly after the answer.
    #[serde(default = "AgentSpec::flush_millis")]
    pub flush_millis: u64,
}

impl AgentSpec {
    /// Returns the default for agents whose behavior is not known.
    const fn flush_millis() -> u64 {
        200
    }

    /// Returns the default. Known agents take 0.03 to 5 seconds.
    const fn initialize_seconds() -> u64 {
        15
    }

    /// Returns the default: most agents can resume their sessions.
    const fn resumes() -> bool {
        true
    }

    /// Checks that the agent asks permission for every kind of tool call that a project refuses.
    ///
    /// The agent must ask for each kind that the project refuses by name. If the project refuses all other kinds, the
    /// agent must also ask for `edit` and `execute`, unless the project allows them by name. Agents make all changes
    /// with calls of these two kinds.
    ///
    /// # Errors
    /// Returns the refused kinds for which the agent does not ask.
    pub fn check_permissions(&self, id: &str, sandbox: &SandboxSettings) -> Result<(), UnsupportedPolicy> {
        let by_name = sandbox.permission_kinds.iter().filter(|(_, policy)| **policy == PermissionPolicy::Refuse);
        let mut refused: BTreeSet<ToolKind> = by_name.map(|(kind, _)| *kind).collect();
        if sandbox.permissions == PermissionPolicy::Refuse {
            let changing = [ToolKind::Edit, ToolKind::Execute];
            refused.extend(changing.into_iter().filter(|kind| !sandbox.permission_kinds.contains_key(kind)));
        }
        let kinds: Vec<ToolKind> = refused.difference(&self.asks).copied().collect();
        if kinds.is_empty() {
            return Ok(());
        }
        Err(UnsupportedPolicy { agent: id.to_owned(), kinds, asks: self.asks.iter().copied().collect() })
    }

    /// Returns whether the agent calls models through the service, that is, whether the spec contains [`MODEL_URL`].
    #[must_use]
    pub fn calls_models(&self) -> bool {
        self.uses(MODEL_URL)
    }

    /// Returns whether the agent gets the effort when it is started, that is, whether the spec contains [`EFFORT`].
    /// Otherwise the effort is set through the protocol.
    #[must_use]
    pub fn takes_effort(&self) -> bool {
        self.uses(EFFORT)
    }

    fn uses(&self, word: &str) -> bool {
        let texts = self.command.iter().chain(self.environment.values()).chain(self.files.values());
        texts.into_iter().any(|text| text.contains(word))
    }
}

/// An error for a project that refuses kinds of tool calls for which its agent does not ask permission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "sandbox.permissions: the agent {agent} does not ask for permission for {}, so the project cannot refuse it; {}. \
     Change sandbox.permissions or sandbox.permissionKinds, or use another agent",
    names(.kinds),
    if .asks.is_empty() { "it never asks".to_owned() } else { format!("it asks for {}", names(.asks)) }
)]
pub struct UnsupportedPolicy {
    /// The ID of the agent.
    pub agent: String,
    /// The kinds that the project refuses and for which the agent does not ask.
    pub kinds: Vec<ToolKind>,
    /// The kinds for which the agent asks.
    pub asks: Vec<ToolKind>,
}

fn names(kinds: &[ToolKind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

/// The packages of an agent, with exact versions. They are installed in a separate folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Install {
    /// Packages of npm, such as `opencode-ai@1.18.33`.
    pub npm: Vec<String>,
    /// A date, such as `2026-11-21`: npm resolves the dependencies to versions that were published before it, so that a
    /// later installation has the same result.
    pub before: Option<String>,
    /// Packages of Python, such as `mistral-vibe==3.0.3`, in a virtual environment.
    pub pip: Vec<String>,
    /// The minimum version of Python for these packages, such as `3.12`.
    pub python: Option<String>,
    /// A `package-lock.json` with the hashes of all npm packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub npm_lock: Option<PathBuf>,
    /// A `requirements.txt` with the hashes of all Python packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pip_lock: Option<PathBuf>,
}

impl Install {
    /// The name of the file that marks an installation as complete. It is in the installation folder and lists the
    /// packages.
    pub const NOTE: &str = "installed.json";
}

/// The placeholder for the URL at which the agent calls models.
pub const MODEL_URL: &str = "{model_url}";

/// The placeholder for the token that the agent sends with its calls.
pub const MODEL_TOKEN: &str = "{model_token}";

/// The placeholder for the effort.
pub const EFFORT: &str = "{effort}";

/// The values of the placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceholderValues {
    /// `{model}`: the full name of the job's model.
    pub model: String,
    /// `{dialect}`: the dialect of the model's server, as in [`Dialect::name`]; `test` for the test model.
    pub dialect: String,
    /// `{model_name}`: the model's name at its provider.
    pub model_name: String,
    /// `{home}`: the path of the agent's home in the sandbox.
    pub home: String,
    /// `{workspace}`: the path of the workspace in the sandbox.
    pub workspace: String,
    /// `{permission}`: `allow`, or `ask` if the project refuses some tool calls.
    pub permission: &'static str,
    /// `{model_calls}`: the project's `limits.modelCalls`.
    pub model_calls: String,
    /// `{context_tokens}`: the size of the model's context window, from the configuration; `0` if it is not known.
    pub context_tokens: String,
    /// `{effort}`: the effort of the job, or of the agent's table; `None` if neither has one.
    pub effort: Option<Effort>,
}

/// The placeholders that are replaced when an agent is started.
const WORDS: [&str; 11] = [
    "{model}",
    "{dialect}",
    "{model_name}",
    "{home}",
    "{workspace}",
    "{permission}",
    "{model_calls}",
    "{context_tokens}",
    EFFORT,
    MODEL_URL,
    MODEL_TOKEN,
];

/// Returns the first unknown placeholder, such as `{model_tokn}`. Words in braces after `$` belong to the shell.
#[must_use]
pub fn unknown_word(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(start, _)| {
        let rest = &text[start..];
        let word = &rest[..=rest.find('}')?];
        let is_name = word.len() > 2 && word[1..word.len() - 1].bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
        (is_name && !text[..start].ends_with('$') && !WORDS.contains(&word)).then_some(word)
    })
}

impl PlaceholderValues {
    /// Replaces the placeholders in `text`, except [`MODEL_URL`] and [`MODEL_TOKEN`]. Returns `None` if the text is to be
    /// omitted: it needs an effort, and none is set.
    #[must_use]
    pub fn fill(&self, text: &str) -> Option<String> {
        let Self { model, dialect, model_name, home, workspace, permission, model_calls, context_tokens, effort } =
            self;
        let text = match effort {
            None if text.contains(EFFORT) => without_effort(text)?,
            _ => text.to_owned(),
        };
        let words = [
            ("{model}", model.as_str()),
            ("{dialect}", dialect),
            ("{model_name}", model_name),
            ("{home}", home),
            ("{workspace}", workspace),
            ("{permission}", permission),
            ("{model_calls}", model_calls),
            ("{context_tokens}", context_tokens),
            (EFFORT, effort.map_or("", Effort::name)),
        ];
        Some(replaced(&text, &words))
    }
}

/// Replaces words in one pass, so that a value that looks like a word stays as it is.
fn replaced(text: &str, words: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        let found = words.iter().find_map(|(word, value)| Some((*value, from.strip_prefix(word)?)));
        let (value, after) = found.unwrap_or_else(|| from.split_at(1));
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// Removes the lines with [`EFFORT`]. Returns `None` if no text remains.
fn without_effort(text: &str) -> Option<String> {
    let rest: String = text.split_inclusive('\n').filter(|line| !line.contains(EFFORT)).collect();
    (!rest.trim().is_empty()).then_some(rest)
}

/// The agents of an installation, by id.
pub type Agents = BTreeMap<String, AgentSpec>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_placeholder_is_found() {
        for (text, expected) in [
            ("--model {model} {model_url}", None),
            ("{model_tokn}", Some("{model_tokn}")),
            ("a {model} {Model} {} {a b} {1} {\"key\": {model_calls}}", None),
            ("echo ${home_dir} {nowhere}", Some("{nowhere}")),
            ("{ {unknown}", Some("{unknown}")),
            ("{", None),
        ] {
            assert_eq!(unknown_word(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_without_its_effort_is_omitted_by_lines() {
        let values = |effort| PlaceholderValues {
            model: "p/m-{effort}{home}".to_owned(),
            dialect: "openai".to_owned(),
            model_name: "m".to_owned(),
            home: "/h".to_owned(),
            workspace: "/w".to_owned(),
            permission: "allow",
            model_calls: "1".to_owned(),
            context_tokens: "0".to_owned(),
            effort,
        };
        let config = "model = \"{model_name}\"\neffort = \"{effort}\"\nurl = \"{model_url}\"\n";
        for (text, with, without) in [
            ("--effort={effort}", Some("--effort=xhigh"), None),
            ("{effort}", Some("xhigh"), None),
            ("\n{effort}\n \n", Some("\nxhigh\n \n"), None),
            ("{model_name}", Some("m"), Some("m")),
            ("", Some(""), Some("")),
            (
                config,
                Some("model = \"m\"\neffort = \"xhigh\"\nurl = \"{model_url}\"\n"),
                Some("model = \"m\"\nurl = \"{model_url}\"\n"),
            ),
        ] {
            assert_eq!(values(Some(Effort::XHigh)).fill(text).as_deref(), with, "{text}");
            assert_eq!(values(None).fill(text).as_deref(), without, "{text}");
        }
        assert_eq!(values(None).fill("{{model}}").as_deref(), Some("{p/m-{effort}{home}}"), "a name is no template");
    }

    #[test]
    fn a_policy_is_rejected_if_the_agent_does_not_ask() {
        use PermissionPolicy::{Allow, Refuse};
        use ToolKind::{Edit, Execute, Fetch, Read};
        type Kinds<'a> = &'a [(ToolKind, PermissionPolicy)];
        let cases: [(&[ToolKind], PermissionPolicy, Kinds<'_>, &[ToolKind]); 8] = [
            (&[], Allow, &[], &[]),
            (&[], Allow, &[(Fetch, Allow)], &[]),
            (&[], Allow, &[(Fetch, Refuse)], &[Fetch]),
            (&[], Refuse, &[], &[Edit, Execute]),
            (&[Edit, Execute], Refuse, &[], &[]),
            (&[Edit], Refuse, &[(Execute, Allow)], &[]),
            (&[Edit, Execute], Refuse, &[(Read, Refuse)], &[Read]),
            (&[Edit], Allow, &[(Edit, Refuse)], &[]),
        ];
        for (asks, permissions, kinds, expected) in cases {
            let mut spec: AgentSpec = serde_json::from_str(r#"{"command": ["x"]}"#).expect("a spec");
            spec.asks = asks.iter().copied().collect();
            let permission_kinds = kinds.iter().copied().collect();
            let sandbox = SandboxSettings { permissions, permission_kinds, ..SandboxSettings::default() };
            let found = spec.check_permissions("x", &sandbox).err().map(|error| error.kinds).unwrap_or_default();
            assert_eq!(found, expected, "{asks:?} {permissions:?} {kinds:?}");
        }
    }
}
