//! The content of files in Git LFS on this machine, by the names of the objects.
//!
//! Each repository has its own cache next to its mirror: a project must not get an object of another repository whose
//! name it knows. Files are synced before they get their names.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use journeyman_core::lfs::{Pointer, copy};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};

/// The maximum size of a cache in bytes. Objects that were not used for the longest time are removed first.
const CACHE_BYTES: u64 = 8 << 30;

/// The cache of a repository. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LfsCache {
    dir: PathBuf,
    most: u64,
}

impl LfsCache {
    /// Returns the cache in a folder, which need not exist.
    #[must_use]
    pub const fn new(dir: PathBuf) -> Self {
        Self { dir, most: CACHE_BYTES }
    }

    fn path(&self, oid: &str) -> PathBuf {
        self.dir.join(oid.get(..2).unwrap_or_default()).join(oid)
    }

    /// Creates an empty folder for downloads, which is on the disk of the cache. `name` must be unique.
    ///
    /// # Errors
    /// The disk failed.
    pub fn incoming(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.dir.join(format!("in.{name}"));
        remove_folder(&folder)?;
        private_folder(&folder)?;
        Ok(folder)
    }

    /// Opens an object; `None` if the cache does not have it.
    ///
    /// # Errors
    /// The disk failed.
    pub fn open(&self, pointer: &Pointer) -> io::Result<Option<File>> {
        let file = match File::open(self.path(&pointer.oid)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() != pointer.bytes {
            return Ok(None);
        }
        // It was used just now.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        futimens(&file, &Timestamps { last_access: unchanged, last_modification: now })?;
        Ok(Some(file))
    }

    /// Moves a file with the content of an object into the cache, and syncs it.
    ///
    /// # Errors
    /// The disk failed.
    pub fn take(&self, pointer: &Pointer, file: &Path) -> io::Result<()> {
        let path = self.path(&pointer.oid);
        let folder = path.parent().unwrap_or(&self.dir);
        File::open(file)?.sync_all()?;
        if !folder.is_dir() {
            private_folder(folder)?;
            File::open(&self.dir)?.sync_all()?;
        }
        std::fs::rename(file, &path)?;
        File::open(folder)?.sync_all()
    }

    /// Copies content into the cache, and returns its pointer. `draft` is the path of a temporary file on the same disk.
    ///
    /// # Errors
    /// The content has more than `most` bytes ([`io::ErrorKind::FileTooLarge`]), or the disk failed.
    pub fn keep(&self, content: &mut File, draft: &Path, most: u64) -> io::Result<Pointer> {
        let kept = copy(content, &mut File::create(draft)?, most)
            .and_then(|pointer| self.take(&pointer, draft).map(|()| pointer));
        if kept.is_err() {
            // The original error says more.
            let _ = std::fs::remove_file(draft);
        }
        kept
    }

    /// Writes the content of an object to a file. Returns false if the cache does not have it. A damaged object is
    /// removed from the cache.
    ///
    /// # Errors
    /// The disk failed, or the object was damaged.
    pub fn copy_to(&self, pointer: &Pointer, to: &mut File) -> io::Result<bool> {
        let Some(mut file) = self.open(pointer)? else { return Ok(false) };
        match copy(&mut file, to, pointer.bytes)? == *pointer {
            true => Ok(true),
            false => Err(self.remove_damaged(pointer)),
        }
    }

    /// Removes an object whose content is not what its pointer says. Returns the error that says so, or why it could not
    /// be removed.
    #[must_use]
    pub fn remove_damaged(&self, pointer: &Pointer) -> io::Error {
        let text = format!("the cached object {} was damaged", pointer.oid);
        std::fs::remove_file(self.path(&pointer.oid))
            .err()
            .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// Removes the objects that were not used for the longest time, until the cache has its maximum size.
    ///
    /// # Errors
    /// The disk failed.
    pub fn trim(&self) -> io::Result<()> {
        let mut files = Vec::new();
        let folders = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            folders => folders?,
        };
        for folder in folders {
            let folder = folder?;
            if folder.file_name().len() != 2 {
                continue;
            }
            for file in std::fs::read_dir(folder.path())? {
                let file = file?;
                // Another run may have removed it.
                let Ok(found) = file.metadata() else { continue };
                files.push((found.modified()?, found.len(), file.path()));
            }
        }
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in files {
            if bytes <= self.most {
                break;
            }
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => bytes -= size,
            }
        }
        Ok(())
    }
}

/// Removes a folder, if it exists.
fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates a folder, and those that lead to it, which no one else can read.
fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use journeyman_core::lfs::Hasher;

    use super::*;

    fn kept(cache: &LfsCache, dir: &Path, content: &[u8]) -> io::Result<Pointer> {
        let file = dir.join("content");
        std::fs::write(&file, content).unwrap();
        cache.keep(&mut File::open(&file).unwrap(), &dir.join("draft"), 100)
    }

    fn read(cache: &LfsCache, dir: &Path, pointer: &Pointer) -> io::Result<Option<Vec<u8>>> {
        let path = dir.join("read");
        let found = cache.copy_to(pointer, &mut File::create(&path).unwrap())?;
        Ok(found.then(|| std::fs::read(path).unwrap()))
    }

    #[test]
    fn kept_content_is_found_by_its_pointer() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LfsCache::new(dir.path().join("m.lfs"));
        let pointer = kept(&cache, dir.path(), b"content").unwrap();
        assert_eq!(pointer.bytes, 7);
        assert_eq!(read(&cache, dir.path(), &pointer).unwrap().unwrap(), b"content");
        let other = Pointer { bytes: 8, ..pointer };
        assert_eq!(read(&cache, dir.path(), &other).unwrap(), None);
        let folder = cache.incoming("job").unwrap();
        std::fs::write(folder.join("x"), "taken").unwrap();
        let mut hasher = Hasher::default();
        hasher.update(b"taken");
        let pointer = hasher.pointer();
        cache.take(&pointer, &folder.join("x")).unwrap();
        assert_eq!(read(&cache, dir.path(), &pointer).unwrap().unwrap(), b"taken");
        assert_eq!(std::fs::read_dir(cache.incoming("job").unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn content_that_is_too_large_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LfsCache::new(dir.path().join("m.lfs"));
        let error = kept(&cache, dir.path(), &[0; 101]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(!dir.path().join("draft").exists() && !dir.path().join("m.lfs").exists());
    }

    #[test]
    fn a_damaged_object_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LfsCache::new(dir.path().join("m.lfs"));
        let pointer = kept(&cache, dir.path(), b"content").unwrap();
        std::fs::write(cache.path(&pointer.oid), b"CONTENT").unwrap();
        assert_eq!(read(&cache, dir.path(), &pointer).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read(&cache, dir.path(), &pointer).unwrap(), None);
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_is_removed_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LfsCache { most: 20, ..LfsCache::new(dir.path().join("m.lfs")) };
        let objects = [b"1 ten byte", b"2 ten byte", b"3 ten byte"];
        let objects = objects.map(|content| kept(&cache, dir.path(), content).unwrap());
        for (number, pointer) in (1..).zip(&objects) {
            let file = File::options().write(true).open(cache.path(&pointer.oid)).unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number);
            file.set_modified(at).unwrap();
        }
        // The oldest is used, and so is the newest.
        assert!(cache.open(&objects[0]).unwrap().is_some());
        cache.trim().unwrap();
        let there: Vec<bool> = objects.iter().map(|pointer| cache.path(&pointer.oid).exists()).collect();
        assert_eq!(there, [true, false, true]);
        LfsCache::new(dir.path().join("none")).trim().unwrap();
    }
}
