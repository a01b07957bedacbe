//! Prepares a fresh workspace by the project's setup command.
//!
//! Invariant: code that an agent may have written never runs with a secret that the agent does not get
//! ([`workspace`]).

pub(crate) mod accepted;
pub(crate) mod home;
mod switch;
#[cfg(test)]
mod tests;
pub(crate) mod workspace;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use journeyman_core::ports::{Exit, Gateway, Spawned};
use journeyman_core::project::{DEFAULT_RUN_SECONDS, Settings};
use journeyman_core::run::ReasonCode;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio_util::sync::CancellationToken;

use crate::disk_limit::Disk;
use crate::failure::Stopped;
use crate::lease::{Reporter, Signals};
use crate::limits;
use crate::redaction::whole_lines;
use crate::room::{Patience, Room};
use crate::ways::Ways;

/// Bytes of its output that are kept.
const OUTPUT_BYTES: usize = 64 << 10;

/// Characters of its output that a failure shows.
const SHOWN_CHARS: usize = 2000;

/// Runs it, if there is one.
async fn set_up(
    room: &Room,
    gateway: &dyn Gateway,
    environment: &BTreeMap<String, String>,
    reporter: &Reporter,
    signals: &Signals,
    settings: &Settings,
) -> Result<(), Stopped> {
    let Some(command) = &settings.setup else { return Ok(()) };
    let argv = ["/bin/sh", "-c", command].map(str::to_owned).to_vec();
    let spawn = room.spawn_with_egress(argv, environment.clone());
    let spawned = room.start(spawn, signals, Patience::BEFORE_TURN).await?;
    let Spawned { stdin, stdout, stderr, listeners, mut process } = spawned;
    let mut ways = Ways::open(gateway, listeners.into_iter().next(), room.egress.clone(), None)?;
    drop(stdin);
    let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
    let seconds = settings.limits.run_seconds.unwrap_or(DEFAULT_RUN_SECONDS);
    let end = tokio::time::Instant::now() + Duration::from_secs(u64::from(seconds));
    let over = CancellationToken::new();
    let read = async { tokio::try_join!(read(stdout, OUTPUT_BYTES), read(stderr, OUTPUT_BYTES)) };
    let told = ways.tell(reporter, &over).fuse();
    tokio::pin!(read, told);
    let (mut printed, mut watch) = (None, limits::Watch::new(room, &settings.limits));
    let exit = async {
        loop {
            tokio::select! {
                done = &mut read, if printed.is_none() => printed = Some(done?),
                // The command may close its streams and continue to run.
                exit = process.wait(), if printed.is_some() => break Ok(exit),
                told = &mut told => told?,
                () = tokio::time::sleep(limits::BEAT) => {
                    if let Some(stopped) = watch.look(&*process).await {
                        // A paused command is killed without a grace period, so it writes nothing while its files are
                        // removed.
                        process.pause().await;
                        break Err(stopped);
                    }
                }
                () = signals.lost.cancelled() => break Err(Stopped::LeaseLost),
                () = signals.shutdown.cancelled() => break Err(Stopped::HandedBack),
                () = tokio::time::sleep_until(end) => break Err(too_long(seconds)),
            }
        }
    };
    let exit = exit.await;
    // Nothing else may run in the workspace until all processes of the command have ended: they may have had secrets.
    process.end().await;
    let exit = exit?;
    over.cancel();
    told.await?;
    let (mut printed, complaints) = printed.unwrap_or_default();
    if exit == Exit::Code(0) {
        return Ok(());
    }
    if let Some(exhausted) = process.exhausted() {
        return Err(limits::reached(exhausted, &settings.limits));
    }
    printed.extend(complaints);
    let disk = Disk::of(room, &settings.limits);
    Err(disk.failure("").await.unwrap_or_else(|| failed(exit, &printed)))
}

fn failed(exit: Exit, printed: &[u8]) -> Stopped {
    let printed = String::from_utf8_lossy(printed).replace('\0', "");
    let excess = printed.chars().count().saturating_sub(SHOWN_CHARS);
    let last: String = printed.chars().skip(excess).collect();
    let last = if excess > 0 { whole_lines(&last) } else { &last };
    let text = format!("the project's setup command failed ({exit}); it printed last: {}", last.trim());
    Stopped::failed(ReasonCode::SetupFailed, text)
}

fn too_long(seconds: u32) -> Stopped {
    let text = format!("the setup command took longer than {seconds} seconds; raise limits.runSeconds of the project");
    Stopped::failed(ReasonCode::TimedOut, text)
}

/// Reads to the end, so that nobody waits for us, and keeps the last `limit` bytes.
pub(crate) async fn read(mut stream: Receiver, limit: usize) -> std::io::Result<Vec<u8>> {
    let (mut last, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while let count @ 1.. = stream.read(&mut piece).await? {
        last.extend_from_slice(&piece[..count]);
        // Twice as many, so that what is kept is not moved for each piece.
        if last.len() > limit.saturating_mul(2) {
            last.drain(..last.len() - limit);
        }
    }
    let excess = last.len().saturating_sub(limit);
    last.drain(..excess);
    Ok(last)
}
