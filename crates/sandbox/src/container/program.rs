//! A program that runs in a container.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Exhausted, Exit, Process};
use rustix::process::Pid;
use tokio::io::unix::AsyncFd;

use super::engine::Started;
use crate::cgroup::Cgroup;
use crate::first::First;
use crate::open_files::deleted_bytes;
use crate::processor_time::processor_time;

/// The time that a program has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// The time to wait for a killed program that could not be resumed: with control groups of version 1, a frozen process
/// takes a KILL only when it is thawed, and then before it does anything else.
const FROZEN_TIME: Duration = Duration::from_secs(2);

/// A program in a container. When dropped, the container is killed and removed.
pub(super) struct Program {
    /// `None` after the container was removed.
    container: Option<Started>,
    first: First,
    /// Readable when the first process has exited.
    exited: AsyncFd<OwnedFd>,
    /// The control group that the program's processes have entered; `None` if they have stayed in the engine's group.
    group: Option<Cgroup>,
    /// `true` if a pause was requested and the program was not resumed since.
    is_paused: bool,
    /// The connection to the shim, which sends the exit code of the program on it, and exits when the service closes
    /// it.
    socket: Option<UnixStream>,
    exit: Option<Exit>,
}

impl Program {
    pub(super) fn new(container: Started, pid: Pid, handle: OwnedFd, group: Option<Cgroup>) -> io::Result<Self> {
        let exited = handle.try_clone()?;
        // SAFETY: an `OwnedFd` has the same number as long as it lives, and nothing else closes it.
        #[expect(unsafe_code, reason = "the descriptor must stay the same")]
        let exited = unsafe { AsyncFd::register(exited) }?;
        let (container, first) = (Some(container), First::of(pid, handle));
        Ok(Self { container, first, exited, group, is_paused: false, socket: None, exit: None })
    }

    /// Stores the connection to the shim once the program has started.
    pub(super) fn begin(&mut self, socket: UnixStream) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Kills the container, and returns what the shim printed, or the text of `error` if it printed nothing.
    pub(super) async fn startup_failure(mut self, error: &io::Error) -> String {
        self.first.kill();
        let Some(container) = self.container.take() else { return error.to_string() };
        let logs = container.engine.logs(&container.id).await;
        container.remove().await;
        if logs.is_empty() { error.to_string() } else { logs }
    }

    /// Returns our control group with the program's processes, if it can be frozen.
    fn freezer(&self) -> Option<&Cgroup> {
        self.group.as_ref().filter(|group| group.has_freezer())
    }

    /// Returns the processes of the container.
    fn processes(&self) -> Vec<Pid> {
        let in_group = self.group.as_ref().map(Cgroup::processes).unwrap_or_default();
        if in_group.is_empty() { self.first.all() } else { in_group }
    }

    fn kill(&self) {
        self.first.kill();
        if let Some(group) = self.freezer().filter(|_| self.is_paused) {
            group.kill_frozen();
        }
    }

    /// Returns the program's exit as the shim reported it. Without a report, the program was killed.
    fn reported_exit(&mut self) -> Exit {
        let mut code = [0];
        match self.socket.as_mut().map(|socket| socket.read_exact(&mut code)) {
            Some(Ok(())) => Exit::Code(i32::from(code[0])),
            _ => Exit::Signal(9),
        }
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
        let exit = self.reported_exit();
        *self.exit.insert(exit)
    }

    /// Pauses the program through the engine, which has Linux freeze all processes of the container, including the
    /// first. If the processes have left the engine's group for one of ours, freezes that group instead.
    async fn pause(&mut self) -> bool {
        let Some(container) = &self.container else { return false };
        // The pause may take effect even if no answer arrives.
        self.is_paused = true;
        match self.freezer() {
            Some(group) => group.freeze(self.first.pid()).await,
            None => container.engine.pause(&container.id).await,
        }
    }

    async fn resume(&mut self) -> bool {
        let Some(container) = &self.container else { return false };
        let is_resumed = match self.freezer() {
            Some(group) => {
                group.thaw();
                true
            }
            None => container.engine.unpause(&container.id).await,
        };
        self.is_paused &= !is_resumed;
        is_resumed
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
        if self.exit.is_none() {
            if self.is_paused {
                // Kill the program before resuming it, so that it does not run again.
                self.kill();
                self.resume().await;
            } else {
                self.first.terminate();
            }
        }
        let mut ended = tokio::time::timeout(GRACE, self.wait()).await.ok();
        if ended.is_none() {
            self.kill();
            ended = if self.is_paused {
                tokio::time::timeout(FROZEN_TIME, self.wait()).await.ok()
            } else {
                Some(self.wait().await)
            };
        }
        if let Some(container) = self.container.take() {
            container.remove().await;
        }
        // A program that has not exited is frozen and has a pending KILL: it does not run again when it is thawed.
        ended.unwrap_or(Exit::Signal(9))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill();
        }
    }
}
