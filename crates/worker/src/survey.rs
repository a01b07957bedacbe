//! A look at a tree, without reading a file: whether anything in it has changed, and what git should not be given.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::idempotency::Fingerprint;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, openat, openat2, statat};

/// The longest path that the kernel follows in one piece (limits.h), and so the longest that git can store.
const PATH_BYTES: usize = 4096;

/// Large files that are told at most.
const LARGE: usize = 100;

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Of all names, kinds, sizes and times: two that are equal saw the same. A file cannot be changed without the time
    /// of its change, which programs cannot set (inode(7)).
    pub(crate) fingerprint: String,
    /// Files larger than asked for, from the top.
    pub(crate) large: Vec<PathBuf>,
    /// The first folder that is nested too deeply to be stored.
    pub(crate) too_deep: bool,
}

/// Looks at a folder and all in it; of its `.git` not at the objects, which are known by the refs. What cannot be opened
/// is seen from outside.
///
/// # Errors
/// The folder itself cannot be read.
pub(crate) fn survey(folder: &Path, large_from: u64) -> io::Result<Survey> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(CWD, folder, flags, Mode::empty())?;
    let mut seen = Survey { fingerprint: String::new(), large: Vec::new(), too_deep: false };
    // A tree is read in the order in which the disk gives it, so the sum must not depend on the order.
    let mut sum = [0_u8; 32];
    let mut next = vec![PathBuf::new()];
    while let Some(path) = next.pop() {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        // Where something is at work, a folder may have become a link to anywhere.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let Ok(dir) = openat2(&top, here, flags, Mode::empty(), within) else { continue };
        let mut dir = Dir::new(dir)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || path == Path::new(".git") && name == b"objects" {
                continue;
            }
            let path = path.join(OsStr::from_bytes(name));
            if path.as_os_str().len() >= PATH_BYTES {
                seen.too_deep = true;
                continue;
            }
            // It may be gone again, where something is at work.
            let Ok(note) = statat(dir.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(note.st_mode);
            let size = u64::try_from(note.st_size).unwrap_or_default();
            add(&mut sum, &path, &note, kind);
            if kind == FileType::Directory {
                next.push(path);
            } else if kind == FileType::RegularFile
                && size > large_from
                && seen.large.len() < LARGE
                && !path.starts_with(".git")
            {
                seen.large.push(path);
            }
        }
    }
    seen.fingerprint = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(seen)
}

/// Adds an entry to the sum.
fn add(sum: &mut [u8; 32], path: &Path, note: &Stat, kind: FileType) {
    let mut entry = path.as_os_str().as_bytes().to_vec();
    entry.extend(note.st_mode.to_le_bytes());
    // The times of a folder say nothing that its entries do not.
    if kind != FileType::Directory {
        entry.extend(note.st_ino.to_le_bytes());
        entry.extend(note.st_size.to_le_bytes());
        for time in [note.st_mtime, note.st_ctime] {
            entry.extend(time.to_le_bytes());
        }
        for part in [note.st_mtime_nsec, note.st_ctime_nsec] {
            entry.extend(part.to_le_bytes());
        }
    }
    for (byte, with) in sum.iter_mut().zip(Fingerprint::of("survey", &entry).0) {
        *byte ^= with;
    }
}
