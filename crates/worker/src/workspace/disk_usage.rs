//! How much folders have on the disk, whatever an agent does to hide some of it: nothing is left out, and what cannot be
//! counted is told.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmod, openat, openat2, stat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// What an entry counts as at least: names and inodes are used up too.
const ENTRY_BYTES: u64 = 4096;

/// Folders within folders that are followed; each takes a descriptor meanwhile.
const DEPTH: usize = 1000;

/// What its owner must be allowed to do with a folder for us to look into it.
const LOOK: Mode = Mode::RUSR.union(Mode::XUSR);

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Used {
    /// All of it, in bytes.
    All(u64),
    /// More than what was asked for; counting ended there.
    MoreThan(u64),
    /// Folders are nested so deeply that they were not followed.
    TooDeep,
}

/// Counts what is in folders, each name for itself, up to the first byte above `most`.
///
/// # Errors
/// Something could not be looked at, which is a fault of the machine.
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
            let note = match statat(level.dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(note) => note,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            bytes += (u64::try_from(note.st_blocks).unwrap_or_default() * 512).max(ENTRY_BYTES);
            if bytes > most {
                return Ok(Used::MoreThan(most));
            }
            if FileType::from_raw_mode(note.st_mode) == FileType::Directory {
                if depth == DEPTH {
                    return Ok(Used::TooDeep);
                }
                let inner = Level::inside(level.dir.fd()?, name, &note)?;
                levels.extend(inner);
            }
        }
    }
    Ok(Used::All(bytes))
}

/// A folder that is being looked through.
struct Level {
    dir: Dir,
    _opened: Option<Opened>,
}

impl Level {
    fn top(folder: &Path) -> io::Result<Self> {
        let opened = Opened::where_closed(&stat(folder)?, || openat(CWD, folder, place_flags(), Mode::empty()))?;
        let dir = Dir::new(openat(CWD, folder, look_flags(), Mode::empty())?)?;
        Ok(Self { dir, _opened: opened })
    }

    /// `None` where it is no folder any more: something is at work there.
    fn inside(outer: BorrowedFd<'_>, name: &CStr, note: &Stat) -> io::Result<Option<Self>> {
        // It may have become a link to anywhere.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let open = |flags| openat2(outer, name, flags, Mode::empty(), within);
        let found =
            Opened::where_closed(note, || open(place_flags())).and_then(|opened| Ok((open(look_flags())?, opened)));
        match found {
            Ok((dir, opened)) => Ok(Some(Self { dir: Dir::new(dir)?, _opened: opened })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn look_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn place_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// A folder of our own user that was closed to that user, and is open for as long as it is looked through. (Root needs
/// no such thing.)
struct Opened {
    place: OwnedFd,
    mode: Mode,
}

impl Opened {
    fn where_closed(
        note: &Stat,
        place: impl FnOnce() -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<Option<Self>> {
        let mode = Mode::from_raw_mode(note.st_mode);
        if mode.contains(LOOK) || geteuid().is_root() || note.st_uid != geteuid().as_raw() {
            return Ok(None);
        }
        let place = place()?;
        chmod(path_of(&place), mode | LOOK)?;
        Ok(Some(Self { place, mode }))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // It may be gone; else the next look sets out from what it has now.
        let _ = chmod(path_of(&self.place), self.mode);
    }
}

/// Leads to what a descriptor is of, also to one that cannot be changed itself (open(2), `O_PATH`).
fn path_of(place: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", place.as_fd().as_raw_fd())
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
    fn what_is_closed_is_counted_and_closed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let closed = folder.path().join("closed");
        fs::create_dir_all(closed.join("within")).expect("folders");
        fs::write(closed.join("within/x"), vec![1; 1 << 20]).expect("a file");
        for mode in [0o000, 0o400, 0o700] {
            fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).expect("a mode");
            assert!(count(folder.path()) >= 1 << 20, "{mode:o}");
            let after = fs::metadata(&closed).expect("a note").permissions().mode() & 0o777;
            assert_eq!(after, mode);
        }
    }

    #[test]
    fn folders_that_nobody_could_follow_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = Dir::read_from(openat(CWD, folder.path(), look_flags(), Mode::empty()).expect("a folder"));
        let mut here: OwnedFd = top.expect("a folder").fd().expect("one").try_clone_to_owned().expect("one");
        for _ in 0..DEPTH + 1 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).expect("a folder");
            here = openat(&here, "d", look_flags(), Mode::empty()).expect("a folder");
        }
        assert_eq!(used(&[folder.path().to_owned()], u64::MAX).expect("a count"), Used::TooDeep);
    }
}
