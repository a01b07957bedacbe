//! The processes of a sandbox, as the host sees them. Whatever they do, they stay descendants of the first process,
//! which adopts orphans.

use std::collections::HashSet;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The processes below the first one of a sandbox.
#[derive(Debug)]
pub(crate) struct Tree {
    first: Pid,
    /// The PID namespace of the first process, if this process may read it. It reveals an ID that the host has reused
    /// for a process outside of the sandbox.
    namespace: Option<PathBuf>,
}

impl Tree {
    pub(crate) fn of(first: Pid) -> Self {
        Self { first, namespace: namespace(first) }
    }

    pub(crate) const fn first(&self) -> Pid {
        self.first
    }

    /// Sends a signal to all descendants of the first process.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.descendants() {
            self.send(pid, signal);
        }
    }

    fn send(&self, pid: Pid, signal: Signal) {
        // The process may have exited. The descriptor always refers to one process, so the namespace is checked after
        // it is opened.
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
            && self.has(pid)
        {
            let _ = pidfd_send_signal(process, signal);
        }
    }

    /// Returns whether a process is in the sandbox's namespace; true if one of the two namespaces cannot be read. An
    /// ordinary user cannot signal a process whose namespace it may not read either, unless it owns the process.
    fn has(&self, pid: Pid) -> bool {
        match (&self.namespace, namespace(pid)) {
            (Some(ours), Some(its)) => *ours == its,
            _ => true,
        }
    }

    /// Returns all processes that are below the first one now.
    pub(crate) fn descendants(&self) -> HashSet<Pid> {
        let (mut found, mut next) = (HashSet::new(), vec![self.first]);
        while let Some(pid) = next.pop() {
            for child in children(pid).into_iter().filter(|child| self.has(*child)) {
                if found.insert(child) {
                    next.push(child);
                }
            }
        }
        found
    }
}

fn namespace(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{}/ns/pid", pid.as_raw_pid())).ok()
}

/// Returns the children of all threads of a process.
fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| pids(&list)).collect()
}

fn pids(list: &str) -> Vec<Pid> {
    list.split_ascii_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}
