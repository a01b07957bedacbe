//! The running service: the HTTP server, the worker, and the sweeper.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use journeyman_core::ports::Containing;
use journeyman_core::time::Clock;
use journeyman_worker::{Limits, Worker};
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;

use crate::app::{self, App, leftovers};
use crate::config::{ConnectionSettings, Role, Settings};
use crate::connections::{self, Registry};
use crate::folders::make_private_dir;
use crate::lifecycle::Stages;
use crate::presence::Presence;
use crate::startup::wait_for_database;
use crate::system::Machine;

/// The time for answers in progress after the running turns were handed back, or after the database failed.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The time limit for the removal of the worker's report at the end.
const LAST_REPORT: Duration = Duration::from_secs(2);

/// A service that has its address and does not run yet.
pub(crate) struct Server {
    pub(crate) app: App,
    pub(crate) public_url: String,
    settings: Settings,
    listener: TcpListener,
    connections: Arc<Registry>,
    /// The lock on the data directory, which is held as long as the service exists.
    _lock: File,
}

impl Server {
    /// Locks the data directory, removes leftovers of the previous process, binds the address, and assembles the
    /// service.
    ///
    /// # Errors
    /// Returns an error if another service uses the directory or the address, or if the service cannot be assembled.
    pub(crate) async fn bind(settings: Settings) -> anyhow::Result<Self> {
        make_private_dir(&settings.data_dir)?;
        let lock = app::lock(&settings.data_dir)?;
        let (copy, now) = (settings.clone(), Machine.now());
        tokio::task::spawn_blocking(move || leftovers::remove(&copy, now)).await?;
        app::recover_store(&settings)?;
        let listener = connections::listen(settings.listen);
        let listener = listener.with_context(|| format!("cannot listen on the address {}", settings.listen))?;
        let public_url = settings.public_url(listener.local_addr()?);
        let connections = connection_limits(&settings);
        let listener = wait_for_database(&settings, listener, &connections).await?;
        let app = app::build(settings.clone(), public_url.clone()).await?;
        if let Err(error) = app.store.note_start().await {
            tracing::warn!(%error, "the start could not be noted; an older database that is put back may not be noticed");
        }
        let copy = settings.clone();
        // This task is not awaited: if the service stops before the task ends, the next start removes the rest.
        tokio::task::spawn_blocking(move || leftovers::remove_slowly(&copy, now));
        Ok(Self { app, public_url, settings, listener, connections, _lock: lock })
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// The operating system does not return the address.
    pub(crate) fn address(&self) -> std::io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until all stages of the shutdown are complete.
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
        let presence = worker.as_ref().zip(host.clone()).map(|(worker, host)| {
            let (store, machine) = (Arc::clone(&self.app.store), host as Arc<dyn Containing>);
            let installed = self.app.installed();
            Arc::new(Presence::new((store, id), machine, worker.active_runs(), installed, &self.settings))
        });
        let reporting = presence.clone().map(|presence| tokio::spawn(async move { presence.run().await }));
        let work = async {
            if let Some(worker) = worker {
                // The lock on the data directory guarantees that no other process uses this ID.
                match worker.release_leases().await {
                    Ok(0) => {}
                    Ok(runs) => tracing::info!(runs, "taking over the runs of the previous process"),
                    Err(error) => tracing::warn!(%error, "leases could not be released; they will expire"),
                }
                worker.work(stages.drain.clone(), stages.stop.clone()).await;
            }
        };
        let duties = self.app.duties.clone();
        let duties = tokio::spawn(async move { duties.run().await });
        let cases = self.app.cases.clone();
        let inbox = self.settings.roles.contains(&Role::Api);
        let inbox = tokio::spawn(async move {
            if inbox {
                tokio::join!(cases.carry_out_inbox(), cases.carry_out_slack(), cases.hold_slack_sockets());
            }
        });
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
                // Waiting clients get their answers before the process ends. Nothing else can be completed.
                let _ = tokio::time::timeout(LAST_ANSWERS, serving).await;
                Err(anyhow!(
                    "the database can no longer be trusted: {reason}; check its disk (dmesg lists errors), then start \
                     the service again: it rereads the database's log and continues with what was stored"
                ))
            }
        };
        duties.abort();
        inbox.abort();
        if let Some((reporting, presence)) = reporting.zip(presence) {
            reporting.abort();
            // A report that is being stored must not follow the removal.
            let _ = reporting.await;
            let _ = tokio::time::timeout(LAST_REPORT, presence.end()).await;
        }
        if let Some(host) = host {
            host.end_idle_agents().await;
        }
        served
    }
}

/// Creates the registry of connections. The limits are those of the settings, as far as the limit on open files allows.
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
    Registry::new(limits, timeouts, settings.trusted_proxies.clone(), settings.is_https())
}
