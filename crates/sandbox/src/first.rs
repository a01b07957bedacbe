//! The first process of a sandbox, as the host holds it: with it all others end, before it is over itself
//! (pid_namespaces(7)).

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, pidfd_send_signal};

use crate::tree::Tree;

/// It, and all below.
#[derive(Debug)]
pub(crate) struct First {
    handle: OwnedFd,
    tree: Tree,
}

impl First {
    /// `handle` is the process's descriptor (pidfd_open(2)).
    pub(crate) fn of(pid: Pid, handle: OwnedFd) -> Self {
        Self { handle, tree: Tree::of(pid) }
    }

    pub(crate) fn kill(&self) {
        // It is gone already, then.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.tree.first()
    }

    /// Returns the process and all its descendants.
    pub(crate) fn all(&self) -> Vec<Pid> {
        self.tree.descendants().into_iter().chain([self.pid()]).collect()
    }

    /// Asks all below to end.
    pub(crate) fn ask_to_end(&self) {
        self.tree.signal(Signal::TERM);
        // A stopped process handles the TERM only once it continues.
        self.tree.signal(Signal::CONT);
    }
}
