//! Counts the disk usage of folders, even if an agent tries to hide some of it: nothing is left out, and content that
//! cannot be counted is reported.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmod, openat, openat2, stat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The minimum size of an entry in bytes, because names and inodes use up space too.
const ENTRY_BYTES: u64 = 4096;

/// The maximum depth of nested folders that are counted. Each level needs a file descriptor.
const DEPTH: usize = 1000;

/// The permissions that the owner needs to list a folder and to access its entries.
const LIST: Mode = Mode::RUSR.union(Mode::XUSR);

/// The result of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Used {
    /// The total in bytes.
    All(u64),
    /// More than the given maximum, at which counting stopped.
    MoreThan(u64),
    /// The folders are nested too deeply to be counted.
    TooDeep,
}

/// Counts the bytes in folders, and stops at the first byte above `most`. A file with several names is counted for each
/// name.
///
/// # Errors
/// An entry cannot be read, which is a fault of the machine.
pub(crate) fn used(folders: &[PathBuf], most: u64) -> io::Result<Used> {
    let mut bytes = 0;
    for folder in folders {
        let mut levels = vec![Level::top(folder)?];
        loop {
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { break };
            let Some(entry) = level.dir.read() else {
                levels.pop();
                continue;
            };
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let metadata = match statat(level.dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(metadata) => metadata,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            bytes += (u64::try_from(metadata.st_blocks).unwrap_or_default() * 512).max(ENTRY_BYTES);
            if bytes > most {
                return Ok(Used::MoreThan(most));
            }
            if FileType::from_raw_mode(metadata.st_mode) == FileType::Directory {
                if depth == DEPTH {
                    return Ok(Used::TooDeep);
                }
                let inner = Level::inside(level.dir.fd()?, name, &metadata)?;
                levels.extend(inner);
            }
        }
    }
    Ok(Used::All(bytes))
}

/// A folder whose entries are being counted.
struct Level {
    dir: Dir,
    _access: Option<Accessible>,
}

impl Level {
    fn top(folder: &Path) -> io::Result<Self> {
        let access = Accessible::if_closed(&stat(folder)?, || openat(CWD, folder, path_flags(), Mode::empty()))?;
        let dir = Dir::new(openat(CWD, folder, list_flags(), Mode::empty())?)?;
        Ok(Self { dir, _access: access })
    }

    /// Opens a folder in another folder; `None` if the entry is no longer a folder, because a program is changing the
    /// tree.
    fn inside(outer: BorrowedFd<'_>, name: &CStr, metadata: &Stat) -> io::Result<Option<Self>> {
        // The entry may have been replaced by a link to any folder.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let open = |flags| openat2(outer, name, flags, Mode::empty(), within);
        let found =
            Accessible::if_closed(metadata, || open(path_flags())).and_then(|access| Ok((open(list_flags())?, access)));
        match found {
            Ok((dir, access)) => Ok(Some(Self { dir: Dir::new(dir)?, _access: access })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn list_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn path_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// A folder of our own user that denies this user access. Access is allowed while the folder is counted, and denied
/// again when this value is dropped. (Root needs no permission.)
struct Accessible {
    descriptor: OwnedFd,
    mode: Mode,
}

impl Accessible {
    fn if_closed(
        metadata: &Stat,
        descriptor: impl FnOnce() -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<Option<Self>> {
        let mode = Mode::from_raw_mode(metadata.st_mode);
        if mode.contains(LIST) || geteuid().is_root() || metadata.st_uid != geteuid().as_raw() {
            return Ok(None);
        }
        let descriptor = descriptor()?;
        chmod(path_of(&descriptor), mode | LIST)?;
        Ok(Some(Self { descriptor, mode }))
    }
}

impl Drop for Accessible {
    fn drop(&mut self) {
        // If this fails, the folder may have been removed. If not, the next count starts from its current mode.
        let _ = chmod(path_of(&self.descriptor), self.mode);
    }
}

/// Returns a path to the file of a descriptor. The path also works for a descriptor through which the file cannot be
/// changed (open(2), `O_PATH`).
fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn count(folder: &Path) -> u64 {
        match used(&[folder.to_owned()], u64::MAX).expect("a count") {
            Used::All(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        fs::create_dir_all(top.join(".git/objects/aa")).expect("folders");
        let before = count(top);
        fs::write(top.join(".git/objects/aa/x"), vec![1; 1 << 20]).expect("a file");
        assert!(count(top) >= before + (1 << 20));
        fs::write(top.join("empty"), "").expect("a file");
        assert!(count(top) >= before + (1 << 20) + ENTRY_BYTES);
        symlink("/", top.join("root")).expect("a link");
        assert!(count(top) < before + (2 << 20), "a link is not followed");
        assert_eq!(used(&[top.to_owned()], 1 << 20).expect("a count"), Used::MoreThan(1 << 20));
    }

    #[test]
    fn closed_folders_are_counted_and_closed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let closed = folder.path().join("closed");
        fs::create_dir_all(closed.join("within")).expect("folders");
        fs::write(closed.join("within/x"), vec![1; 1 << 20]).expect("a file");
        for mode in [0o000, 0o400, 0o700] {
            fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).expect("a mode");
            assert!(count(folder.path()) >= 1 << 20, "{mode:o}");
            let after = fs::metadata(&closed).expect("metadata").permissions().mode() & 0o777;
            assert_eq!(after, mode);
        }
    }

    #[test]
    fn folders_that_are_nested_too_deeply_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = Dir::read_from(openat(CWD, folder.path(), list_flags(), Mode::empty()).expect("a folder"));
        let mut here: OwnedFd = top.expect("a folder").fd().expect("one").try_clone_to_owned().expect("one");
        for _ in 0..DEPTH + 1 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).expect("a folder");
            here = openat(&here, "d", list_flags(), Mode::empty()).expect("a folder");
        }
        assert_eq!(used(&[folder.path().to_owned()], u64::MAX).expect("a count"), Used::TooDeep);
    }
}
