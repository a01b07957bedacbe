//! A program that runs in a sandbox.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Exhausted, Exit, Process};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;

use super::launcher::Launcher;
use crate::cgroup::Cgroup;
use crate::first::First;
use crate::open_files::deleted_bytes;
use crate::processor_time::processor_time;

/// The time that a program has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// A program in a sandbox. When dropped, the sandbox is killed.
pub(super) struct Program {
    /// The process bwrap outside of the sandbox; `None` once it was reaped or handed to the launcher.
    child: Option<Child>,
    /// Readable when bwrap has exited.
    exited: AsyncFd<OwnedFd>,
    /// The first process inside, once it is known.
    first: Option<First>,
    group: Option<Cgroup>,
    launcher: Launcher,
    /// `true` while the program's control group is frozen.
    paused: bool,
    exit: Option<Exit>,
}

impl Program {
    pub(super) fn new(child: Child, group: Cgroup, launcher: Launcher) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("bwrap has no process ID"))?;
        let exited = pidfd_open(pid, PidfdFlags::empty())?;
        // SAFETY: an `OwnedFd` has the same number as long as it lives, and nothing else closes it.
        #[expect(unsafe_code, reason = "the descriptor must stay the same")]
        let exited = unsafe { AsyncFd::register(exited) }?;
        Ok(Self { child: Some(child), exited, first: None, group: Some(group), launcher, paused: false, exit: None })
    }

    /// Stores the first process of the sandbox, once it is known.
    pub(super) fn begin(&mut self, pid: Pid, handle: OwnedFd) {
        self.first = Some(First::of(pid, handle));
    }

    pub(super) fn kill(&mut self) {
        if let Some(first) = &self.first {
            first.kill();
        } else if let Some(leader) = self.child.as_ref().map(Pid::from_child) {
            // bwrap's child, which becomes the first process, is in this group too, and would otherwise wait for bwrap
            // forever.
            let _ = kill_process_group(leader, Signal::KILL);
        }
        if let Some(group) = self.group.as_ref().filter(|_| self.paused) {
            group.kill_frozen();
        }
        self.paused = false;
    }

    /// Returns the processes of the sandbox.
    fn processes(&self) -> Vec<Pid> {
        let in_group = self.group.as_ref().map(Cgroup::processes).unwrap_or_default();
        let below = || self.first.as_ref().map(First::all).unwrap_or_default();
        if in_group.is_empty() { below() } else { in_group }
    }
}

#[async_trait]
impl Process for Program {
    async fn wait(&mut self) -> Exit {
        if let Some(exit) = self.exit {
            return exit;
        }
        // This fails only when the runtime shuts down.
        let _ = self.exited.readable().await;
        let status = self.child.take().map(|mut child| child.wait());
        *self.exit.insert(status.map_or(Exit::Signal(0), exit))
    }

    async fn pause(&mut self) -> bool {
        if let (Some(first), Some(group)) = (&self.first, &self.group) {
            self.paused = group.freeze(first.pid()).await;
        }
        self.paused
    }

    async fn resume(&mut self) -> bool {
        if let Some(group) = &self.group {
            group.thaw();
        }
        self.paused = false;
        self.first.is_some()
    }

    fn exhausted(&self) -> Option<Exhausted> {
        self.group.as_ref().and_then(Cgroup::exhausted)
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
        if self.paused {
            self.kill();
        }
        if let Some(first) = self.first.as_ref().filter(|_| self.exit.is_none()) {
            first.terminate();
        }
        if let Ok(exit) = tokio::time::timeout(GRACE, self.wait()).await {
            return exit;
        }
        self.kill();
        self.wait().await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill();
        }
        if let Some(child) = self.child.take() {
            self.launcher.reap(child, Box::new(self.group.take()));
        }
    }
}

/// Returns the exit of a program from bwrap's. bwrap has the exit code of the first process, which follows the
/// convention of shells.
fn exit(status: io::Result<ExitStatus>) -> Exit {
    match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(code), _)) => Exit::Code(code),
        Ok((None, signal)) => Exit::Signal(signal.unwrap_or(0)),
        Err(_) => Exit::Signal(0),
    }
}
