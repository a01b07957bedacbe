//! A program that runs in a container.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Exhausted, Exit, Process};
use rustix::process::Pid;
use tokio::io::unix::AsyncFd;

use super::engine::Engine;
use crate::cgroup::Cgroup;
use crate::first::First;

/// How long a program has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// One container. Dropped, it is killed and removed.
pub(super) struct Program {
    engine: Engine,
    container: String,
    first: First,
    /// Readable when its first process has ended.
    over: AsyncFd<OwnedFd>,
    group: Cgroup,
    exit: Option<Exit>,
}

impl Program {
    pub(super) fn new(engine: Engine, container: String, pid: Pid, handle: OwnedFd, group: Cgroup) -> io::Result<Self> {
        let over = handle.try_clone()?;
        // SAFETY: an `OwnedFd` has one number as long as it lives, and nobody else closes it.
        #[expect(unsafe_code, reason = "the descriptor must stay the same")]
        let over = unsafe { AsyncFd::register(over) }?;
        Ok(Self { engine, container, first: First::of(pid, handle), over, group, exit: None })
    }

    /// What the shim said before it ended.
    pub(super) async fn complaint(self, error: &io::Error) -> String {
        self.first.kill();
        let said = self.engine.said(&self.container).await;
        if said.is_empty() { error.to_string() } else { said }
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
        let exit = self.engine.exit(&self.container).await;
        *self.exit.insert(exit)
    }

    async fn pause(&mut self) -> bool {
        self.first.pause().await
    }

    fn resume(&mut self) {
        self.first.resume();
    }

    fn exhausted(&self) -> Option<Exhausted> {
        self.group.exhausted()
    }

    async fn end(&mut self) -> Exit {
        if self.exit.is_none() {
            self.first.ask_to_end();
        }
        let exit = match tokio::time::timeout(GRACE, self.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                self.first.kill();
                self.wait().await
            }
        };
        self.engine.remove(&std::mem::take(&mut self.container)).await;
        exit
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.first.kill();
        }
        if !self.container.is_empty() {
            self.engine.remove_later(std::mem::take(&mut self.container));
        }
    }
}
