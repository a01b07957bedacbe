//! All processes of a sandbox, seen from outside: whatever they do, they stay descendants of its first process, which
//! gets the orphans.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Rounds in which all must be found standing still. One is enough unless they start others meanwhile.
const ROUNDS: usize = 500;

/// Between two.
const PAUSE: Duration = Duration::from_millis(1);

/// Sends a signal to all descendants of a process, not to itself.
pub(crate) fn signal(first: Pid, signal: Signal) {
    for pid in descendants(first) {
        send(pid, signal);
    }
}

/// Stops all descendants of a process. False if they could not be held.
pub(crate) async fn stop(first: Pid) -> bool {
    for round in 0..ROUNDS {
        let moving: Vec<Pid> = descendants(first).into_iter().filter(|pid| !stands_still(*pid)).collect();
        if moving.is_empty() {
            return true;
        }
        for pid in moving {
            send(pid, Signal::STOP);
        }
        // One stops when it is on a processor next, or comes back from the disk.
        if round > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    false
}

fn send(pid: Pid, signal: Signal) {
    // It may have ended by itself; with a descriptor of it, nobody else can get the signal from then on.
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
        let _ = pidfd_send_signal(process, signal);
    }
}

fn descendants(first: Pid) -> HashSet<Pid> {
    let (mut found, mut next) = (HashSet::new(), vec![first]);
    while let Some(pid) = next.pop() {
        for child in children(pid) {
            if found.insert(child) {
                next.push(child);
            }
        }
    }
    found
}

/// The children of all threads of a process.
fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| pids(&list)).collect()
}

fn pids(list: &str) -> Vec<Pid> {
    list.split_ascii_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// Whether it is stopped, or over.
fn stands_still(pid: Pid) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())) else { return true };
    // The name, in parentheses, may hold anything (proc_pid_stat(5)).
    let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('T' | 't' | 'Z' | 'X') | None)
}
