//! Locks of the file system, which hold between processes, and between machines that share a disk.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::{Deref, DerefMut};

/// An open file with a lock, which ends when this is dropped.
///
/// A lock of the file system ends when the last copy of the open file is closed. A program that this process is just
/// starting has such a copy until it is executed. Therefore the lock is released explicitly, and not only by closing
/// the file.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Waits for a lock that others may share. Blocks the thread.
    ///
    /// # Errors
    /// The file system failed.
    pub fn shared(file: File) -> io::Result<Self> {
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// Takes the exclusive lock; `None` if another process, or another part of this one, has a lock on the file.
    ///
    /// # Errors
    /// The file system failed.
    pub fn try_exclusive(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Deref for FileLock {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for FileLock {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "a lock was not released; it ends when the file is closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_a_program_that_is_starting_has_a_copy_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::try_exclusive(File::create(&path).unwrap()).unwrap().unwrap();
        let copy = held.try_clone().unwrap();
        assert!(FileLock::try_exclusive(File::open(&path).unwrap()).unwrap().is_none(), "it is locked");
        drop(held);
        assert!(FileLock::try_exclusive(File::open(&path).unwrap()).unwrap().is_some(), "it is not locked any more");
        drop(copy);
    }

    #[test]
    fn a_shared_lock_excludes_only_the_exclusive_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let one = FileLock::shared(File::create(&path).unwrap()).unwrap();
        let other = FileLock::shared(File::open(&path).unwrap()).unwrap();
        drop(one);
        assert!(FileLock::try_exclusive(File::open(&path).unwrap()).unwrap().is_none());
        drop(other);
        assert!(FileLock::try_exclusive(File::open(&path).unwrap()).unwrap().is_some());
    }
}
