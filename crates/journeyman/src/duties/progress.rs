//! Shows the progress of messages on their code hosts.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::ProgressReporter;

use super::duty::{Duty, Scope};

/// The length of the lease.
const LEASE: Duration = Duration::from_secs(300);

/// Updates the summaries of messages that agents work on.
pub(super) struct ReportProgress(pub(super) ProgressReporter);

#[async_trait]
impl Duty for ReportProgress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn period(&self) -> Duration {
        ProgressReporter::PERIOD
    }

    fn scope(&self) -> Scope {
        Scope::Installation(LEASE)
    }

    async fn is_needed(&self) -> anyhow::Result<bool> {
        Ok(self.0.is_needed().await?)
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        Ok(self.0.report().await?)
    }
}
