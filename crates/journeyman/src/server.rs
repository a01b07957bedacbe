//! The running service: HTTP, a worker, a sweeper.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use journeyman_core::ports::{Retention, Store, StoreError, Swept};
use journeyman_core::time::Clock;
use journeyman_worker::{Host, Limits, SweepPositions, Worker};
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;

use crate::app::{self, App, leftovers};
use crate::config::{ConnectionSettings, Settings};
use crate::connections::{self, Registry};
use crate::lifecycle::Stages;
use crate::system::Machine;

/// How often what is over is cleared away.
const SWEEP: Duration = Duration::from_secs(600);

/// Things of each kind that one piece of a sweep removes at most: requests wait for it.
const SWEEP_PIECE: usize = 100;

/// Between two pieces.
const SWEEP_PAUSE: Duration = Duration::from_millis(50);

/// Blobs of each kind that one sweep looks at.
const SWEEP_BLOBS: usize = 1000;

/// The time that answers in progress may take once running turns were handed back or the database is lost.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A service that is bound to its address and not yet running.
pub(crate) struct Server {
    pub(crate) app: App,
    pub(crate) public_url: String,
    settings: Settings,
    listener: TcpListener,
    connections: Arc<Registry>,
    /// Held as long as the service lives.
    _lock: File,
}

impl Server {
    /// Takes the data directory and the address.
    ///
    /// # Errors
    /// Another service has one of them; the store cannot be opened.
    pub(crate) async fn bind(settings: Settings) -> anyhow::Result<Self> {
        app::make_private_dir(&settings.data_dir)?;
        let lock = app::lock(&settings.data_dir)?;
        let (of, now) = (settings.clone(), Machine.now());
        tokio::task::spawn_blocking(move || leftovers::remove(&of, now)).await?;
        app::recover_store(&settings)?;
        let listener = connections::listen(settings.listen);
        let listener = listener.with_context(|| format!("the address {} cannot be listened on", settings.listen))?;
        let public_url = settings.public_url(listener.local_addr()?);
        let app = app::build(settings.clone(), public_url.clone()).await?;
        let connections = connection_limits(&settings);
        let of = settings.clone();
        // This task is not awaited: a service that stops before its end leaves the rest to the next start.
        tokio::task::spawn_blocking(move || leftovers::remove_slowly(&of, now));
        Ok(Self { app, public_url, settings, listener, connections, _lock: lock })
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// The operating system does not return the address.
    pub(crate) fn address(&self) -> std::io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the stages of stopping have been gone through.
    pub(crate) async fn run(self, stages: Stages) -> anyhow::Result<()> {
        let router = self.app.router(stages.drain.clone(), Arc::clone(&self.connections));
        let http = connections::serve(self.listener, router, self.connections, stages.drain.clone());
        let http = async {
            tokio::select! {
                () = http => {}
                () = async { stages.stop.cancelled().await; tokio::time::sleep(LAST_ANSWERS).await } => {}
            }
        };
        let (lease, patience) = (self.settings.lease, self.settings.patience);
        let limits = Limits { runs: self.settings.workers, lease, patience, ..Limits::default() };
        let host = self.app.host();
        let id = app::worker_id(&self.settings)?;
        let worker = host.clone().map(|host| Worker::new(host, id, limits));
        let work = async {
            if let Some(worker) = worker {
                // The lock on the data directory guarantees that no other process works under our ID.
                match worker.release_leases().await {
                    Ok(0) => {}
                    Ok(runs) => tracing::info!(runs, "taking over the runs of the previous process"),
                    Err(error) => tracing::warn!(%error, "leases could not be released; they will expire"),
                }
                worker.work(stages.drain.clone(), stages.stop.clone()).await;
            }
        };
        let sweeper = tokio::spawn(sweep(host.clone(), self.app.store.clone(), self.settings.clone()));
        let serving = async {
            tokio::join!(http, work);
        };
        let mut serving = std::pin::pin!(serving);
        let served = tokio::select! {
            () = &mut serving => Ok(()),
            reason = self.app.store.failed() => {
                tracing::error!(%reason, "the database can no longer be trusted; the service is stopping");
                stages.drain.cancel();
                stages.stop.cancel();
                // Waiting clients get their answers before the process ends; nothing else can be completed.
                let _ = tokio::time::timeout(LAST_ANSWERS, serving).await;
                Err(anyhow!(
                    "the database can no longer be trusted: {reason}; check its disk (dmesg lists errors), then start \
                     the service again: it rereads the database's log and continues with what was stored"
                ))
            }
        };
        sweeper.abort();
        if let Some(host) = host {
            host.end_idle_agents().await;
        }
        served
    }
}

/// Makes the registry of connections, with the limits of the settings as far as the machine allows them.
fn connection_limits(settings: &Settings) -> Arc<Registry> {
    let ConnectionSettings { most, most_per_address, timeouts } = settings.connections;
    let files = getrlimit(Resource::Nofile).current.map(|files| usize::try_from(files).unwrap_or(usize::MAX));
    let limits = connections::limits(most, most_per_address, files, settings.workers, settings.database_connections);
    if let Some(asked) = most.filter(|asked| *asked > limits.total) {
        tracing::warn!(
            asked,
            possible = limits.total,
            files,
            "max-connections is higher than the limit of open files allows; the lower number applies. Raise the \
             service's limit of open files"
        );
    }
    Registry::new(limits, timeouts, settings.trusted_proxies.clone())
}

async fn sweep(host: Option<Arc<Host>>, store: Arc<dyn Store>, settings: Settings) {
    let (mut beat, mut places) = (tokio::time::interval(SWEEP), SweepPositions::default());
    loop {
        beat.tick().await;
        if let Err(error) = sweep_store(&*store, settings.retention).await {
            tracing::warn!(%error, "what is over could not be cleared away");
        }
        let Some(host) = &host else { continue };
        match host.sweep_blobs(&mut places, settings.session_keep, SWEEP_BLOBS).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "blobs that nobody needs were removed"),
            Err(error) => tracing::warn!(%error, "blobs that nobody needs could not be removed"),
        }
        match host.remove_idle_workspaces(settings.workspace_idle).await {
            Ok(0) => {}
            Ok(released) => tracing::info!(released, "workspaces of idle jobs were removed"),
            Err(error) => tracing::warn!(%error, "workspaces of idle jobs could not be removed"),
        }
    }
}

/// Removes what is over, piece by piece.
async fn sweep_store(store: &dyn Store, retention: Retention) -> Result<(), StoreError> {
    loop {
        let swept = store.sweep(Machine.now(), retention, SWEEP_PIECE).await?;
        if swept.jobs + swept.transcripts + swept.audit > 0 {
            let Swept { jobs, transcripts, audit, .. } = swept;
            tracing::info!(jobs, transcripts, audit, "what is older than it is to be kept was removed");
        }
        if swept.most() < SWEEP_PIECE {
            return Ok(());
        }
        tokio::time::sleep(SWEEP_PAUSE).await;
    }
}
