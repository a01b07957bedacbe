//! Packs repositories of the service while they are in use, and removes what nothing refers to.
//!
//! Invariants:
//!
//! - Only one process of the installation works on a repository: it holds a lock on the record in the repository.
//! - A file is removed only after the pack or the list of refs that replaces it, and its name, are on the disk.
//! - Packs that git marks as in use (`.keep`) are left alone, and so is what a push has in quarantine.
//! - An object is removed only if a complete packing has found it unreachable long ago. How old the object is does not
//!   matter: an old commit may have become unreachable a moment ago, and a turn may be working on it.
//!
//! `docs/decisions/0055-git-maintenance.md` has the reasons.

mod contents;

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_core::git_maintenance::{Due, Maintenance, Size, removed_before};
use journeyman_core::time::Timestamp;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use self::contents::{Contents, Pack, remove, rolled_up};
use crate::command::Git;
use crate::failure::GitError;
use crate::lock::FileLock;

/// The file in a repository that records its packings, and whose lock belongs to the process that packs it.
const RECORD: &str = "journeyman-maintenance";

/// The time limit of a command. A complete packing reuses what is packed.
const TIMEOUT: Duration = Duration::from_secs(1200);

/// The age at which an unfinished pack was left behind by a process that was killed.
const UNFINISHED: Duration = Duration::from_secs(24 * 3600);

/// The files of a pack, in the order in which they are removed. Without the first, git does not use the pack.
const PACK_FILES: [&str; 6] = ["idx", "rev", "bitmap", "mtimes", "promisor", "pack"];

/// An error of the maintenance of a repository.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The repository cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The maintenance of a repository, with its lock. The steps are independent of each other, and each does nothing if it is
/// not due.
#[derive(Debug)]
pub struct RepositoryMaintenance {
    git: Git,
    repository: PathBuf,
    record: FileLock,
    state: Maintenance,
    due: Due,
    now: Timestamp,
}

impl RepositoryMaintenance {
    /// Begins the maintenance of a repository. Returns `None` if nothing is due, or if another process is at it. The record
    /// says from now on that it was done, so that a failure is not repeated before it is due again.
    ///
    /// # Errors
    /// The repository cannot be read or written.
    pub async fn begin(git: &Git, repository: &Path, now: Timestamp) -> io::Result<Option<Self>> {
        let (git, repository) = (git.clone(), repository.to_owned());
        blocking(move || begin(git, repository, now)).await
    }

    /// Returns whether a search for refs that nothing needs is due.
    #[must_use]
    pub const fn sweeps(&self) -> bool {
        self.due.sweep
    }

    /// Returns whether unreachable objects are about to be removed. What must stay needs a ref now.
    #[must_use]
    pub const fn removes(&self) -> bool {
        self.due.repack
    }

    /// Packs single objects and small packs. Each pack that is left has at least twice as many objects as all smaller
    /// ones together, so the number of packs grows with the logarithm of the number of objects, and an object is packed
    /// again about as often.
    ///
    /// # Errors
    /// Git failed, or the disk. Nothing was removed.
    pub async fn pack_objects(&self) -> Result<(), MaintenanceError> {
        if !self.due.pack {
            return Ok(());
        }
        let (repository, now) = (self.repository.clone(), self.now);
        let contents = blocking(move || {
            contents::remove_unfinished(&repository, now - UNFINISHED)?;
            Contents::of(&repository)
        });
        let Contents { loose, packs, .. } = contents.await?;
        let replaced = rolled_up(loose, packs);
        if loose == 0 && replaced.len() < 2 {
            return Ok(());
        }
        let names: String = replaced.iter().map(|pack| format!("{}.pack\n", pack.name)).collect();
        let into = std::path::absolute(self.repository.join("objects/pack/pack"))?;
        let options = ["--quiet", "--stdin-packs", "--unpacked", "--delta-base-offset", "--non-empty"];
        let arguments = ["pack-objects"].into_iter().chain(options).map(OsStr::new).chain([into.as_os_str()]);
        let packed = self.git.at(&self.repository, arguments).stdin(names).timeout(TIMEOUT).low_priority();
        let new = format!("pack-{}", packed.run().await?.text()?);
        let folder = self.repository.join("objects/pack");
        blocking(move || {
            File::open(&folder)?.sync_all()?;
            // It lists objects by their packs. The service does not write it.
            remove(&folder.join("multi-pack-index"))?;
            let mut replaced = replaced.iter().filter(|pack| pack.name != new);
            replaced.try_for_each(|Pack { name, .. }| remove_pack(&folder, name))
        })
        .await?;
        self.git.at(&self.repository, ["prune-packed", "--quiet"]).timeout(TIMEOUT).low_priority().run().await?;
        Ok(())
    }

