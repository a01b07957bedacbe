//! Removes unneeded blobs that no effect has removed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use journeyman_worker::{Host, SweepPositions};
use tokio::sync::Mutex;

use super::duty::{Duty, Scope};

/// The maximum number of blobs of each kind that one run checks.
const PIECE: usize = 1000;

/// Removes blobs that a worker stored but did not record before it crashed, and sessions of jobs that have been inactive
/// for a long time. Each machine sweeps, because only it can read its blobs if they are not shared.
pub(super) struct SweepBlobs {
    host: Arc<Host>,
    /// The time after which the session of an inactive job is removed.
    session_keep: Duration,
    positions: Mutex<SweepPositions>,
}

impl SweepBlobs {
    pub(super) fn new(host: Arc<Host>, session_keep: Duration) -> Self {
        Self { host, session_keep, positions: Mutex::default() }
    }
}

#[async_trait]
impl Duty for SweepBlobs {
    fn name(&self) -> &'static str {
        "blobs"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        let mut positions = self.positions.lock().await;
        let removed = self.host.sweep_blobs(&mut positions, self.session_keep, PIECE).await;
        let removed = removed.context("unneeded blobs could not be removed")?;
        if removed > 0 {
            tracing::info!(removed, "unneeded blobs were removed");
        }
        Ok(())
    }
}
