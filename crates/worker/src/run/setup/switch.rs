//! Moves a tree from the commit that its setup command ran on to the head of the job's branch.
//!
//! Programs have run in the tree, so git must not run on it on the host.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::job::command::TurnBegun;
use journeyman_core::ports::{Exit, Spawn, Spawned};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use tokio::net::unix::pipe::Receiver;

use super::read;
use crate::clerk::with_plain_git;
use crate::disk_limit::Disk;
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::limits;
use crate::room::{Patience, Room};

const SCRIPT: &str = include_str!("switch.sh");

/// The time limit for the move.
const TIME: Duration = Duration::from_secs(600);

/// The bytes of git's error output to keep.
const COMPLAINT_BYTES: usize = 4096;

/// Moves the tree to the turn's head. `environment` contains no secrets.
pub(super) async fn switch(
    room: &Room,
    environment: &BTreeMap<String, String>,
    signals: &Signals,
    limits: &LimitSettings,
    turn: &TurnBegun,
) -> Result<(), Stopped> {
    let workspace = &room.workspace;
    let inside = room.sandbox.layout(&workspace.tree, &workspace.desk);
    let (tree, desk) = (inside.workspace.to_string_lossy(), inside.home.to_string_lossy());
    let argv = ["/bin/sh", "-c", SCRIPT, "switch", &tree, &desk].map(str::to_owned).to_vec();
    let mut environment = with_plain_git(environment, &desk);
    environment.insert("HEAD_COMMIT".to_owned(), turn.head.to_string());
    environment.insert("BRANCH".to_owned(), turn.branch.clone());
    let spawn = Spawn { home: workspace.desk.clone(), ..room.spawn(argv, environment) };
    let Spawned { stdin, stdout, stderr, listeners: _, mut process } =
        room.start(spawn, signals, Patience::BEFORE_TURN).await?;
    drop(stdin);
    let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
    let mut printed = tokio::spawn(async { tokio::try_join!(read(stdout, 0), read(stderr, COMPLAINT_BYTES)) });
    let over = tokio::select! {
        printed = &mut printed => Ok(printed.map_err(std::io::Error::other)??.1),
        stopped = limits::watch(&*process, room, limits) => Err(stopped),
        () = signals.lost.cancelled() => Err(Stopped::LeaseLost),
        () = signals.shutdown.cancelled() => Err(Stopped::HandedBack),
        () = tokio::time::sleep(TIME) => Err(failed(&format!("git took longer than {} seconds", TIME.as_secs()))),
    };
    let exit = if over.is_ok() { process.wait().await } else { process.end().await };
    process.end().await;
    let complaints = over?;
    if exit == Exit::Code(0) {
        return Ok(());
    }
    if let Some(exhausted) = process.exhausted() {
        return Err(limits::reached(exhausted, limits));
    }
    let complaints = String::from_utf8_lossy(&complaints).replace('\0', "");
    if let Some(stopped) = Disk::of(room, limits).failure(&complaints).await {
        return Err(stopped);
    }
    Err(failed(&format!("git ended with {exit}: {}", complaints.trim())))
}

fn failed(why: &str) -> Stopped {
    let text = format!(
        "the setup command ran on the newest commit that people have accepted, but the files could not be switched \
         from it to the job's branch: {why}. Check whether the setup command changes the repository's .git"
    );
    Stopped::failed(ReasonCode::SetupFailed, text)
}
