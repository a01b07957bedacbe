//! Removes, at startup, the files that a killed service has left in its data directory.
//!
//! The caller holds the lock of the data directory, so that no other service uses the files. A command that runs at the
//! same time (`journeyman doctor`) has its process ID in the names of its files, which stay. Folders can take long to
//! remove, so they are moved aside at once and removed while the service runs. A failure does not prevent the start.

mod git;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_blobs::Folder;
use journeyman_core::agent::Install;
use journeyman_core::time::Timestamp;

use crate::config::{BlobLocation, Database, SandboxKind, Settings};
use crate::folders::make_private_dir;

/// The folder into which leftovers are moved before they are removed.
const REMOVED: &str = "removed";

/// The age up to which a file in a folder shared with other machines may belong to one of them.
const SHARED_AGE: Duration = Duration::from_secs(24 * 3600);

/// The time by which a file system's timestamps may lag behind the clock.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// The age up to which a temporary folder without a lock file stays: its command might not have created the file yet.
const TEMPORARY_AGE: Duration = Duration::from_secs(3600);

/// Removes what can be removed quickly, and moves the rest aside for [`remove_slowly`].
pub(crate) fn remove(settings: &Settings, now: Timestamp) {
    let data = &settings.data_dir;
    let mut leftovers = Leftovers { data, living: &is_living, removed: 0 };
    leftovers.drafts(data, &["master", "worker"]);
    leftovers.numbered(data, &["doctor", "prepare"]);
    leftovers.drafts(&data.join(journeyman_worker::PREPARED_HOMES), &[]);
    leftovers.drafts(&data.join("git"), &[]);
    leftovers.numbered(&data.join("sandbox"), &["journeyman", "etc", "etc.old"]);
    leftovers.drafts(&data.join("sandbox/runtime"), &[]);
    if settings.sandbox.kind != SandboxKind::Container {
        // The container back end removes its own sockets, after it has stopped the containers that use them.
        leftovers.all(&data.join("sandbox/shim-sockets"));
        // Written by versions before November 2026.
        leftovers.all(&data.join("sandbox/doors"));
    }
    leftovers.all(&data.join("scratch"));
    leftovers.trees(&data.join("spares"));
    leftovers.downloads(&data.join("mirrors"));
    let installed = settings.agents.iter().filter(|(_, spec)| spec.install.is_some()).map(|(id, _)| id.as_str());
    leftovers.agents(&data.join("agents"), &installed.collect::<Vec<_>>());
    leftovers.repositories(&settings.repositories);
    git::end_orphans(&data.join("git"));
    leftovers.removed += git::remove_locks(&data.join("mirrors"), now);
    // With PostgreSQL, other machines may share the repositories.
    let is_own = matches!(settings.database, Database::Sqlite(_));
    leftovers.removed += git::remove_locks(&settings.repositories, if is_own { now } else { now - SHARED_AGE });
    if leftovers.removed > 0 {
        tracing::info!(removed = leftovers.removed, "removed the leftovers of a service that was killed");
    }
}

/// Removes what was moved aside, and the drafts of blobs from before `now`, the time at which this service started.
pub(crate) fn remove_slowly(settings: &Settings, now: Timestamp) {
    let aside = settings.data_dir.join(REMOVED);
    if let Err(error) = std::fs::remove_dir_all(&aside)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(folder = %aside.display(), %error, "leftovers could not be removed; the next start tries again");
    }
    let BlobLocation::Folder { path, shared } = &settings.blobs else { return };
    // A file system's timestamps lag a little behind the clock.
    let before = now - if *shared { SHARED_AGE } else { CLOCK_STEP };
    match Folder::new(path.clone(), *shared).remove_drafts(before) {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed unfinished drafts of blobs"),
        Err(error) => tracing::warn!(folder = %path.display(), %error, "drafts of blobs could not be removed"),
    }
}

struct Leftovers<'a> {
    data: &'a Path,
    /// Returns whether an ID is that of a running process of this program.
    living: &'a dyn Fn(u32) -> bool,
    removed: usize,
}

