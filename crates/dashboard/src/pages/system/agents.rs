//! The configured agents, and the workers on which they are installed.

use journeyman_core::agent::AgentSpec;
use journeyman_core::project::DEFAULT_AGENT;
use journeyman_core::worker::WorkerReport;

use super::data::SystemData;
use crate::frame::Frame;
use crate::{Shared, choices, visible};

/// An agent in the table.
pub(super) struct AgentRow {
    pub(super) name: String,
    pub(super) version: String,
    /// True if at least one worker can start it.
    pub(super) is_installed: bool,
    /// The class and the text of its state.
    pub(super) badge: (&'static str, String),
    /// The command that installs it on the workers that lack it, and the ID of its element.
    pub(super) install: Option<(String, String)>,
}

impl AgentRow {
    /// Returns whether only some workers have the agent: its jobs then fail on the others.
    pub(super) fn needs_person(&self) -> bool {
        self.is_installed && self.install.is_some()
    }
}

/// Returns a row for each agent; installed ones come first.
pub(super) fn rows(shared: &Shared, frame: &Frame, found: &SystemData) -> Vec<AgentRow> {
    let reporting: Vec<&WorkerReport> = found.reporting(frame.now).collect();
    let of_agent = |(index, (id, spec)): (usize, (&String, &AgentSpec))| {
        let with_agent = reporting.iter().filter(|worker| worker.state.agents.contains(id)).count();
        let (has, all) = match &shared.services.installed {
            // No worker reports yet, or all have an older version.
            Some(installed) if reporting.is_empty() => (usize::from(installed.is_installed(id)), 1),
            _ => (with_agent, reporting.len()),
        };
        let badge = match (has, all) {
            (_, 0) => ("off", "no worker reports".to_owned()),
            (0, _) => ("off", "not installed".to_owned()),
            (has, all) if has < all => ("warning", format!("on {has} of {all} workers")),
            _ => ("ok", "installed".to_owned()),
        };
        let command = format!("journeyman agent install {}", visible::line(id));
        let can_install = spec.install.is_some() && has < all;
        AgentRow {
            name: choices::name_of(shared, id),
            version: version(id, spec),
            is_installed: has > 0,
            badge,
            install: can_install.then(|| (command, format!("install-{index}"))),
        }
    };
    let mut rows: Vec<AgentRow> = shared.settings.agents.iter().enumerate().map(of_agent).collect();
    rows.sort_by_key(|row| !row.is_installed);
    rows
}

/// Returns the version of the packages of an agent.
fn version(id: &str, spec: &AgentSpec) -> String {
    let Some(install) = &spec.install else {
        return if id == DEFAULT_AGENT { "built in" } else { "own command" }.to_owned();
    };
    let npm = install.npm.first().and_then(|package| package.rsplit_once('@')).map(|(_, version)| version);
    let pip = install.pip.first().and_then(|package| package.split_once("==")).map(|(_, version)| version);
    visible::line(npm.or(pip).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_first_package() {
        let spec = |text: &str| serde_json::from_str::<AgentSpec>(text).unwrap();
        let npm = r#"{"command": ["x"], "install": {"npm": ["@scope/agent@2.4.1", "other@1"]}}"#;
        assert_eq!(version("claude-code", &spec(npm)), "2.4.1");
        assert_eq!(version("vibe", &spec(r#"{"command": ["x"], "install": {"pip": ["vibe==3.0.3"]}}"#)), "3.0.3");
        assert_eq!(version(DEFAULT_AGENT, &spec(r#"{"command": ["x"]}"#)), "built in");
        assert_eq!(version("mine", &spec(r#"{"command": ["x"]}"#)), "own command");
    }
}
