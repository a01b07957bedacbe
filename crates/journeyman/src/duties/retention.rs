//! Removes rows whose retention has ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Retention, Store, Swept};
use journeyman_core::slack::SLACK_LIFETIME;
use journeyman_core::time::Clock;

use super::duty::{Duty, Scope};
use crate::system::Machine;

/// The maximum number of rows of each kind that one transaction removes, because requests wait for the transaction.
const PIECE: usize = 100;

/// The pause between two transactions.
const PAUSE: Duration = Duration::from_millis(50);

/// Removes expired idempotency keys, sessions and links, and transcripts, jobs and audit entries whose retention has
/// ended.
pub(super) struct ApplyRetention {
    pub(super) store: Arc<dyn Store>,
    pub(super) retention: Retention,
}

#[async_trait]
impl Duty for ApplyRetention {
    fn name(&self) -> &'static str {
        "retention"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn scope(&self) -> Scope {
        Scope::Installation(Duration::from_secs(600))
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        loop {
            let swept = self.store.sweep(Machine.now(), self.retention, PIECE).await?;
            let Swept { jobs, transcripts, audit, .. } = swept;
            if jobs + transcripts + audit > 0 {
                tracing::info!(jobs, transcripts, audit, "rows whose retention had ended were removed");
            }
            let now = Machine.now();
            let slack = self.store.sweep_slack(now - SLACK_LIFETIME, now, PIECE).await?;
            if swept.most() < PIECE && slack < PIECE {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
