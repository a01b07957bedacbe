//! Reads the checks of pull requests.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::UseCases;

use super::duty::{Duty, Scope};

/// Reads checks until none are due. Processes share the work, because each claims different commits.
pub(super) struct ReadChecks(pub(super) UseCases);

#[async_trait]
impl Duty for ReadChecks {
    fn name(&self) -> &'static str {
        "read_checks"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        while self.0.carry_out_due_checks().await? > 0 {}
        Ok(())
    }
}
