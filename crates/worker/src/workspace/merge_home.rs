//! Merges the home that a setup command has created with the agent's own home.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Dir, renameat};
use rustix::io::Errno;

use crate::workspace::owner::as_owner;
use crate::workspace::remove::{open, remove_at};

/// The maximum depth of folders that both homes have. All folders on the path to an entry are held open.
const DEPTH: usize = 256;

/// Moves everything in `from` to `into`. Folders with the same name are merged; of two other entries with the same
/// name, the one in `from` is kept. The rights are those of the owner of `into`. No link is followed. No program may be running in either folder.
pub(crate) fn merge(from: &Path, into: &Path) -> io::Result<()> {
    let (from, into) = (open(CWD, from)?, File::from(open(CWD, into)?));
    as_owner(&into, || merge_folders(&from, into.as_fd(), 0))
}

fn merge_folders(from: &OwnedFd, into: BorrowedFd<'_>, depth: usize) -> io::Result<()> {
    if depth > DEPTH {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("a home has more than {DEPTH} levels of folders")));
    }
    for name in names(from)? {
        move_entry(from, into, &name, depth)?;
    }
    Ok(())
}

fn move_entry(from: &OwnedFd, into: BorrowedFd<'_>, name: &CStr, depth: usize) -> io::Result<()> {
    match renameat(from, name, into, name) {
        // Only root can move a folder that is not writable; opening it makes it writable.
        Err(Errno::ACCESS) => drop(open(from, name)?),
        // Two folders, and the one in `into` is not empty.
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            return merge_folders(&open(from, name)?, open(into, name)?.as_fd(), depth + 1);
        }
        // A folder and another kind of entry.
        Err(Errno::NOTDIR | Errno::ISDIR) => remove_at(into, name)?,
        done => return Ok(done?),
    }
    match renameat(from, name, into, name) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => merge_folders(&open(from, name)?, open(into, name)?.as_fd(), depth + 1),
        Err(Errno::NOTDIR | Errno::ISDIR) => {
            remove_at(into, name)?;
            Ok(renameat(from, name, into, name)?)
        }
        done => Ok(done?),
    }
}

/// Returns the names in a folder, read before any entry is moved.
fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, read_link, read_to_string, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn folders_are_merged_and_files_of_the_setup_command_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (made, home) = (dir.path().join("made"), dir.path().join("home"));
        create_dir_all(made.join(".cache/new/deep")).unwrap();
        create_dir_all(home.join(".cache/old")).unwrap();
        for (file, text) in
            [("made/.npmrc", "fresh"), ("home/.npmrc", "stale"), ("home/session", "kept"), ("made/.cache/x", "x")]
        {
            write(dir.path().join(file), text).unwrap();
        }
        merge(&made, &home).unwrap();
        for (file, text) in [(".npmrc", "fresh"), ("session", "kept"), (".cache/x", "x")] {
            assert_eq!(read_to_string(home.join(file)).unwrap(), text, "{file}");
        }
        assert!(home.join(".cache/new/deep").is_dir() && home.join(".cache/old").is_dir());
    }

    #[test]
    fn links_are_not_followed_and_entries_of_other_kinds_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (made, home, host) = (dir.path().join("made"), dir.path().join("home"), dir.path().join("host"));
        for folder in ["made/link", "made/was-file", "home/was-folder/full", "host", "home/into"] {
            create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in ["made/link/planted", "made/was-file/a", "home/was-file", "made/was-folder", "host/kept"] {
            write(dir.path().join(file), file).unwrap();
        }
        // A link of the agent to the host, and a link of the setup command where the agent has a folder.
        symlink(&host, home.join("link")).unwrap();
        symlink(&host, made.join("into")).unwrap();
        merge(&made, &home).unwrap();
        assert_eq!(read_to_string(home.join("link/planted")).unwrap(), "made/link/planted");
        assert!(home.join("was-file/a").is_file() && home.join("was-folder").is_file());
        assert_eq!(read_link(home.join("into")).unwrap(), host);
        assert_eq!(host.read_dir().unwrap().count(), 1, "no entry was added");
        assert_eq!(read_to_string(host.join("kept")).unwrap(), "host/kept");
    }

    #[test]
    fn closed_folders_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (made, home) = (dir.path().join("made"), dir.path().join("home"));
        for folder in ["made/both/a", "home/both/b", "made/alone/c"] {
            create_dir_all(dir.path().join(folder)).unwrap();
        }
        for folder in ["made/both", "home/both", "made/alone"] {
            set_permissions(dir.path().join(folder), Permissions::from_mode(0o555)).unwrap();
        }
        merge(&made, &home).unwrap();
        for folder in ["both/a", "both/b", "alone/c"] {
            assert!(home.join(folder).is_dir(), "{folder}");
        }
    }
}
