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

/// How long a program has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// One container. Dropped, it is killed and removed.
pub(super) struct Program {
    /// `None` once it was removed.
    container: Option<Started>,
    first: First,
    /// Readable when its first process has ended.
    over: AsyncFd<OwnedFd>,
    group: Cgroup,
    /// The shim's: it says how the program has ended, and ends itself when we are gone.
    socket: Option<UnixStream>,
    /// Whether its group is frozen.
    paused: bool,
    exit: Option<Exit>,
}

impl Program {
    pub(super) fn new(container: Started, pid: Pid, handle: OwnedFd, group: Cgroup) -> io::Result<Self> {
        let over = handle.try_clone()?;
        // SAFETY: an `OwnedFd` has one number as long as it lives, and nobody else closes it.
        #[expect(unsafe_code, reason = "the descriptor must stay the same")]
        let over = unsafe { AsyncFd::register(over) }?;
        let first = First::of(pid, handle);
        Ok(Self { container: Some(container), first, over, group, socket: None, paused: false, exit: None })
    }

    fn kill(&mut self) {
        self.first.kill();
        if self.paused {
            self.group.kill_frozen();
        }
        self.paused = false;
    }

    /// The program has begun.
    pub(super) fn begin(&mut self, socket: UnixStream) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// What the shim said before it ended.
    pub(super) async fn complaint(mut self, error: &io::Error) -> String {
        self.first.kill();
        let Some(container) = self.container.take() else { return error.to_string() };
        let said = container.engine.said(&container.id).await;
        container.remove().await;
        if said.is_empty() { error.to_string() } else { said }
    }

    /// As the shim has told; without a word it was killed.
    fn told(&mut self) -> Exit {
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
        // It fails only when the runtime shuts down.
        let _ = self.over.readable().await;
        let exit = self.told();
        *self.exit.insert(exit)
    }

    async fn pause(&mut self) -> bool {
        self.paused = self.group.freeze(self.first.pid()).await;
        self.paused
    }

    fn resume(&mut self) {
        self.group.thaw();
        self.paused = false;
    }

    fn exhausted(&self) -> Option<Exhausted> {
        self.group.exhausted()
    }

    async fn deleted_bytes(&self, device: u64) -> u64 {
        let in_group = self.group.processes();
        let processes = if in_group.is_empty() { self.first.all() } else { in_group };
        // It fails only when the runtime shuts down.
        tokio::task::spawn_blocking(move || deleted_bytes(&processes, device)).await.unwrap_or_default()
    }

    async fn end(&mut self) -> Exit {
        if self.paused {
            self.kill();
        }
        if self.exit.is_none() {
            self.first.ask_to_end();
        }
        let exit = match tokio::time::timeout(GRACE, self.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                self.kill();
                self.wait().await
            }
        };
        if let Some(container) = self.container.take() {
            container.remove().await;
        }
        exit
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill();
        }
    }
}
