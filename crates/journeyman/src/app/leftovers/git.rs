//! Ends the git processes that a killed service has left running, and removes the lock files of killed git processes.
//! While such a lock file exists, git cannot write the branch or file of that name.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_core::time::Timestamp;
use rustix::process::{Pid, Signal, kill_process};

use super::{entries, modified};

/// The time that git may take to exit and to remove its own locks, and the pause between checks.
const END_TIME: Duration = Duration::from_secs(3);
const END_PAUSE: Duration = Duration::from_millis(20);

/// The depth to which nested folders are searched: branch names contain slashes.
const DEPTH: usize = 20;

/// Ends the git processes of a dead service, identified by the configuration that they were started with.
pub(super) fn end_orphans(settings: &Path) {
    let variable = [b"GIT_CONFIG_GLOBAL=", settings.join("gitconfig").as_os_str().as_bytes(), b"\0"].concat();
    let pauses = END_TIME.as_millis() / END_PAUSE.as_millis();
    for pause in 0..=pauses {
        let orphans = orphans(&variable);
        if orphans.is_empty() {
            return;
        }
        let signal = if pause < pauses { Signal::TERM } else { Signal::KILL };
        if pause == 0 || pause == pauses {
            tracing::info!(
                processes = orphans.len(),
                ?signal,
                "stopping the git processes of a service that was killed"
            );
            // The process may have exited already.
            for orphan in orphans {
                let _ = kill_process(orphan, signal);
            }
        }
        std::thread::sleep(END_PAUSE);
    }
}

/// Returns the processes that have an environment variable and no ancestor that is a process of this program.
fn orphans(variable: &[u8]) -> Vec<Pid> {
    let numbers = entries(Path::new("/proc")).filter_map(|(_, name)| name.parse::<i32>().ok());
    let is_ours = |process: &i32| {
        let all = std::fs::read(format!("/proc/{process}/environ"));
        all.is_ok_and(|all| all.windows(variable.len()).any(|part| part == variable))
    };
    let marked: HashMap<i32, i32> = numbers.filter(is_ours).filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let own = std::fs::read_to_string("/proc/self/comm").ok();
    let has_parent = |process: i32| {
        let mut parent = marked.get(&process).copied();
        // Process IDs that were reused in the meantime may form a cycle.
        for _ in 0..marked.len() {
            parent = parent.and_then(|parent| marked.get(&parent)).copied().or(parent);
        }
        parent.is_some_and(|parent| std::fs::read_to_string(format!("/proc/{parent}/comm")).ok() == own)
    };
    marked.keys().copied().filter(|process| !has_parent(*process)).filter_map(Pid::from_raw).collect()
}

/// Returns the parent of a process (proc_pid_stat(5)). The name before it, in parentheses, may contain anything.
fn parent(process: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Removes locks and unfinished objects from before `before` in all repositories of a folder; returns their number. A
/// repository in which a process works, such as the push of a person on this machine, is skipped.
pub(super) fn remove_locks(folder: &Path, before: Timestamp) -> usize {
    let processes = entries(Path::new("/proc")).filter(|(_, name)| name.bytes().all(|byte| byte.is_ascii_digit()));
    let directories: Vec<PathBuf> =
        processes.filter_map(|(path, _)| std::fs::read_link(path.join("cwd")).ok()).collect();
    let is_in_use = |path: &Path| {
        path.canonicalize().is_ok_and(|path| directories.iter().any(|directory| directory.starts_with(&path)))
    };
    let repositories = entries(folder).filter(|(path, name)| name.ends_with(".git") && path.join("HEAD").exists());
    repositories.filter(|(path, _)| !is_in_use(path)).map(|(path, _)| of_repository(&path, before)).sum()
}

fn of_repository(repository: &Path, before: Timestamp) -> usize {
    let objects = repository.join("objects");
    let all = entries(repository).chain(entries(&objects)).chain(entries(&objects.join("pack")));
    let mut found: Vec<_> = all.filter(|(_, name)| is_unfinished(name)).map(|(path, _)| path).collect();
    // The folders into which git sorts objects by the first two characters of their names.
    let fans = entries(&objects).filter(|(path, name)| name.len() == 2 && path.is_dir());
    found.extend(
        fans.flat_map(|(path, _)| entries(&path).filter(|(_, name)| is_unfinished(name))).map(|(path, _)| path),
    );
    let mut folders = vec![(repository.join("refs"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for (path, name) in entries(&folder) {
            if path.is_dir() && !path.is_symlink() && depth < DEPTH {
                folders.push((path, depth + 1));
            } else if is_unfinished(&name) {
                found.push(path);
            }
        }
    }
    let is_old = |path: &PathBuf| modified(path).is_some_and(|at| at < before);
    found.into_iter().filter(is_old).filter(|path| remove(path)).count()
}

/// Returns whether git uses a name only for files that it has not finished. No branch name may end in `.lock`
/// (git-check-ref-format(1)).
fn is_unfinished(name: &str) -> bool {
    // The prefixes are those of objects and packs that are being written, and of the quarantine of a push.
    name.ends_with(".lock") || ["tmp_", "incoming-"].iter().any(|start| name.starts_with(start))
}

fn remove(path: &Path) -> bool {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    if let Err(error) = &removed {
        tracing::warn!(path = %path.display(), %error, "a lock or temporary file of git could not be removed");
    }
    removed.is_ok()
}
