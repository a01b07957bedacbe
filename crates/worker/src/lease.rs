//! Keeps a run's lease alive and listens for what ends it early: cancel, interrupt, takeover, shutdown.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::engine::{Claimed, Engine};
use journeyman_core::job::command::Report;
use journeyman_core::ports::{Store, UpdateError};
use tokio_util::sync::CancellationToken;

/// How a run learns that it should end.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    /// An interrupting message waits: end the turn, keep what is committed.
    pub(crate) stop: CancellationToken,
    /// The lease is gone: end everything, report nothing.
    pub(crate) lost: CancellationToken,
    /// The worker shuts down: hand the run back.
    pub(crate) shutdown: CancellationToken,
}

/// Runs beside a run, until it is dropped with it.
pub(crate) async fn keep(engine: Engine, store: Arc<dyn Store>, claimed: Claimed, lease: Duration, signals: Signals) {
    tokio::join!(beat(&engine, &claimed, lease, &signals), listen(store, &claimed, &signals));
}

async fn beat(engine: &Engine, claimed: &Claimed, lease: Duration, signals: &Signals) {
    let mut ticks = tokio::time::interval(lease / 3);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let beat = Report::Heartbeat { lease_until: engine.now() + lease };
        match engine.report(claimed.job.id, claimed.lease.token, beat).await {
            Ok(_) => {}
            Err(UpdateError::Rejected(_) | UpdateError::NotFound | UpdateError::NoProject) => {
                return signals.lost.cancel();
            }
            // The store is away: the lease holds for a while, and if it runs out the next beat is refused.
            Err(error) => tracing::warn!(job = %claimed.job.id, %error, "a heartbeat was not taken"),
        }
    }
}

/// Looks at the job whenever its log grows: cancel, archive and interrupt are seen at once, not at the next beat.
async fn listen(store: Arc<dyn Store>, claimed: &Claimed, signals: &Signals) {
    let mut seen = claimed.job.last_seq;
    loop {
        store.job_changed(claimed.job.id, seen).await;
        match store.job(claimed.job.id).await {
            Ok(Some(job)) => {
                seen = job.last_seq;
                if job.lease().is_none_or(|lease| lease.token != claimed.lease.token) {
                    return signals.lost.cancel();
                }
                if job.delivery().is_some_and(|delivery| delivery.stop) {
                    signals.stop.cancel();
                }
            }
            Ok(None) => return signals.lost.cancel(),
            Err(error) => {
                tracing::warn!(job = %claimed.job.id, %error, "the job could not be read");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
