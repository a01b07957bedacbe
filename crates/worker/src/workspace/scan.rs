//! Scans a tree without reading files: detects whether anything has changed, and finds entries that git must not be
//! given.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::idempotency::Fingerprint;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;

/// The maximum length of a path that the kernel resolves in one call (limits.h), and so the maximum that git can store.
const PATH_BYTES: usize = 4096;

/// The maximum number of large files that a scan reports.
const MAX_LARGE: usize = 100;

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TreeScan {
    /// The fingerprint of all names, kinds, sizes and times. Equal fingerprints mean that nothing has changed: a file
    /// cannot be changed without changing its ctime, which programs cannot set (inode(7)).
    pub(crate) fingerprint: String,
    /// The paths of files above the given size, relative to the folder; at most [`MAX_LARGE`].
    pub(crate) large: Vec<PathBuf>,
    /// True if an entry is nested so deeply that its path is too long to be stored.
    pub(crate) too_deep: bool,
    /// True if git may use the agent's repository, `.git` at the top: it contains only files, folders, and links to
    /// these, and nothing that blocks a reader.
    pub(crate) repository_is_plain: bool,
    /// An entry elsewhere that git would read and that would block it: a FIFO, a device, or a link to one.
    pub(crate) blocking: Option<PathBuf>,
    /// The bytes on disk of all files, including those of the agent's repository.
    pub(crate) bytes: u64,
    /// The number of files and folders.
    pub(crate) entries: u64,
}

/// Files that git reads by name: in a working tree, and when it checks whether a folder is a repository.
const READ_BY_GIT: [&str; 11] = [
    ".git",
    ".gitattributes",
    ".gitignore",
    ".gitmodules",
    "HEAD",
    "alternates",
    "commondir",
    "config",
    "config.worktree",
    "packed-refs",
    "shallow",
];

/// Folders in which git may read any file.
const FOLDERS_OF_GIT: [&str; 4] = [".git", "objects", "refs", "reftable"];

/// Walks a folder and everything in it. The objects of its `.git` are not part of the fingerprint, because the refs
/// identify them. If a folder cannot be opened, only its own entry is recorded.
///
/// # Errors
/// The folder itself cannot be read.
pub(crate) fn scan(folder: &Path, large_from: u64) -> io::Result<TreeScan> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(CWD, folder, flags, Mode::empty())?;
    let mut seen = TreeScan { repository_is_plain: true, ..TreeScan::default() };
    // The file system returns entries in any order, so the sum must not depend on it.
    let mut sum = [0_u8; 32];
    let mut next = vec![PathBuf::new()];
    while let Some(path) = next.pop() {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        // If a program is running in the tree, it may have replaced the folder by a link.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let Ok(dir) = openat2(&top, here, flags, Mode::empty(), within) else { continue };
        let mut dir = Dir::new(dir)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = path.join(OsStr::from_bytes(name));
            if path.as_os_str().len() >= PATH_BYTES {
                seen.too_deep = true;
                continue;
            }
            // If a program is running in the tree, it may have removed the entry.
            let Ok(metadata) = statat(dir.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(metadata.st_mode);
            let size = u64::try_from(metadata.st_size).unwrap_or_default();
            seen.entries += 1;
            seen.bytes += u64::try_from(metadata.st_blocks).unwrap_or_default() * 512;
            if !path.starts_with(".git/objects") {
                add(&mut sum, &path, &metadata, kind);
            }
            if may_block_git(top.as_fd(), &path, kind) {
                if path.starts_with(".git") {
                    seen.repository_is_plain = false;
                } else {
                    seen.blocking.get_or_insert_with(|| path.clone());
                }
            }
            if kind == FileType::Directory {
                next.push(path);
            } else if kind == FileType::RegularFile
                && size > large_from
                && seen.large.len() < MAX_LARGE
                && !path.starts_with(".git")
            {
                seen.large.push(path);
            }
        }
    }
    seen.fingerprint = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(seen)
}

/// Returns the first entry of the committer's folder that is neither a file nor a folder. The links that the committer
/// creates itself ([`crate::commit::committer`]) are not reported: it removes them before it does anything else.
///
/// # Errors
/// A folder cannot be read.
pub(crate) fn first_odd_entry(folder: &Path) -> io::Result<Option<PathBuf>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(CWD, folder, flags, Mode::empty())?;
    let mut next = vec![PathBuf::from(".")];
    while let Some(path) = next.pop() {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let mut dir = Dir::new(openat2(&top, &path, flags, Mode::empty(), within)?)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let path = path.join(OsStr::from_bytes(name));
            if name == b"." || name == b".." {
                continue;
            }
            match FileType::from_raw_mode(statat(dir.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
                FileType::Directory if path == Path::new("./own") => {}
                FileType::Directory => next.push(path),
                FileType::RegularFile => {}
                _ => return Ok(Some(path)),
            }
        }
    }
    Ok(None)
}

/// Returns whether git would open this entry and might block: a FIFO or a device among the files that it reads, or a
/// link to one. Opening a socket fails immediately.
fn may_block_git(top: BorrowedFd<'_>, path: &Path, kind: FileType) -> bool {
    let in_repository = path.starts_with(".git");
    // The service's git runs no hooks.
    let is_read = !path.starts_with(".git/hooks")
        && (path.file_name().is_some_and(|name| READ_BY_GIT.iter().any(|read| name == *read))
            || path.components().any(|part| FOLDERS_OF_GIT.iter().any(|folder| part.as_os_str() == *folder)));
    if !is_read {
        return false;
    }
    match kind {
        FileType::Symlink if path == Path::new(".git") => true,
        FileType::Symlink => {
            // If the target is outside the tree, its meaning in the sandbox is unknown here.
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match openat2(top, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within) {
                Ok(target) => match fstat(target).map(|metadata| FileType::from_raw_mode(metadata.st_mode)) {
                    Ok(FileType::Directory) => in_repository,
                    Ok(kind) => blocks_readers(kind),
                    Err(_) => true,
                },
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => false,
                Err(_) => in_repository,
            }
        }
        kind => blocks_readers(kind),
    }
}

