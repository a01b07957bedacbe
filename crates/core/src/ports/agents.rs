//! The agents on this machine.

/// Finds out which agents are installed on this machine.
pub trait InstalledAgents: Send + Sync {
    /// Returns whether an agent can be started: its packages are installed, or it needs none.
    fn is_installed(&self, id: &str) -> bool;
}
