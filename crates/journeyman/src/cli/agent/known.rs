//! The known agents, by their IDs.

use anyhow::Context;
use journeyman_core::agent::AgentSpec;

use crate::config::Settings;

/// Returns the agent with an ID.
pub(super) fn find<'a>(settings: &'a Settings, id: &str) -> anyhow::Result<&'a AgentSpec> {
    settings.agents.get(id).with_context(|| {
        let known: Vec<&str> = settings.agents.keys().map(String::as_str).collect();
        format!("there is no agent {id:?}; the known agents are {}", known.join(", "))
    })
}
