//! Prepares a new workspace with the project's setup command.
//!
//! Invariant: code that an agent may have written never runs with a secret that the agent does not get
//! ([`preparation`]).

pub(crate) mod preparation;
mod switch;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use journeyman_core::ports::{Exit, Gateway, Spawned};
use journeyman_core::project::{DEFAULT_RUN_SECONDS, Settings};
use journeyman_core::run::ReasonCode;
use tokio::net::unix::pipe::Receiver;
use tokio_util::sync::CancellationToken;

use crate::claim::lease::{Reporter, Signals};
use crate::claim::redaction::whole_lines;
use crate::error::RunError;
use crate::sandbox::disk_limit::Disk;
use crate::sandbox::job_sandbox::{JobSandbox, StartTimeout};
use crate::sandbox::limits;
use crate::sandbox::outbound::OutboundProxies;
use crate::sandbox::output::read_last;

/// The bytes of the command's output that are kept.
const OUTPUT_BYTES: usize = 64 << 10;

/// The characters of the output that an error shows.
const SHOWN_CHARS: usize = 2000;

/// Runs the setup command, if there is one.
async fn set_up(
    sandbox: &JobSandbox,
    gateway: &dyn Gateway,
    environment: &BTreeMap<String, String>,
    reporter: &Reporter,
    signals: &Signals,
    settings: &Settings,
) -> Result<(), RunError> {
    let Some(command) = &settings.setup else { return Ok(()) };
    let argv = ["/bin/sh", "-c", command].map(str::to_owned).to_vec();
    let spawn = sandbox.spawn_with_egress(argv, environment.clone());
    let spawned = sandbox.start(spawn, signals, StartTimeout::BEFORE_TURN).await?;
    let Spawned { stdin, stdout, stderr, listeners, mut process } = spawned;
    let mut proxies = OutboundProxies::open(gateway, listeners.into_iter().next(), sandbox.egress.clone(), None)?;
    drop(stdin);
    let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
    let seconds = settings.limits.run_seconds.unwrap_or(DEFAULT_RUN_SECONDS);
    let end = tokio::time::Instant::now() + Duration::from_secs(u64::from(seconds));
    let over = CancellationToken::new();
    let read = async { tokio::try_join!(read_last(stdout, OUTPUT_BYTES), read_last(stderr, OUTPUT_BYTES)) };
    let logged = proxies.write(reporter, &over).fuse();
    tokio::pin!(read, logged);
    let (mut printed, mut watch) = (None, limits::Watch::new(sandbox, &settings.limits));
    let exit = async {
        loop {
            tokio::select! {
                done = &mut read, if printed.is_none() => printed = Some(done?),
                // The command may close its streams and continue to run.
                exit = process.wait(), if printed.is_some() => break Ok(exit),
                logged = &mut logged => logged?,
                () = tokio::time::sleep(watch.pause()) => {
                    if let Some(error) = watch.check(&*process).await {
                        // A paused command is killed without a grace period, so it writes nothing while its files are
                        // removed.
                        process.pause().await;
                        break Err(error);
                    }
                }
                () = signals.lost.cancelled() => break Err(RunError::LeaseLost),
                () = signals.shutdown.cancelled() => break Err(RunError::HandedBack),
                () = tokio::time::sleep_until(end) => break Err(too_long(seconds)),
            }
        }
    };
    let exit = exit.await;
    // Nothing else may run in the workspace until all processes of the command have ended: they may have had secrets.
    process.end().await;
    let exit = exit?;
    over.cancel();
    logged.await?;
    let (mut printed, stderr) = printed.unwrap_or_default();
    if exit == Exit::Code(0) {
        return Ok(());
    }
    if let Some(exhausted) = process.exhausted() {
        return Err(limits::reached(exhausted, &settings.limits));
    }
    printed.extend(stderr);
    let disk = Disk::of(sandbox, &settings.limits);
    Err(disk.failure("").await.unwrap_or_else(|| failed(exit, &printed)))
}

fn failed(exit: Exit, printed: &[u8]) -> RunError {
    let printed = String::from_utf8_lossy(printed).replace('\0', "");
    let excess = printed.chars().count().saturating_sub(SHOWN_CHARS);
    let last: String = printed.chars().skip(excess).collect();
    let last = if excess > 0 { whole_lines(&last) } else { &last }.trim();
    let printed = match (excess, last) {
        (0, "") => "it printed nothing".to_owned(),
        // A part of a line may begin with a part of a secret.
        (_, "") => format!("its last line is not shown, because it has more than {SHOWN_CHARS} characters"),
        (_, last) => format!("it printed last: {last}"),
    };
    let text = format!("the project's setup command failed ({exit}); {printed}");
    RunError::failed(ReasonCode::SetupFailed, text)
}

fn too_long(seconds: u32) -> RunError {
    let text = format!("the setup command took longer than {seconds} seconds; raise limits.runSeconds of the project");
    RunError::failed(ReasonCode::TimedOut, text)
}
