//! The back end `none`: a process group of its own and an environment of its own, and that is all. The program sees
//! the host's files and network as the service does. For trying things out and for agents that are trusted.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Exhausted, Exit, Guarantee, Layout, Process, Sandbox, SandboxError, Spawn, Spawned};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::DISK_NOTE;
use crate::open_files::deleted_bytes;
use crate::search;
use crate::tree::Tree;

/// How long a program has between TERM and KILL.
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
            lost("files", "programs see every file that the service may read"),
            lost("network", "programs reach everything that the service may reach"),
            Guarantee {
                name: "environment",
                holds: true,
                note: "nothing of the service's environment is passed on".into(),
            },
            lost("lifetime", "a program that leaves its process group outlives its run"),
            lost("privileges", "programs have those of the service"),
            lost("system-calls", "programs have all that the service has"),
            lost("memory", "programs may use all of the machine's memory"),
            lost("process-count", "programs may start as many as the service"),
            lost("cpu", "programs may use all processors"),
            Guarantee { name: "disk", holds: true, note: DISK_NOTE.to_owned() },
        ]
    }

    fn layout(&self, workspace: &Path, home: &Path) -> Layout {
        Layout { workspace: workspace.to_owned(), home: home.to_owned() }
    }

    fn search_path(&self, host: &str) -> String {
        host.to_owned()
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
    /// `None` once the whole group was killed: its number may then belong to somebody else.
    leader: Option<Pid>,
}

impl Group {
    /// False if the group is gone.
    fn signal(&self, signal: Signal) -> bool {
        self.leader.is_some_and(|leader| kill_process_group(leader, signal).is_ok())
    }

    fn exit(status: io::Result<ExitStatus>) -> Exit {
        match status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, signal) => Exit::Signal(signal.unwrap_or(0)),
            },
            // Only if somebody else has waited for our child: it is gone all the same.
            Err(_) => Exit::Signal(0),
        }
    }
}

#[async_trait]
impl Process for Group {
    async fn wait(&mut self) -> Exit {
        Self::exit(self.child.wait().await)
    }

    async fn pause(&mut self) -> bool {
        // Stopped processes can schedule a signal that continues them (timer_create(2)), and nothing else holds them.
        false
    }

    async fn resume(&mut self) -> bool {
        true
    }

    fn exhausted(&self) -> Option<Exhausted> {
        None
    }

    async fn deleted_bytes(&self, device: u64) -> u64 {
        let Some(leader) = self.leader else { return 0 };
        let processes: Vec<Pid> = Tree::of(leader).descendants().into_iter().chain([leader]).collect();
        // `spawn_blocking` fails only when the runtime shuts down.
        tokio::task::spawn_blocking(move || deleted_bytes(&processes, device)).await.unwrap_or_default()
    }

    async fn end(&mut self) -> Exit {
        self.signal(Signal::TERM);
        // A stopped program handles the TERM only once it continues.
        self.signal(Signal::CONT);
        let ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        // Also after a leader that went by itself: what it started may still be there. While one member of a group
        // lives, its number is not given to another.
        self.signal(Signal::KILL);
        let status = match ended {
            Ok(status) => status,
            Err(_) => self.child.wait().await,
        };
        self.leader = None;
        Self::exit(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
        Receiver::from_owned_fd(pipe).unwrap().read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn what_cannot_be_held_is_not_paused_and_hears_of_its_end_also_where_it_has_stopped() {
        let (mut spawned, dir) = shell("touch begun; kill -STOP $$").await;
        while !dir.path().join("begun").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!spawned.process.pause().await);
        let begun = Instant::now();
        assert_eq!(spawned.process.end().await, Exit::Signal(15));
        assert!(begun.elapsed() < GRACE, "it heard of its end");
    }

    #[tokio::test]
    async fn nothing_of_our_environment_is_passed_on() {
        let (mut spawned, _dir) = shell("env; exit 3").await;
        let seen = text(spawned.stdout).await;
        assert!(seen.contains("GIVEN=yes"), "{seen}");
        assert!(!seen.contains("CARGO"), "{seen}");
        assert_eq!(spawned.process.wait().await, Exit::Code(3));
    }

    #[tokio::test]
    async fn the_end_takes_children_and_those_who_ignore_term() {
        let (mut spawned, dir) = shell("trap '' TERM; (sleep 60; touch late) & sleep 60; touch later").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let begun = Instant::now();
        spawned.process.end().await;
        assert!(begun.elapsed() < Duration::from_secs(20));
        // The pipe is closed only when nobody holds its other end any more: the child is gone too.
        assert_eq!(text(spawned.stdout).await, "");
        assert!(!dir.path().join("late").exists());
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
