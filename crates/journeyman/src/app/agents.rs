//! The agents that are installed on this machine.

use std::path::PathBuf;

use journeyman_core::agent::Agents;
use journeyman_core::ports::InstalledAgents;

use crate::config::{Settings, folder, installed};

/// The installation folders of agents.
pub(super) struct AgentFolders {
    agents: Agents,
    data_dir: PathBuf,
}

impl AgentFolders {
    pub(super) fn of(settings: &Settings) -> Self {
        Self { agents: settings.agents.clone(), data_dir: settings.data_dir.clone() }
    }
}

impl InstalledAgents for AgentFolders {
    fn is_installed(&self, id: &str) -> bool {
        let packages = self.agents.get(id).and_then(|spec| spec.install.as_ref());
        packages.is_none_or(|packages| installed(&folder(&self.data_dir, id)).as_ref() == Some(packages))
    }
}