    /// Makes these changes of refs (git-update-ref(1), `--stdin`), and packs the refs. Meanwhile, writers of refs wait
    /// for git's locks, for a second at most.
    ///
    /// # Errors
    /// Git failed, or the disk.
    pub async fn pack_refs(&mut self, changes: Vec<u8>) -> Result<(), MaintenanceError> {
        let has_changes = !changes.is_empty();
        if has_changes {
            self.git.at(&self.repository, ["update-ref", "--stdin"]).stdin(changes).timeout(TIMEOUT).run().await?;
            // The next complete packing finds what these refs have kept.
            self.state.packed_at = Some(self.now);
            write(&mut self.record, &self.state)?;
        }
        if !self.due.pack && !has_changes {
            return Ok(());
        }
        for options in [["--all", "--no-prune"], ["--all", "--prune"]] {
            let arguments = ["pack-refs"].into_iter().chain(options);
            self.git.at(&self.repository, arguments).timeout(TIMEOUT).run().await?;
            let folder = self.repository.clone();
            blocking(move || File::open(folder)?.sync_all()).await?;
        }
        Ok(())
    }

    /// Packs all objects that refs lead to into one pack, and all others into a separate one, without those that an
    /// earlier packing has found unreachable long enough ago.
    ///
    /// # Errors
    /// Git failed, or the disk.
    pub async fn remove_unreachable(&self) -> Result<(), MaintenanceError> {
        if !self.due.repack {
            return Ok(());
        }
        let folder = self.repository.join("objects/pack");
        let packs = folder.clone();
        // Git judges an object by the time of its pack. Now is when it was last known to be in use.
        blocking(move || {
            let contents::PackFiles { packs, .. } = contents::pack_files(&packs)?;
            packs.iter().try_for_each(|pack| touch(pack))
        })
        .await?;
        let before = removed_before(self.now).as_micros().div_euclid(1_000_000);
        let expiration = format!("--cruft-expiration=@{before} +0000");
        let options = ["-a", "-d", "-n", "--quiet", "--no-write-bitmap-index", "--cruft", &expiration];
        let repack = self.git.at(&self.repository, ["repack"].into_iter().chain(options));
        repack.timeout(TIMEOUT).low_priority().run().await?;
        Ok(blocking(move || File::open(folder)?.sync_all()).await?)
    }
}

fn begin(git: Git, repository: PathBuf, now: Timestamp) -> io::Result<Option<RepositoryMaintenance>> {
    let path = repository.join(RECORD);
    let record = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let Some(mut record) = FileLock::try_exclusive(record)? else { return Ok(None) };
    let mut text = String::new();
    record.read_to_string(&mut text)?;
    let known = Maintenance::read(&text);
    let state = known.unwrap_or_else(|| Maintenance::new(now));
    if known.is_some() && !state.may_be_due(now) {
        return Ok(None);
    }
    let Contents { loose, packs, has_unreachable, refs } = Contents::of(&repository)?;
    let size = Size { files: loose + packs.len() + refs, has_unreachable };
    let (due, state) = state.due(now, size);
    if due.is_some() || known.is_none() {
        write(&mut record, &state)?;
    }
    Ok(due.is_some().then_some(RepositoryMaintenance { git, repository, record, state, due, now }))
}

/// Replaces the record in its file, which has the lock. A record that was not written completely counts as none.
fn write(record: &mut File, state: &Maintenance) -> io::Result<()> {
    record.rewind()?;
    record.set_len(0)?;
    record.write_all(state.text().as_bytes())
}

fn touch(file: &Path) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    match utimensat(CWD, file, &Timestamps { last_access: now, last_modification: now }, AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        touched => Ok(touched?),
    }
}

fn remove_pack(folder: &Path, name: &str) -> io::Result<()> {
    PACK_FILES.iter().try_for_each(|extension| remove(&folder.join(format!("{name}.{extension}"))))
}

/// Runs blocking disk operations.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests;