impl Leftovers<'_> {
    /// Removes the files `<name>.<process ID>.draft` of dead processes. An empty `names` matches any name.
    fn drafts(&mut self, folder: &Path, names: &[&str]) {
        for (path, name) in entries(folder) {
            let Some((name, number)) = name.strip_suffix(".draft").and_then(|name| name.rsplit_once('.')) else {
                continue;
            };
            if names.is_empty() || names.contains(&name) {
                self.of_process(&path, number);
            }
        }
    }

    /// Removes the files and folders `<name>.<process ID>` of dead processes.
    fn numbered(&mut self, folder: &Path, names: &[&str]) {
        for (path, name) in entries(folder) {
            if let Some((name, number)) = name.rsplit_once('.')
                && names.contains(&name)
            {
                self.of_process(&path, number);
            }
        }
    }

    fn of_process(&mut self, path: &Path, number: &str) {
        if number.parse().is_ok_and(|number| !(self.living)(number)) {
            self.take(path);
        }
    }

    /// Removes everything in a folder.
    fn all(&mut self, folder: &Path) {
        entries(folder).for_each(|(path, _)| self.take(&path));
    }

    /// Removes prebuilt trees that were being created or removed.
    fn trees(&mut self, folder: &Path) {
        for (path, name) in entries(folder) {
            if name == "gone" || name.ends_with(".draft") {
                self.take(&path);
            }
        }
    }

    /// Removes unfinished downloads of objects of Git LFS.
    fn downloads(&mut self, folder: &Path) {
        for (cache, _) in entries(folder).filter(|(_, name)| name.ends_with(".lfs")) {
            entries(&cache).filter(|(_, name)| name.starts_with("in.")).for_each(|(path, _)| self.take(&path));
        }
    }

    /// Restores or removes the agents whose installation was interrupted. Does nothing while an agent is being
    /// installed.
    fn agents(&mut self, folder: &Path, known: &[&str]) {
        let Ok(lock) = File::open(folder.join(".lock")) else { return };
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        for (aside, name) in entries(folder) {
            if let Some(id) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".before")) {
                let restored = restore_agent(&folder.join(id), &aside);
                self.note(&aside, restored);
            }
        }
        for (path, name) in entries(folder) {
            if known.contains(&name.as_str()) && path.is_dir() && !path.join(Install::NOTE).exists() {
                self.take(&path);
            }
        }
    }

    /// Removes repositories of the built-in code host that were being created.
    fn repositories(&mut self, folder: &Path) {
        for (path, name) in entries(folder) {
            if journeyman_forge::is_unfinished(&path, &name) {
                self.take(&path);
            }
        }
    }

    /// Moves a folder aside, or removes a file at once.
    fn take(&mut self, path: &Path) {
        let taken = match path.symlink_metadata() {
            Ok(note) if note.is_dir() => self.move_aside(path),
            Ok(_) => std::fs::remove_file(path),
            Err(error) => Err(error),
        };
        self.note(path, taken);
    }

    fn move_aside(&self, path: &Path) -> io::Result<()> {
        let aside = self.data.join(REMOVED);
        make_private_dir(&aside).map_err(io::Error::other)?;
        let mut number = 0_u64;
        loop {
            let target = aside.join(number.to_string());
            if target.symlink_metadata().is_ok() {
                // The previous start was killed too, and left this folder.
                number += 1;
                continue;
            }
            return match std::fs::rename(path, target) {
                // Repositories may be on another disk.
                Err(error) if error.kind() == ErrorKind::CrossesDevices => std::fs::remove_dir_all(path),
                moved => moved,
            };
        }
    }

    fn note(&mut self, path: &Path, done: io::Result<()>) {
        match done {
            Ok(()) => self.removed += 1,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(path = %path.display(), %error, "a leftover could not be removed"),
        }
    }
}

/// Restores the previous version of an agent that an interrupted installation has moved aside. If the new version was
/// complete, it stays, and the previous one is removed.
pub(crate) fn restore_agent(folder: &Path, aside: &Path) -> io::Result<()> {
    let remove = |folder: &Path| match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    if folder.join(Install::NOTE).exists() {
        return remove(aside);
    }
    if !aside.exists() {
        return Ok(());
    }
    remove(folder)?;
    std::fs::rename(aside, folder)
}

/// Removes the temporary data directories of killed commands, whose names begin with `prefix`.
pub(crate) fn remove_temporary(folder: &Path, prefix: &str, now: Timestamp) {
    for (path, _) in entries(folder).filter(|(_, name)| name.starts_with(prefix)) {
        if is_abandoned(&path, now)
            && let Err(error) = std::fs::remove_dir_all(&path)
        {
            tracing::warn!(path = %path.display(), %error, "a temporary folder could not be removed");
        }
    }
}

/// Returns whether a temporary folder belongs to this user and no process uses it.
fn is_abandoned(path: &Path, now: Timestamp) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(note) = path.symlink_metadata() else { return false };
    // Other users can create files or links with such a name.
    if !note.is_dir() || note.uid() != rustix::process::geteuid().as_raw() {
        return false;
    }
    match File::open(path.join("serve.lock")) {
        Ok(lock) => rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => modified(path).is_some_and(|at| at < now - TEMPORARY_AGE),
    }
}

/// Returns the time at which a file or folder was last modified.
fn modified(path: &Path) -> Option<Timestamp> {
    let at = path.symlink_metadata().ok()?.modified().ok()?;
    Some(Timestamp::default() + at.duration_since(std::time::UNIX_EPOCH).ok()?)
}

/// Returns the paths and names of a folder's entries; none if the folder does not exist.
fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, String)> + use<> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

/// Returns whether an ID is that of a running process of this program, other than this one. Compares the names of the
/// programs, because process IDs are reused.
fn is_living(number: u32) -> bool {
    let name = |process: &str| std::fs::read_to_string(format!("/proc/{process}/comm")).ok();
    number != std::process::id() && name(&number.to_string()).is_some_and(|other| Some(other) == name("self"))
}
