//! How the service stops. The first TERM or interrupt: nothing new is taken; running turns get a grace period, then are
//! handed back. The second: at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The stages of stopping.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stages {
    /// No new requests, no new claims; long polls and streams end.
    pub(crate) drain: CancellationToken,
    /// Running turns are handed back.
    pub(crate) stop: CancellationToken,
}

/// The signals that stop a service.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// The exit code of a program that a second signal ended: 128 and SIGTERM's number.
const ENDED: i32 = 143;

impl Signals {
    /// Begins to listen; from here on a signal does not end the process by itself.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Leads through the stages, until the process ends or this is dropped.
    pub(crate) async fn lead(mut self, stages: Stages, grace: Duration) {
        self.next().await;
        tracing::info!(
            grace_s = grace.as_secs(),
            "stopping: running turns may go on for a while; a second signal ends at once"
        );
        stages.drain.cancel();
        tokio::select! {
            () = tokio::time::sleep(grace) => {
                tracing::info!("handing running turns back");
                stages.stop.cancel();
                self.next().await;
            }
            () = self.next() => {}
        }
        tracing::warn!("stopping at once; what was running is taken over after the next start");
        std::process::exit(ENDED);
    }
}
