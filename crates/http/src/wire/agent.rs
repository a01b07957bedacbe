//! The wire format of agents.

use journeyman_core::agent::AgentSpec;
use journeyman_core::model::Dialect;
use serde::Serialize;
use utoipa::ToSchema;

/// The list of agents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentList {
    /// The agents, by ID.
    pub(crate) agents: Vec<Agent>,
}

/// An agent that the installation knows.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Agent {
    /// The ID, which projects and jobs name as `agent`.
    #[schema(example = "claude-code")]
    id: String,
    /// The display name.
    name: String,
    /// The dialects in which the agent calls models; an empty list means any.
    #[schema(example = json!(["anthropic"]))]
    dialects: Vec<&'static str>,
    /// The kinds of tool calls that a project can refuse to the agent.
    #[schema(example = json!(["edit", "execute"]))]
    asks: Vec<&'static str>,
    /// `true` if a new process of the agent resumes its sessions. Otherwise, each message of a job begins a session that
    /// includes the earlier messages.
    resumes: bool,
}

impl Agent {
    pub(crate) fn of(id: &str, agent: &AgentSpec) -> Self {
        Self {
            id: id.to_owned(),
            name: agent.name.clone().unwrap_or_else(|| id.to_owned()),
            dialects: agent.dialects.iter().copied().map(Dialect::name).collect(),
            asks: agent.asks.iter().map(|kind| kind.name()).collect(),
            resumes: agent.resume,
        }
    }
}
