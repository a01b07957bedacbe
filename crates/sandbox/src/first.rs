//! The host's handle of a sandbox's first process. When this process ends, the kernel kills all other processes of the
//! sandbox before it reports the end (pid_namespaces(7)).

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, pidfd_send_signal};

use crate::tree::Tree;

/// The first process of a sandbox, and its descendants.
#[derive(Debug)]
pub(crate) struct First {
    handle: OwnedFd,
    tree: Tree,
}

impl First {
    /// Wraps a process, whose descriptor is `handle` (pidfd_open(2)).
    pub(crate) fn of(pid: Pid, handle: OwnedFd) -> Self {
        Self { handle, tree: Tree::of(pid) }
    }

    pub(crate) fn kill(&self) {
        // This fails only if the process has already exited.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.tree.first()
    }

    /// Returns the process and all its descendants.
    pub(crate) fn all(&self) -> Vec<Pid> {
        self.tree.descendants().into_iter().chain([self.pid()]).collect()
    }

    /// Asks all descendants to exit, with TERM.
    pub(crate) fn terminate(&self) {
        self.tree.signal(Signal::TERM);
        // A stopped process handles the TERM only once it continues.
        self.tree.signal(Signal::CONT);
    }
}
