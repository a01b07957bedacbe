//! Runs a script of the service in the sandbox of a job before its turn, without network.

use std::time::Duration;

use journeyman_core::ports::{Exit, Spawn, Spawned};
use journeyman_core::project::LimitSettings;
use tokio::net::unix::pipe::Receiver;

use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::disk_limit::Disk;
use crate::sandbox::job_sandbox::{JobSandbox, StartTimeout};
use crate::sandbox::limits;
use crate::sandbox::output::read_last;

/// The bytes of the error output that are kept.
const STDERR_BYTES: usize = 4096;

/// The bytes of the output that are kept.
const STDOUT_BYTES: usize = 64 << 10;

/// The end of a script.
pub(crate) struct Ran {
    /// `None` if it took too long and was stopped.
    pub(crate) exit: Option<Exit>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Runs a script to its end, for at most `time`.
///
/// # Errors
/// The script could not be started, a limit of the project was reached, or the run ends.
pub(crate) async fn run(
    sandbox: &JobSandbox,
    spawn: Spawn,
    signals: &Signals,
    limits: &LimitSettings,
    time: Duration,
) -> Result<Ran, RunError> {
    let Spawned { stdin, stdout, stderr, listeners: _, mut process } =
        sandbox.start(spawn, signals, StartTimeout::BEFORE_TURN).await?;
    drop(stdin);
    let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
    let mut printed =
        tokio::spawn(async { tokio::try_join!(read_last(stdout, STDOUT_BYTES), read_last(stderr, STDERR_BYTES)) });
    let over = tokio::select! {
        printed = &mut printed => Ok(Some(printed.map_err(std::io::Error::other)??)),
        exceeded = limits::watch(&*process, sandbox, limits) => Err(exceeded),
        () = signals.lost.cancelled() => Err(RunError::LeaseLost),
        () = signals.shutdown.cancelled() => Err(RunError::HandedBack),
        () = tokio::time::sleep(time) => Ok(None),
    };
    let exit = match over {
        Ok(Some(_)) => Some(process.wait().await),
        _ => None,
    };
    process.end().await;
    let (stdout, stderr) = over?.unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr).replace('\0', "").trim().to_owned();
    if exit != Some(Exit::Code(0)) {
        if let Some(exhausted) = process.exhausted() {
            return Err(limits::reached(exhausted, limits));
        }
        if let Some(error) = Disk::of(sandbox, limits).failure(&stderr).await {
            return Err(error);
        }
    }
    Ok(Ran { exit, stdout, stderr })
}
