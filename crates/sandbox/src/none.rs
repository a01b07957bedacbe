//! The back end `none`: runs programs in a separate process group with a separate environment, and without any other
//! isolation. A program sees the host's files and network as the service does. It is meant for experiments and for
//! trusted agents.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Exit, Process, Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::worker::Guarantee;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::open_files::deleted_bytes;
use crate::processor_time::processor_time;
use crate::tree::Tree;
use crate::{DISK_NOTE, search};

/// The time that a program has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// Starts programs without containing them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSandbox;

#[async_trait]
impl Sandbox for NoSandbox {
    fn name(&self) -> &'static str {
        "none"
    }

    async fn probe(&self) -> Vec<Guarantee> {
        let lost = |name, note: &str| Guarantee { name, holds: false, note: note.to_owned() };
        vec![
            lost("files", "programs can read every file that the service can read"),
            lost("network", "programs can reach everything that the service can reach"),
            Guarantee {
                name: "environment",
                holds: true,
                note: "nothing of the service's environment is passed on".into(),
            },
            lost("lifetime", "a program that leaves its process group outlives its run"),
            lost("privileges", "programs have the privileges of the service"),
            lost("system-calls", "programs have all system calls that the service has"),
            lost("memory", "programs may use all of the machine's memory"),
            lost("process-count", "programs may start as many processes as the service"),
            lost("cpu", "programs may use all processors"),
            Guarantee { name: "disk", holds: true, note: DISK_NOTE.to_owned() },
        ]
    }

    fn has_own_network(&self) -> bool {
        false
    }

    async fn adopt(&self, _folders: &[PathBuf]) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError> {
        let (program, arguments) = spawn.argv.split_first().ok_or_else(|| SandboxError::NotFound(String::new()))?;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound if spawn.workspace.is_dir() => SandboxError::NotFound(program.clone()),
            _ => SandboxError::Failed { program: program.clone(), detail: error.to_string() },
        };
        let path = spawn.environment.get("PATH").map_or("", String::as_str);
        let mut command = Command::new(search::find(Path::new(program), path).unwrap_or_else(|| program.into()));
        command.args(arguments).env_clear().envs(&spawn.environment).current_dir(&spawn.workspace);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(failed)?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (stdin, stdout, stderr) = pipes(&mut child).map_err(failed)?;
        let process = Box::new(Group { child, leader });
        Ok(Spawned { stdin, stdout, stderr, listeners: Vec::new(), process })
    }
}

fn pipes(child: &mut Child) -> io::Result<(OwnedFd, OwnedFd, OwnedFd)> {
    let missing = || io::Error::other("a standard stream is missing");
    let stdin = child.stdin.take().ok_or_else(missing)?.into_owned_fd()?;
    let stdout = child.stdout.take().ok_or_else(missing)?.into_owned_fd()?;
    let stderr = child.stderr.take().ok_or_else(missing)?.into_owned_fd()?;
    Ok((stdin, stdout, stderr))
}

struct Group {
    child: Child,
    /// `None` after the leader was waited for and the rest of the group was killed: the group's ID may then belong to
    /// another group.
    leader: Option<Pid>,
}

impl Group {
    /// Sends a signal to all processes of the group. Returns false if the group no longer exists.
    fn signal(&self, signal: Signal) -> bool {
        self.leader.is_some_and(|leader| kill_process_group(leader, signal).is_ok())
    }

    fn processes(&self) -> Vec<Pid> {
        let leader = self.leader.into_iter();
        leader.flat_map(|leader| Tree::of(leader).descendants().into_iter().chain([leader])).collect()
    }

    fn exit(status: io::Result<ExitStatus>) -> Exit {
        match status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, signal) => Exit::Signal(signal.unwrap_or(0)),
            },
            // Something else has reaped our child, which has exited in any case.
            Err(_) => Exit::Signal(0),
        }
    }
}

#[async_trait]
impl Process for Group {
    async fn wait(&mut self) -> Exit {
        let status = self.child.wait().await;
        // Processes that the leader started may still run. The kernel does not reuse the group's ID while the group has
        // members, but may do so later.
        self.signal(Signal::KILL);
        self.leader = None;
        Self::exit(status)
    }

    async fn pause(&mut self) -> bool {
        // Stopped processes can schedule a signal that continues them (timer_create(2)), and nothing else can hold
        // them.
        false
    }

