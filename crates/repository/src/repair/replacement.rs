//! Replaces a damaged mirror with a new one, in a way that a crash in between does not lose a mirror.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Moves the damaged mirror back to `path` if a repair ended between the two renames of [`replace`]. The damaged mirror
/// may have the only copy of unpublished commits. The caller holds the lock of the mirror.
pub(crate) async fn restore(path: &Path) -> io::Result<()> {
    let old = path.with_extension("old");
    if path.exists() || !old.exists() {
        return Ok(());
    }
    tokio::fs::rename(old, path).await
}

/// Replaces the mirror at `path` with the one at `new`, and makes the change durable. The damaged mirror is then at
/// `new` or at `old`. Blocks on disk I/O: not for an async thread.
pub(super) fn replace(path: &Path, new: &Path, old: &Path) -> io::Result<()> {
    // Programs in sandboxes that may read the damaged mirror may read the new one.
    if let Ok(damaged) = path.metadata() {
        std::os::unix::fs::chown(new, None, Some(damaged.gid()))?;
        std::fs::set_permissions(new, damaged.permissions())?;
    }
    match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::NOENT) => std::fs::rename(new, path)?,
        // The kernel or the file system cannot exchange two folders.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => replace_in_two_steps(path, new, old)?,
        Err(error) => return Err(error.into()),
    }
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Replaces a mirror with two renames. [`restore`] moves the mirror back after a crash between them.
pub(super) fn replace_in_two_steps(path: &Path, new: &Path, old: &Path) -> io::Result<()> {
    std::fs::rename(path, old)?;
    std::fs::rename(new, path)
}
