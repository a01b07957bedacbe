//! Watches the credentials for code hosts.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::UseCases;

use super::duty::{Duty, Scope};

/// Tests the credentials for code hosts, so that people are warned before one ends. The results are in the memory of the
/// process, so each process has this duty.
pub(super) struct WatchCredentials(pub(super) UseCases);

#[async_trait]
impl Duty for WatchCredentials {
    fn name(&self) -> &'static str {
        "credentials"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn delay(&self) -> Duration {
        // A service that starts again and again sends no requests to code hosts.
        Duration::from_secs(60)
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        Ok(self.0.watch_credentials().await?)
    }
}