    async fn deleted_bytes(&self, device: u64) -> u64 {
        let processes = self.processes();
        // `spawn_blocking` fails only when the runtime shuts down.
        tokio::task::spawn_blocking(move || deleted_bytes(&processes, device)).await.unwrap_or_default()
    }

    async fn processor_time(&self) -> Option<Duration> {
        Some(processor_time(&self.processes()))
    }

    async fn end(&mut self) -> Exit {
        self.signal(Signal::TERM);
        // A stopped program handles the TERM only once it continues.
        self.signal(Signal::CONT);
        if let Ok(exit) = tokio::time::timeout(GRACE, self.wait()).await {
            return exit;
        }
        self.signal(Signal::KILL);
        self.wait().await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use journeyman_testkit::{PATIENCE, until_async, within};
    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe::Receiver;

    use super::*;

    async fn shell(script: &str) -> (Spawned, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let spawn = Spawn {
            argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
            environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("GIVEN".to_owned(), "yes".to_owned())]
                .into(),
            workspace: dir.path().to_owned(),
            home: dir.path().to_owned(),
            ..Spawn::default()
        };
        (NoSandbox.spawn(spawn).await.unwrap(), dir)
    }

    async fn text(pipe: OwnedFd) -> String {
        let mut text = String::new();
        let mut pipe = Receiver::from_owned_fd(pipe).unwrap();
        within("the pipe closes", pipe.read_to_string(&mut text)).await.unwrap();
        text
    }

    /// Waits until the program has made a file.
    async fn made(file: &str, dir: &tempfile::TempDir) {
        until_async(&format!("the program makes the file {file}"), async || {
            dir.path().join(file).exists().then_some(())
        })
        .await;
    }

    /// Stops the clock of the test until the guard is dropped, or the test hangs: while a blocking task runs, no time limit
    /// is reached.
    fn stop_clock() -> Sender<()> {
        tokio::time::pause();
        let (guard, dropped) = channel();
        tokio::task::spawn_blocking(move || dropped.recv_timeout(PATIENCE));
        guard
    }

    #[tokio::test]
    async fn a_program_cannot_be_paused_and_a_stopped_one_ends_by_term() {
        let (mut spawned, dir) = shell("touch begun; kill -STOP $$").await;
        made("begun", &dir).await;
        assert!(!spawned.process.pause().await);
        let _stopped = stop_clock();
        assert_eq!(spawned.process.end().await, Exit::Signal(15), "it ended by TERM");
    }

    #[tokio::test]
    async fn the_environment_of_the_service_is_not_passed_on() {
        let (mut spawned, _dir) = shell("env; exit 3").await;
        let seen = text(spawned.stdout).await;
        assert!(seen.contains("GIVEN=yes"), "{seen}");
        assert!(!seen.contains("CARGO"), "{seen}");
        assert_eq!(spawned.process.wait().await, Exit::Code(3));
    }

    #[tokio::test]
    async fn ending_a_program_kills_its_children_even_if_they_ignore_term() {
        let script = "trap '' TERM; (sleep 86400; touch late) & touch begun; sleep 86400; touch later";
        let (mut spawned, dir) = shell(script).await;
        made("begun", &dir).await;
        // The clock skips the grace period.
        tokio::time::pause();
        assert_eq!(spawned.process.end().await, Exit::Signal(9));
        tokio::time::resume();
        // The pipe closes only when no process has its other end open, so the child has exited too.
        assert_eq!(text(spawned.stdout).await, "");
        assert!(!dir.path().join("late").exists());
    }

    #[tokio::test]
    async fn a_wait_leaves_no_process_and_no_group_to_signal() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 86400 & exit 3"]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap().into_owned_fd().unwrap();
        let leader = Pid::from_raw(child.id().unwrap().try_into().unwrap());
        let mut group = Group { child, leader };
        assert_eq!(group.wait().await, Exit::Code(3));
        // The pipe closes only when no process has its other end open.
        assert_eq!(text(stdout).await, "");
        assert_eq!(group.leader, None, "the ID may belong to another group by now");
        assert_eq!(group.end().await, Exit::Code(3));
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let spawn = Spawn {
            argv: vec!["no-such-program".into()],
            environment: [].into(),
            workspace: "/".into(),
            home: "/".into(),
            ..Spawn::default()
        };
        let error = NoSandbox.spawn(spawn).await.err().unwrap();
        assert_eq!(error, SandboxError::NotFound("no-such-program".into()));
    }
}
