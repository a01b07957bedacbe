//! Removes the workspaces of inactive jobs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use journeyman_worker::Host;

use super::duty::{Duty, Scope};

/// Removes the workspaces on this machine whose jobs have been inactive for some time.
pub(super) struct RemoveIdleWorkspaces {
    pub(super) host: Arc<Host>,
    pub(super) idle: Duration,
}

#[async_trait]
impl Duty for RemoveIdleWorkspaces {
    fn name(&self) -> &'static str {
        "workspaces"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        let removed = self.host.remove_idle_workspaces(self.idle).await;
        let removed = removed.context("workspaces of inactive jobs could not be removed")?;
        if removed > 0 {
            tracing::info!(removed, "workspaces of inactive jobs were removed");
        }
        Ok(())
    }
}