const fn blocks_readers(kind: FileType) -> bool {
    matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown)
}

/// Adds an entry to the sum.
fn add(sum: &mut [u8; 32], path: &Path, metadata: &Stat, kind: FileType) {
    let mut entry = path.as_os_str().as_bytes().to_vec();
    entry.extend(metadata.st_mode.to_le_bytes());
    // The times of a folder say nothing that its entries do not.
    if kind != FileType::Directory {
        entry.extend(metadata.st_ino.to_le_bytes());
        entry.extend(metadata.st_size.to_le_bytes());
        for time in [metadata.st_mtime, metadata.st_ctime] {
            entry.extend(time.to_le_bytes());
        }
        for part in [metadata.st_mtime_nsec, metadata.st_ctime_nsec] {
            entry.extend(part.to_le_bytes());
        }
    }
    for (byte, with) in sum.iter_mut().zip(Fingerprint::of("survey", &entry).0) {
        *byte ^= with;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::mknodat;

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().expect("a folder"));
            fs::create_dir_all(tree.path(".git/objects/info")).expect("a folder");
            fs::write(tree.path(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn fifo(&self, name: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        }

        fn scanned(&self) -> TreeScan {
            scan(self.0.path(), u64::MAX).expect("a scan")
        }
    }

    #[test]
    fn a_fifo_that_git_would_read_is_named_wherever_it_is() {
        for name in
            [".gitignore", "a/.gitattributes", ".gitmodules", "a/.git", "a/.git/x/y", "g/HEAD", "g/refs/heads/x"]
        {
            let tree = Tree::new();
            tree.fifo(name);
            let seen = tree.scanned();
            assert_eq!(seen.blocking.as_deref(), Some(Path::new(name)));
            assert!(seen.repository_is_plain, "{name}");
        }
        let tree = Tree::new();
        tree.fifo("pipe");
        fs::create_dir(tree.path("a")).expect("a folder");
        symlink("../pipe", tree.path("a/packed-refs")).expect("a link");
        assert_eq!(tree.scanned().blocking.as_deref(), Some(Path::new("a/packed-refs")), "a link to one");
    }

    #[test]
    fn other_fifos_links_and_files_do_not_block_git() {
        let tree = Tree::new();
        tree.fifo("pipe");
        tree.fifo("a/node");
        fs::create_dir_all(tree.path(".git/hooks")).expect("a folder");
        symlink("/usr/bin/true", tree.path(".git/hooks/pre-commit")).expect("a link");
        symlink("/usr/share/config", tree.path("config")).expect("a link");
        symlink("nowhere", tree.path(".git/old")).expect("a link");
        let seen = tree.scanned();
        assert_eq!((seen.blocking, seen.repository_is_plain), (None, true));
    }

    #[test]
    fn a_repository_that_may_block_git_is_not_plain() {
        type Plant = fn(&Tree);
        let plant: [(&str, Plant); 5] = [
            ("HEAD", |tree| {
                fs::remove_file(tree.path(".git/HEAD")).expect("a file");
                tree.fifo(".git/HEAD");
            }),
            ("an object", |tree| tree.fifo(".git/objects/pack/pack-1.idx")),
            ("a link to a device", |tree| symlink("/dev/stdin", tree.path(".git/packed-refs")).expect("a link")),
            ("a link to a FIFO", |tree| {
                tree.fifo("pipe");
                symlink("../../pipe", tree.path(".git/objects/x")).expect("a link");
            }),
            ("a link", |tree| {
                fs::rename(tree.path(".git"), tree.path("g")).expect("a folder");
                symlink("g", tree.path(".git")).expect("a link");
            }),
        ];
        for (what, plant) in plant {
            let tree = Tree::new();
            plant(&tree);
            let seen = tree.scanned();
            assert_eq!((seen.repository_is_plain, seen.blocking), (false, None), "{what}");
        }
    }

    #[test]
    fn links_and_fifos_among_the_files_of_the_committer_are_found() {
        let folder = Tree::new();
        fs::create_dir(folder.path("own")).expect("a folder");
        symlink("/x", folder.path("own/pack")).expect("a link");
        assert_eq!(first_odd_entry(folder.0.path()).expect("a scan"), None);
        folder.fifo("git/config");
        assert_eq!(first_odd_entry(folder.0.path()).expect("a scan"), Some("./git/config".into()));
        fs::remove_file(folder.path("git/config")).expect("a file");
        symlink("/dev/stdin", folder.path("index")).expect("a link");
        assert_eq!(first_odd_entry(folder.0.path()).expect("a scan"), Some("./index".into()));
    }

    #[test]
    fn objects_count_as_bytes_but_not_as_a_change() {
        let tree = Tree::new();
        let before = tree.scanned();
        fs::write(tree.path(".git/objects/info/x"), vec![1; 1 << 20]).expect("a file");
        let after = tree.scanned();
        assert_eq!(before.fingerprint, after.fingerprint);
        assert!(after.bytes >= before.bytes + (1 << 20) && after.entries == before.entries + 1);
    }
}
