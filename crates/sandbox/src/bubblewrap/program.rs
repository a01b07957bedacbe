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

/// How long a program has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// One sandbox. Dropped, it is killed.
pub(super) struct Program {
    /// bwrap, outside; `None` once it was waited for or handed on.
    child: Option<Child>,
    /// Readable when bwrap has ended.
    over: AsyncFd<OwnedFd>,
    /// The first process inside, once it is known.
    first: Option<First>,
    group: Option<Cgroup>,
    launcher: Launcher,
    /// Whether the program's control group is frozen.
    paused: bool,
    exit: Option<Exit>,
}

impl Program {
    pub(super) fn new(child: Child, group: Cgroup, launcher: Launcher) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
        let over = pidfd_open(pid, PidfdFlags::empty())?;
        // SAFETY: an `OwnedFd` has one number as long as it lives, and nobody else closes it.
        #[expect(unsafe_code, reason = "the descriptor must stay the same")]
        let over = unsafe { AsyncFd::register(over) }?;
        Ok(Self { child: Some(child), over, first: None, group: Some(group), launcher, paused: false, exit: None })
    }

    /// The first process is there.
    pub(super) fn begin(&mut self, pid: Pid, handle: OwnedFd) {
        self.first = Some(First::of(pid, handle));
    }

    pub(super) fn kill(&mut self) {
        if let Some(first) = &self.first {
            first.kill();
        } else if let Some(leader) = self.child.as_ref().map(Pid::from_child) {
            // What is to become the first process is in its group, and would wait for it for ever.
            let _ = kill_process_group(leader, Signal::KILL);
        }
        if let Some(group) = self.group.as_ref().filter(|_| self.paused) {
            group.kill_frozen();
        }
        self.paused = false;
    }
}

#[async_trait]
impl Process for Program {
    async fn wait(&mut self) -> Exit {
        if let Some(exit) = self.exit {
            return exit;
        }
        // It fails only when the runtime shuts down.
        let _ = self.over.readable().await;
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
        let in_group = self.group.as_ref().map(Cgroup::processes).unwrap_or_default();
        let below = self.first.as_ref().map(First::all).unwrap_or_default();
        let processes = if in_group.is_empty() { below } else { in_group };
        // `spawn_blocking` fails only when the runtime shuts down.
        tokio::task::spawn_blocking(move || deleted_bytes(&processes, device)).await.unwrap_or_default()
    }

    async fn end(&mut self) -> Exit {
        if self.paused {
            self.kill();
        }
        if let Some(first) = self.first.as_ref().filter(|_| self.exit.is_none()) {
            first.ask_to_end();
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

/// The exit code of bwrap is that of the first process, which is as shells have it.
fn exit(status: io::Result<ExitStatus>) -> Exit {
    match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(code), _)) => Exit::Code(code),
        Ok((None, signal)) => Exit::Signal(signal.unwrap_or(0)),
        Err(_) => Exit::Signal(0),
    }
}
