//! Polls code hosts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::Poller;

use super::duty::{Duty, Scope};

/// Polls the repositories on code hosts that are due.
pub(super) struct PollCodeHosts {
    pub(super) poller: Arc<Poller>,
}

#[async_trait]
impl Duty for PollCodeHosts {
    fn name(&self) -> &'static str {
        "polls"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn scope(&self) -> Scope {
        Scope::Installation(Duration::from_secs(60))
    }

    async fn is_needed(&self) -> anyhow::Result<bool> {
        Ok(self.poller.is_due().await?)
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        Ok(self.poller.poll_due().await?)
    }
}
