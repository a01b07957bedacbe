//! The shutdown of the service. After the first SIGTERM or SIGINT, the service accepts no new work; running turns get a
//! grace period, and then return to the queue. After the second signal, the process exits at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The stages of a shutdown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stages {
    /// Cancelled at the first signal: the service accepts no requests and claims no runs; long polls and streams end.
    pub(crate) drain: CancellationToken,
    /// Cancelled after the grace period: running turns stop and return to the queue.
    pub(crate) stop: CancellationToken,
}

/// The signals that stop a service.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// The exit code after a second signal: 128 plus the number of SIGTERM.
const TERMINATED: i32 = 143;

impl Signals {
    /// Registers the handlers. From then on, the signals do not end the process by themselves.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for signals and starts the stages, until the process exits or this future is dropped.
    pub(crate) async fn lead(mut self, stages: Stages, grace: Duration) {
        self.next().await;
        tracing::info!(
            grace_s = grace.as_secs(),
            "stopping: running turns may continue for the grace period; a second signal stops the service at once"
        );
        stages.drain.cancel();
        tokio::select! {
            () = tokio::time::sleep(grace) => {
                tracing::info!("the grace period is over; running turns return to the queue");
                stages.stop.cancel();
                self.next().await;
            }
            () = self.next() => {}
        }
        tracing::warn!("stopping at once; another worker or the next start takes over the active runs");
        std::process::exit(TERMINATED);
    }
}
