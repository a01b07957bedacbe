//! Control groups (cgroups(7)): limit what the processes of a sandbox may use together, and report whether they reached
//! a limit. Supports both versions of the kernel's interface: version 1 has a hierarchy for each controller, version 2
//! has one for all.

mod controller;
mod freezer;
mod removal;
#[cfg(test)]
mod tests;
mod version;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ports::Exhausted;
use journeyman_core::project::Resources;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;

use removal::{is_empty, members, remove, remove_groups};
use version::{Version, make_dir, parent_of};

pub(crate) use controller::Controller;

/// The prefix of the names of the folders that contain a service's groups.
const PREFIX: &str = "journeyman-";

/// The file in a back end's folder that lists the folders of the service's control groups.
pub(crate) const RECORD: &str = "groups";

/// The number of attempts to make and lock a folder, and the pause between them. A sweep of another service may remove
/// the folder, and locks it briefly.
const ATTEMPTS: usize = 100;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// Returns whether this process may create groups with limits on memory, processes, and CPU time below its own group.
/// Does not create a group.
#[must_use]
pub fn can_limit() -> bool {
    let limits = [Controller::Memory, Controller::Processes, Controller::Cpu];
    limits
        .into_iter()
        .all(|controller| parent_of(controller).is_some_and(|(version, group)| version.may_make(&group, controller)))
}

/// The pool of a service's control groups, one for each sandbox that runs at the same time.
///
/// Groups are reused: a removed group stays in the kernel as long as a file that was read in it is cached, and
/// thousands of removed groups slow down the machine.
#[derive(Debug, Clone)]
pub(crate) struct Cgroups(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    name: String,
    found: Mutex<Controllers>,
    slots: Mutex<Slots>,
}

/// The controllers that this process may use, with their folders and locks.
#[derive(Debug, Default)]
struct Controllers {
    folders: Vec<ControllerFolder>,
    /// The paths of the folders with their locks, which are held as long as the service lives. They show other
    /// services that the folders are in use.
    locks: Vec<(PathBuf, File)>,
    /// The parent folders in which the folders are made. They are stored because making a folder may move this process
    /// to another group.
    parents: Vec<(Controller, Version, PathBuf)>,
}

/// The numbers of the pool's groups.
#[derive(Debug, Default)]
struct Slots {
    free: Vec<usize>,
    made: usize,
}

/// A folder of a controller: the parent of groups, or one group.
#[derive(Debug, Clone)]
struct ControllerFolder {
    controller: Controller,
    version: Version,
    path: PathBuf,
}

const CONTROLLERS: [Controller; 4] = [Controller::Memory, Controller::Processes, Controller::Cpu, Controller::Freezer];

impl Controllers {
    /// Adds the missing controllers whose groups can be made.
    fn complete(&mut self, name: &str) {
        // Find all parents before making the first folder, which may move this process to another group.
        for controller in CONTROLLERS {
            if !self.parents.iter().any(|(has, ..)| *has == controller)
                && let Some((version, parent)) = parent_of(controller)
            {
                let known = self.parents.iter().find(|(_, other, _)| (*other, version) == (Version::Two, Version::Two));
                let parent = known.map_or(parent, |(.., parent)| parent.clone());
                self.parents.push((controller, version, parent));
            }
        }
        for (controller, version, parent) in self.parents.clone() {
            let folder = ControllerFolder { controller, version, path: parent.join(format!("{PREFIX}{name}")) };
            if !self.has(controller) && self.make(&folder) {
                self.folders.push(folder);
            }
        }
    }

    fn has(&self, controller: Controller) -> bool {
        self.folders.iter().any(|folder| folder.controller == controller)
    }

    /// Makes the folder of a controller and locks it.
    fn make(&mut self, folder: &ControllerFolder) -> bool {
        if self.locks.iter().any(|(path, _)| *path == folder.path) {
            return folder.version.make(&folder.path, folder.controller).is_ok();
        }
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(ATTEMPT_PAUSE);
            }
            if folder.version.make(&folder.path, folder.controller).is_err() {
                return false;
            }
            // A sweep may have removed the folder before it was locked.
            if let Some(lock) = lock(&folder.path).filter(|lock| is_same(lock, &folder.path)) {
                // A dead service that had this process's ID may have left groups there.
                remove_groups(&folder.path);
                self.locks.push((folder.path.clone(), lock));
                return true;
            }
        }
        false
    }

    /// Returns the paths of all folders, each once.
    fn locked_folders(&self) -> Vec<PathBuf> {
        self.locks.iter().map(|(folder, _)| folder.clone()).collect()
    }
}

impl Cgroups {
    /// Finds the controllers that this process may use, and removes what dead services have left behind. `name`
    /// distinguishes this process from others. `record` is a file that lists the folders of the previous service, which
    /// may have been started in another group; the folders of this service replace them there.
    pub(crate) fn find(name: &str, record: Option<&Path>) -> Self {
        let mut found = Controllers::default();
        found.complete(name);
        let parents: BTreeSet<PathBuf> = found.parents.iter().map(|(.., parent)| parent.clone()).collect();
        sweep(&parents);
        if let Some(record) = record {
            let before = std::fs::read_to_string(record).unwrap_or_default();
            let recorded = before.lines().filter_map(|line| Path::new(line).parent().map(Path::to_owned)).collect();
            sweep(&recorded);
            let folders: String =
                found.locked_folders().iter().map(|folder| format!("{}\n", folder.display())).collect();
            let made = record.parent().map_or(Ok(()), std::fs::create_dir_all);
            if let Err(error) = made.and_then(|()| std::fs::write(record, folders)) {
                tracing::warn!(
                    file = %record.display(), %error,
                    "the control groups of this service could not be recorded; if the service crashes, the next start \
                     might not remove them"
                );
            }
        }
        Self(Arc::new(Pool { name: name.to_owned(), found: Mutex::new(found), slots: Mutex::default() }))
    }

