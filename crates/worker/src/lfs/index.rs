//! Changes entries of the agent's git index without git: records files with fetched content as a checkout by git-lfs leaves
//! them (the entry has the pointer, and the size and times of the content, so that git does not read the files until they
//! are changed), and marks files as local.
//!
//! Source: gitformat-index(5).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, openat2, statat};
use sha1::{Digest, Sha1};

use crate::workspace::beneath::open_beneath;

/// The size of the header.
const HEAD: usize = 12;

/// The size of an entry before its path, and before the flags that version 3 may add.
const FIXED: usize = 62;

/// The size of the checksum at the end.
const CHECKSUM: usize = 20;

/// The size from which an index stays as it is, in bytes.
const MOST: u64 = 1 << 30;

/// Opens the folder `below` a tree in which programs may have run.
///
/// # Errors
/// The folder cannot be opened without following a link.
pub(super) fn folder(tree: &File, below: &Path) -> io::Result<File> {
    if below.as_os_str().is_empty() { tree.try_clone() } else { open_beneath(tree, below) }
}

/// Records files of the folder `below` a tree in the index of its git directory, which is also in the tree. Returns false
/// if nothing was changed, for example because the index has a version in which paths are compressed. Programs may have
/// run in the tree.
///
/// # Errors
/// The disk failed.
pub(super) fn record(tree: &File, below: &Path, git_dir: &str, files: &[PathBuf]) -> io::Result<bool> {
    change((tree, below, git_dir), files, write)
}

/// Marks files as unchanged in the index of a tree, as `git update-index --assume-unchanged` does. Returns those that the
/// index has and that are marked now. Programs may have run in the tree.
///
/// # Errors
/// The disk failed.
pub(crate) fn mark(tree: &File, files: &[PathBuf]) -> io::Result<HashSet<PathBuf>> {
    let mut marked = HashSet::new();
    let is_written = change((tree, Path::new(""), ".git"), files, |_, index, at, (start, end)| {
        let path = index.get(start..end).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        // The highest bit of the flags.
        let Some(flags) = index.get_mut(at + FIXED - 2) else { return false };
        *flags |= 0x80;
        marked.extend(path);
        true
    })?;
    Ok(if is_written { marked } else { HashSet::new() })
}

/// Changes the entries of files of the folder `below` a tree in the index of its git directory, and writes it if `change`
/// returns true for one of them. `change` gets the folder, the index, the position of the entry, and that of its path.
/// Returns whether the index was written.
fn change(
    (tree, below, git_dir): (&File, &Path, &str),
    files: &[PathBuf],
    mut change: impl FnMut(&File, &mut [u8], usize, (usize, usize)) -> bool,
) -> io::Result<bool> {
    let folder = folder(tree, below)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let Ok(opened) = openat2(tree, format!("{git_dir}/index"), flags, Mode::empty(), within) else { return Ok(false) };
    let mut file = File::from(opened);
    let found = file.metadata()?;
    if !found.is_file() || found.len() >= MOST {
        return Ok(false);
    }
    let mut index = Vec::new();
    (&file).take(MOST).read_to_end(&mut index)?;
    let wanted: HashSet<&[u8]> = files.iter().map(|file| file.as_os_str().as_bytes()).collect();
    let number = |at: usize, index: &[u8]| index.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let (Some(2 | 3), Some(count)) = (number(4, &index), number(8, &index)) else { return Ok(false) };
    let (mut at, mut is_changed) = (HEAD, false);
    for _ in 0..count {
        let Some((start, end)) = path_of(&index, at) else { return Ok(false) };
        if index.get(start..end).is_some_and(|path| wanted.contains(path)) {
            is_changed |= change(&folder, &mut index, at, (start, end));
        }
        // Entries are padded with one to eight NULs.
        at += (end - at + 8) & !7;
    }
    let Some(content) = index.len().checked_sub(CHECKSUM).filter(|_| is_changed) else { return Ok(false) };
    let (content, checksum) = index.split_at_mut(content);
    // Git leaves out the checksum if it is configured so (index.skipHash).
    if checksum.iter().any(|byte| *byte != 0) {
        checksum.copy_from_slice(&Sha1::digest(&*content));
    }
    file.rewind()?;
    file.write_all(&index)?;
    Ok(is_changed)
}

/// Returns the position of the path of the entry at `at`.
fn path_of(index: &[u8], at: usize) -> Option<(usize, usize)> {
    let has_more_flags = index.get(at + FIXED - 2)? & 0x40 != 0;
    let start = at + FIXED + if has_more_flags { 2 } else { 0 };
    let rest = index.get(start..index.len().checked_sub(CHECKSUM)?)?;
    Some((start, start + rest.iter().position(|byte| *byte == 0)?))
}

