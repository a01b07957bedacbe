//! Moves a tree from the commit that its setup command ran on to the head of the job's branch.
//!
//! Programs have run in the tree, so git must not run on it on the host.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::job::turn::TurnBegun;
use journeyman_core::ports::{Exit, Spawn, Spawned};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use tokio::net::unix::pipe::Receiver;

use crate::claim::lease::Signals;
use crate::commit::committer::with_plain_git;
use crate::error::RunError;
use crate::sandbox::disk_limit::Disk;
use crate::sandbox::job_sandbox::{JobSandbox, StartTimeout};
use crate::sandbox::limits;
use crate::sandbox::output::read_last;

const SCRIPT: &str = include_str!("switch.sh");

/// The time limit for the move.
const TIME: Duration = Duration::from_secs(600);

/// The bytes of git's error output to keep.
const STDERR_BYTES: usize = 4096;

/// Moves the tree to the turn's head. `environment` contains no secrets.
pub(super) async fn switch(
    sandbox: &JobSandbox,
    environment: &BTreeMap<String, String>,
    signals: &Signals,
    limits: &LimitSettings,
    turn: &TurnBegun,
) -> Result<(), RunError> {
    let workspace = &sandbox.workspace;
    let inside = sandbox.sandbox.layout(&workspace.tree, &workspace.commit_dir);
    let (tree, dir) = (inside.workspace.to_string_lossy(), inside.home.to_string_lossy());
    let argv = ["/bin/sh", "-c", SCRIPT, "switch", &tree, &dir].map(str::to_owned).to_vec();
    let mut environment = with_plain_git(environment, &dir);
    environment.insert("HEAD_COMMIT".to_owned(), turn.head.to_string());
    environment.insert("BRANCH".to_owned(), turn.branch.clone());
    let spawn = Spawn { home: workspace.commit_dir.clone(), ..sandbox.spawn(argv, environment) };
    let Spawned { stdin, stdout, stderr, listeners: _, mut process } =
        sandbox.start(spawn, signals, StartTimeout::BEFORE_TURN).await?;
    drop(stdin);
    let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
    let mut printed = tokio::spawn(async { tokio::try_join!(read_last(stdout, 0), read_last(stderr, STDERR_BYTES)) });
    let over = tokio::select! {
        printed = &mut printed => Ok(printed.map_err(std::io::Error::other)??.1),
        exceeded = limits::watch(&*process, sandbox, limits) => Err(exceeded),
        () = signals.lost.cancelled() => Err(RunError::LeaseLost),
        () = signals.shutdown.cancelled() => Err(RunError::HandedBack),
        () = tokio::time::sleep(TIME) => Err(failed(&format!("git took longer than {} seconds", TIME.as_secs()))),
    };
    let exit = if over.is_ok() { process.wait().await } else { process.end().await };
    process.end().await;
    let stderr_text = over?;
    if exit == Exit::Code(0) {
        return Ok(());
    }
    if let Some(exhausted) = process.exhausted() {
        return Err(limits::reached(exhausted, limits));
    }
    let stderr_text = String::from_utf8_lossy(&stderr_text).replace('\0', "");
    if let Some(error) = Disk::of(sandbox, limits).failure(&stderr_text).await {
        return Err(error);
    }
    Err(failed(&format!("git ended with {exit}: {}", stderr_text.trim())))
}

fn failed(why: &str) -> RunError {
    let text = format!(
        "the setup command ran on the newest commit that people have accepted, but the files could not be switched \
         from it to the job's branch: {why}. Check whether the setup command changes the repository's .git"
    );
    RunError::failed(ReasonCode::SetupFailed, text)
}