    /// Searches again for the controllers that were missing at startup: the cause may have passed.
    pub(crate) async fn find_missing(&self) {
        let pool = Arc::clone(&self.0);
        // The search may wait for another process. `spawn_blocking` fails only when the runtime shuts down.
        let _ = tokio::task::spawn_blocking(move || {
            let mut found = pool.found();
            if found.folders.len() < CONTROLLERS.len() {
                found.complete(&pool.name);
            }
        })
        .await;
    }

    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.0.found().has(controller)
    }

    /// Takes an idle group, or makes one, and sets its limits.
    pub(crate) fn take(&self, resources: Resources) -> io::Result<Cgroup> {
        let slot = {
            let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.free.pop().unwrap_or_else(|| {
                slots.made += 1;
                slots.made
            })
        };
        let wanted = self.0.found().folders.clone();
        let whole = wanted.len();
        let mut group = Cgroup { pool: Arc::clone(&self.0), slot, folders: Vec::new(), whole, before: [0; 2] };
        for folder in wanted {
            let path = folder.path.join(slot.to_string());
            make_dir(&path)?;
            folder.version.limit(&path, folder.controller, resources)?;
            group.folders.push(ControllerFolder { path, ..folder });
        }
        group.before = group.refusals();
        Ok(group)
    }
}

impl Pool {
    fn found(&self) -> MutexGuard<'_, Controllers> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        remove(&self.found().locked_folders());
    }
}

/// The control group of one sandbox. When dropped, it returns to the pool, unless it is incomplete or still has
/// processes.
#[derive(Debug)]
pub(crate) struct Cgroup {
    pool: Arc<Pool>,
    slot: usize,
    folders: Vec<ControllerFolder>,
    /// The number of folders of a complete group.
    whole: usize,
    /// The refusals that were counted before this sandbox took the group.
    before: [u64; 2],
}

impl Cgroup {
    /// Opens the files into which a process with one thread writes `0` to enter the group.
    ///
    /// The process enters by itself, because the kernel then does not wait for all processors: this takes 0.1 ms
    /// instead of 25 in version 1 (`cgroup_procs_write_start` in kernel/cgroup/cgroup.c). Version 2 moves whole
    /// processes only, and always waits: 10 to 20 ms, unless its file system is mounted with `favordynmods` (Linux 6.0
    /// and later).
    pub(crate) fn entries(&self) -> io::Result<Vec<File>> {
        let open = |entry: PathBuf| File::options().write(true).open(entry);
        // In version 2, all controllers share one group.
        let entries: BTreeSet<_> = self.folders.iter().map(|folder| folder.path.join(folder.version.entry())).collect();
        entries.into_iter().map(open).collect()
    }

    /// Returns the processes in the group; empty if there is no group.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        self.folders.first().map(|folder| members(&folder.path)).unwrap_or_default()
    }

    /// Returns the limit that processes of the group have reached, if any.
    pub(crate) fn exhausted(&self) -> Option<Exhausted> {
        let now = self.refusals();
        if now[0] > self.before[0] {
            Some(Exhausted::Memory)
        } else if now[1] > self.before[1] {
            Some(Exhausted::Processes)
        } else {
            None
        }
    }

    /// Returns two counts: of processes that were killed for lack of memory, and of process starts that were refused.
    fn refusals(&self) -> [u64; 2] {
        [Controller::Memory, Controller::Processes].map(|controller| {
            let folder = self.folders.iter().find(|folder| folder.controller == controller);
            folder.and_then(|folder| folder.version.refusals(&folder.path, controller)).unwrap_or_default()
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if self.folders.len() == self.whole && self.folders.iter().all(|folder| is_empty(&folder.path)) {
            self.pool.slots.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.slot);
        }
    }
}

/// Locks a folder, which shows other services that it is in use. Returns `None` if another process holds the lock, or
/// if the folder cannot be opened.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Returns whether the path still leads to the opened folder.
fn is_same(opened: &File, folder: &Path) -> bool {
    let (Ok(opened), Ok(there)) = (opened.metadata(), folder.metadata()) else { return false };
    (opened.dev(), opened.ino()) == (there.dev(), there.ino())
}

/// Removes the groups of dead services below these folders, one for each hierarchy. A service is dead if none of its
/// folders is locked. It may have folders in only some of the hierarchies.
fn sweep(parents: &BTreeSet<PathBuf>) {
    let entries = parents.iter().flat_map(|parent| parent.read_dir().into_iter().flatten().flatten());
    let names: BTreeSet<OsString> = entries
        .map(|entry| entry.file_name())
        .filter(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
        .collect();
    for name in names {
        let folders: Vec<PathBuf> =
            parents.iter().map(|parent| parent.join(&name)).filter(|path| path.is_dir()).collect();
        // Hold the locks until the folders are removed: two services that start at the same time may sweep the same
        // folders.
        let locks: Option<Vec<File>> = folders.iter().map(|folder| lock(folder)).collect();
        if locks.is_some() {
            tracing::info!(group = %name.display(), "removing the control groups of a dead service");
            remove(&folders);
        }
    }
}
