//! A file that only keeps space for the next start: SQLite needs some to open a database, also to read it. If the disk is
//! full when the service starts, the file is removed first.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// The size of the file in bytes.
const BYTES: u64 = 1 << 20;

/// The free space in bytes below which the file is removed at the start.
const FULL_BELOW: u64 = 256 << 10;

/// The free space in bytes that must remain when the file is created.
const SPARE: u64 = 16 << 20;

/// Removes the file if the disk of the database is full.
pub(super) fn release(database: &Path) {
    let path = path_of(database);
    if !path.exists() || free(database) >= FULL_BELOW {
        return;
    }
    match std::fs::remove_file(&path) {
        Ok(()) => tracing::warn!(
            path = %path.display(),
            "the disk of the database is full; a file that was kept for this case was removed, so that stored data can be \
             read. Free space on the disk"
        ),
        Err(error) => tracing::warn!(%error, path = %path.display(), "the disk of the database is full"),
    }
}

/// Creates the file if there is enough space.
pub(super) fn keep(database: &Path) {
    let path = path_of(database);
    if path.exists() || free(database) < BYTES + SPARE {
        return;
    }
    if let Err(error) = create(&path) {
        tracing::warn!(%error, path = %path.display(), "no space could be kept for a start on a full disk");
        let _ = std::fs::remove_file(&path);
    }
}

fn create(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    fallocate(&file, FallocateFlags::empty(), 0, BYTES)?;
    file.sync_all()
}

/// Returns the free bytes on the disk of a file; the largest number if they are not known.
fn free(database: &Path) -> u64 {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn path_of(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-reserve");
    name.into()
}
