//! `journeyman serve`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use journeyman_core::ports::Containment;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::store::print;
use super::user::{administrator, link};
use crate::config::{self, Layer, Role};
use crate::lifecycle::{Signals, Stages};
use crate::server::Server;
use crate::{scope, telemetry};

#[derive(Debug, Args)]
#[command(
    after_help = "A setting is taken from its flag, else from the configuration file (there named as here, without \
                        the dashes), else from the environment (JOURNEYMAN_LISTEN for --listen), else its default \
                        holds. Times are written like 30s, 5m or 1day."
)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: Layer,
}

/// Serves until a signal says otherwise.
pub(crate) fn run(arguments: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = config::load(arguments.settings)?;
    scope::enter(&settings)?;
    telemetry::begin(&settings)?;
    use_all_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let signals = Signals::listen()?;
        let serves_clients = settings.roles.contains(&Role::Api);
        let (stages, grace, data_dir) = (Stages::default(), settings.grace, settings.data_dir.clone());
        let server = Server::bind(settings).await?;
        // Beside the first requests: it takes a moment.
        let host = Arc::clone(&server.app.host);
        let watcher = tokio::spawn(async move { host.walls.watch(log_containment).await });
        if serves_clients {
            tracing::info!(url = server.public_url, data = %data_dir.display(), "serving");
        } else {
            let address = server.address()?;
            tracing::info!(health = %format!("http://{address}/readyz"), data = %data_dir.display(), "carrying out jobs");
        }
        if serves_clients && !server.app.has_keys().await? {
            tracing::info!("there is no API key yet; make one with: journeyman key create --name NAME");
        }
        if serves_clients && administrator(&*server.app.store).await?.is_none() {
            // Not into the log: whoever has the link becomes the administrator.
            let link = link(&*server.app.store, &server.public_url, None).await?;
            print(&format!(
                "Nobody administers this server yet. Open this link, within a day, to become the one who does:\n{link}"
            ))?;
        }
        let leader = tokio::spawn(signals.lead(stages.clone(), grace));
        let served = server.run(stages).await;
        leader.abort();
        watcher.abort();
        served
    });
    // A program in a thread that cannot be interrupted must not keep the process.
    runtime.shutdown_background();
    served?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Event streams, and the ways out of sandboxes, are many; what a process gets by itself is often 1024.
fn use_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Logs the guarantees that the sandbox of this machine does not hold, and whether agents may be run.
fn log_containment(found: &Containment) {
    for lost in found.guarantees.iter().filter(|guarantee| !guarantee.holds) {
        tracing::warn!("UNSAFE sandbox \"{}\", {}: {}", found.sandbox, lost.name, lost.note);
    }
    if found.is_enough() {
        tracing::info!(sandbox = found.sandbox, "agents may be run");
    } else {
        tracing::error!(
            "no agent but the test model is run, because the sandbox lacks required guarantees; it is checked again \
             periodically and before each run"
        );
    }
}