/// Writes the metadata of a file into its entry. Returns false if there is no such file.
fn write(folder: &File, index: &mut [u8], at: usize, (start, end): (usize, usize)) -> bool {
    let Some(path) = index.get(start..end).map(<[u8]>::to_vec) else { return false };
    let Ok(found) = statat(folder, path.as_slice(), AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let fields = fields(&found);
    // The mode, which is between the inode and the user, stays.
    for (offset, value) in [0, 4, 8, 12, 16, 20, 28, 32, 36].into_iter().zip(fields) {
        if let Some(field) = index.get_mut(at + offset..at + offset + 4) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    }
    true
}

/// Returns the fields of an entry: times, device, inode, user, group and size. Git cuts all of them to 32 bits.
fn fields(found: &Stat) -> [u32; 9] {
    let cut = |value: u64| u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default();
    let time = |value: i64| cut(value.cast_unsigned());
    [
        time(found.st_ctime),
        cut(found.st_ctime_nsec),
        time(found.st_mtime),
        cut(found.st_mtime_nsec),
        cut(found.st_dev),
        cut(found.st_ino),
        found.st_uid,
        found.st_gid,
        cut(found.st_size.cast_unsigned()),
    ]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::workspace::beneath::open_folder;

    fn git(tree: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        let output = git.args(arguments).current_dir(tree).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn recorded_files_are_unchanged_until_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        git(tree, &["init", "--quiet"]);
        let top = &open_folder(tree).unwrap();
        for (path, text) in [("a/long name", "pointer 1"), ("b", "2"), ("c", "3")] {
            std::fs::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
            std::fs::write(tree.join(path), text).unwrap();
        }
        git(tree, &["add", "--all"]);
        // An entry with further flags (version 3).
        std::fs::write(tree.join("d"), "4").unwrap();
        git(tree, &["add", "--intent-to-add", "d"]);
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        for path in ["a/long name", "c"] {
            std::fs::write(tree.join(path), "content").unwrap();
            File::options().write(true).open(tree.join(path)).unwrap().set_modified(old).unwrap();
        }
        assert!(record(top, Path::new(""), ".git", &["a/long name".into(), "c".into(), "missing".into()]).unwrap());
        // Git checks the checksum.
        git(tree, &["fsck", "--no-progress"]);
        let entries = git(tree, &["ls-files", "--debug"]);
        assert_eq!(git(tree, &["diff", "--name-only"]), "d\n", "{entries}");
        std::fs::write(tree.join("c"), "changed").unwrap();
        assert_eq!(git(tree, &["diff", "--name-only"]), "c\nd\n");
        assert!(!record(top, Path::new(""), ".git", &["missing".into()]).unwrap());
    }

    #[test]
    fn marked_files_count_as_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        git(tree, &["init", "--quiet"]);
        let top = &open_folder(tree).unwrap();
        for path in ["a", "b"] {
            std::fs::write(tree.join(path), "1").unwrap();
        }
        git(tree, &["add", "--all"]);
        assert_eq!(mark(top, &["b".into(), "missing".into()]).unwrap(), HashSet::from(["b".into()]));
        git(tree, &["fsck", "--no-progress"]);
        for path in ["a", "b"] {
            std::fs::write(tree.join(path), "22").unwrap();
        }
        assert_eq!(git(tree, &["diff", "--name-only"]), "a\n");
        assert_eq!(git(tree, &["ls-files", "-v"]), "H a\nh b\n");
        std::fs::remove_file(tree.join(".git/index")).unwrap();
        assert_eq!(mark(top, &["b".into()]).unwrap(), HashSet::new());
    }

    #[test]
    fn an_index_that_is_not_understood_stays() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        git(tree, &["init", "--quiet"]);
        let top = &open_folder(tree).unwrap();
        std::fs::write(tree.join("b"), "2").unwrap();
        git(tree, &["add", "--all"]);
        git(tree, &["update-index", "--index-version", "4"]);
        let before = std::fs::read(tree.join(".git/index")).unwrap();
        assert!(!record(top, Path::new(""), ".git", &["b".into()]).unwrap());
        assert_eq!(std::fs::read(tree.join(".git/index")).unwrap(), before);
        std::fs::write(tree.join(".git/index"), &before[..20]).unwrap();
        assert!(!record(top, Path::new(""), ".git", &["b".into()]).unwrap());
    }
}
