//! `journeyman serve`: runs the service.

use std::process::ExitCode;

use clap::Args;
use journeyman_core::worker::Containment;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::program;
use super::store::print;
use super::user::{first_link, has_administrator};
use crate::config::{self, Layer, Role};
use crate::lifecycle::{Signals, Stages};
use crate::server::Server;
use crate::{scope, telemetry};

#[derive(Debug, Args)]
#[command(
    after_help = "A flag takes precedence over the configuration file (the same names, without the dashes), which takes \
                        precedence over the environment (JOURNEYMAN_LISTEN for --listen). Write times like 30s, 5m or \
                        1day."
)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: Layer,
}

/// Runs the service until a signal stops it.
pub(crate) fn run(arguments: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = config::load(arguments.settings)?;
    scope::enter(&settings)?;
    let telemetry = telemetry::begin(&settings)?;
    use_all_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let serves_clients = settings.roles.contains(&Role::Api);
        let (stages, grace, data_dir) = (Stages::default(), settings.grace, settings.data_dir.clone());
        let hint = program::on_installation(&settings, "key create --name NAME");
        // The start may wait for the database for a long time.
        let server = tokio::select! {
            bound = Server::bind(settings) => bound.map_err(explained)?,
            () = signals.next() => return Ok(()),
        };
        // Check the sandbox in the background, because that takes some time.
        let host = server.app.host();
        let watcher = tokio::spawn(async move {
            if let Some(host) = host {
                host.watch_containment(log_containment).await;
            }
        });
        if serves_clients {
            tracing::info!(url = server.public_url, data = %data_dir.display(), "serving");
        } else {
            let address = server.address()?;
            tracing::info!(health = %format!("http://{address}/readyz"), data = %data_dir.display(), "carrying out jobs");
        }
        if serves_clients && !server.app.has_keys().await? {
            tracing::info!("there is no API key yet; create one with: {hint}");
        }
        let link = if serves_clients && !has_administrator(&*server.app.store).await? {
            first_link(&server.app.cases).await.unwrap_or_else(|error| {
                // The disk may be full. Reads work nevertheless.
                tracing::warn!(%error, "this server has no administrator, and the link for the first one could not be stored; \
                     start the service again when the database can be written");
                None
            })
        } else {
            None
        };
        if let Some(link) = link {
            // The link is not logged, because anyone who has it can become the administrator.
            print(&format!(
                "This server has no administrator yet. Open this link within a day to become its administrator:\n{link}"
            ))?;
        }
        let leader = tokio::spawn(signals.lead(stages.clone(), grace));
        let served = server.run(stages).await;
        leader.abort();
        watcher.abort();
        served
    });
    // Threads that cannot be interrupted must not delay the exit of the process.
    runtime.shutdown_background();
    if served.is_ok() {
        tracing::info!("stopped");
    }
    telemetry.end();
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Adds what to do to the error of a start that failed because a folder is read-only, as most are in the systemd unit.
fn explained(error: anyhow::Error) -> anyhow::Error {
    let is_read_only = |cause: &std::io::Error| matches!(cause.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(is_read_only) {
        return error.context(
            "the service may not write to one of its folders; if systemd starts it, run `systemctl edit journeyman`, and add \
             the folder as ReadWritePaths= in [Service] (docs/hardening.md)",
        );
    }
    error
}

/// Raises the soft limit of open files to the hard limit: event streams and the outbound connections of sandboxes need
/// many descriptors, and the default soft limit is often 1024.
fn use_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Logs the guarantees that the sandbox of this machine lacks, and whether agents can run.
fn log_containment(found: &Containment) {
    for lost in found.guarantees.iter().filter(|guarantee| !guarantee.holds) {
        tracing::warn!("UNSAFE sandbox \"{}\", {}: {}", found.sandbox, lost.name, lost.note);
    }
    if found.is_enough() {
        tracing::info!(sandbox = found.sandbox, "agents can run");
    } else {
        tracing::error!(
            "agents other than the test model do not run, because the sandbox lacks required guarantees; it is checked \
             again periodically and before each run"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_folder_that_is_read_only_says_what_to_do_in_the_unit() {
        use anyhow::Context;
        use std::io::{Error, ErrorKind};

        let failed = |kind: ErrorKind| -> anyhow::Error {
            let failed: Result<(), _> = Err(Error::from(kind));
            explained(failed.context("the folder /srv/x cannot be created").expect_err("it fails"))
        };
        let text = format!("{:#}", failed(ErrorKind::ReadOnlyFilesystem));
        assert!(text.contains("ReadWritePaths=") && text.contains("the folder /srv/x"), "{text}");
        assert!(!format!("{:#}", failed(ErrorKind::PermissionDenied)).contains("systemd"));
    }
}
