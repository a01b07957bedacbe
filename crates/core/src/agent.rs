//! Agents, described by data: any program that speaks the Agent Client Protocol on its standard streams.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How an agent is started and what it needs. In `command` and `environment` `{model}` is replaced by the job's model,
/// `{home}` and `{workspace}` by the folders as the agent sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AgentSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What people call it.
    #[serde(default)]
    pub name: Option<String>,
    /// Files and folders of the machine that it needs beside the system's own, which the sandbox shows it where they are.
    #[serde(default)]
    pub readable: Vec<PathBuf>,
    /// Variables beside the project's.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The session mode in which it does not ask, such as `bypassPermissions`.
    #[serde(default)]
    pub mode: Option<String>,
    /// Whether the model is chosen through the protocol too, after the session is open.
    #[serde(default)]
    pub select_model: bool,
    /// How long it may go on after its answer before it is paused and its home is stored, in milliseconds: for agents
    /// that write their session a moment later.
    #[serde(default = "AgentSpec::flush_millis")]
    pub flush_millis: u64,
}

impl AgentSpec {
    /// What an agent gets of which nothing is known.
    const fn flush_millis() -> u64 {
        200
    }

    /// `text` with its placeholders replaced.
    #[must_use]
    pub fn fill(text: &str, model: &str, home: &str, workspace: &str) -> String {
        text.replace("{model}", model).replace("{home}", home).replace("{workspace}", workspace)
    }
}

/// The agents of an installation, by id.
pub type Agents = BTreeMap<String, AgentSpec>;
