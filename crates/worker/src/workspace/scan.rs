//! Scans a tree without reading files: lists them, detects whether anything has changed, and finds entries that git must
//! not be given.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::idempotency::Fingerprint;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;

use super::listing::{Entry, Kind, Listing, Stamp};

/// The maximum length of a path that the kernel resolves in one call (limits.h), and so the maximum that git can store.
const PATH_BYTES: usize = 4096;

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TreeScan {
    /// The files of the tree.
    pub(crate) listing: Listing,
    /// The fingerprint of the tree and of the agent's repository. Equal fingerprints mean that nothing has changed.
    pub(crate) fingerprint: String,
    /// The files above the given size, with their sizes in bytes.
    pub(crate) large: BTreeMap<PathBuf, u64>,
    /// Folders below the top that are repositories or working trees of their own.
    pub(crate) repositories: BTreeSet<PathBuf>,
    /// True if a file of the tree has ignore rules.
    pub(crate) has_ignore_rules: bool,
    /// True if a file of the tree has attributes, which may make git convert content.
    pub(crate) has_attributes: bool,
    /// True if the tree has a `.gitmodules`.
    pub(crate) has_submodules: bool,
    /// The stamp of the index of the agent's repository.
    pub(crate) index: Option<Stamp>,
    /// True if the agent's repository may have other refs than the branch that it has checked out, and those of the service.
    pub(crate) has_other_refs: bool,
    /// True if the agent's repository has sparse patterns.
    pub(crate) has_sparse_patterns: bool,
    /// The operation that the agent has begun in its repository and not finished, such as a merge.
    pub(crate) unfinished: Option<&'static str>,
    /// The top of folders that are nested so deeply that the path of an entry is too long to be stored.
    pub(crate) too_deep: Option<PathBuf>,
    /// True if git may use the agent's repository, `.git` at the top: it contains only files, folders, and links to
    /// these, and nothing that blocks a reader.
    pub(crate) repository_is_plain: bool,
    /// Entries elsewhere that git would read and that would block it: FIFOs, devices, and links to these.
    pub(crate) blocking: Vec<PathBuf>,
    /// The bytes on disk of all files, including those of the agent's repository.
    pub(crate) bytes: u64,
    /// The number of files and folders.
    pub(crate) entries: u64,
}

/// The search for a commit that has introduced a fault, during which older commits are checked out.
pub(crate) const BISECT: &str = "bisect";

/// Files and folders of a git directory that exist while an operation is not finished (gitrepository-layout(5)).
const UNFINISHED: [(&str, &str); 7] = [
    (".git/MERGE_HEAD", "merge"),
    (".git/rebase-merge", "rebase"),
    (".git/rebase-apply", "rebase"),
    (".git/CHERRY_PICK_HEAD", "cherry-pick"),
    (".git/REVERT_HEAD", "revert"),
    (".git/sequencer", "cherry-pick or revert"),
    (".git/BISECT_LOG", BISECT),
];

/// Folders that the fingerprint leaves out: refs identify objects, and the service writes the branches of the code host
/// ([`super::upstream`]).
const NOT_COUNTED: [&str; 2] = [".git/objects", ".git/refs/remotes"];

/// Files of a working tree that git reads by name.
pub(crate) const READ_BY_GIT: [&str; 3] = [".gitattributes", ".gitignore", ".gitmodules"];

/// Walks a folder and everything in it. If a folder cannot be opened, only its own entry is recorded.
///
/// # Errors
/// The folder itself cannot be read.
pub(crate) fn scan(folder: &Path, large_from: u64) -> io::Result<TreeScan> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(CWD, folder, flags, Mode::empty())?;
    let mut seen = TreeScan { repository_is_plain: true, ..TreeScan::default() };
    let mut entries = Vec::new();
    // The file system returns entries in any order, so the sum must not depend on it.
    let mut sum = Stamp::default();
    let mut next = vec![PathBuf::new()];
    let mut branches = 0;
    while let Some(path) = next.pop() {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        // If a program is running in the tree, it may have replaced the folder by a link.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let in_git_directory = is_in_git_directory(&path);
        let Ok(dir) = openat2(&top, here, flags, Mode::empty(), within) else {
            if !in_git_directory {
                entries.push(Entry { path, kind: Kind::Closed, stamp: Stamp::default(), is_ignored: false });
            }
            continue;
        };
        let mut dir = Dir::new(dir)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = path.join(OsStr::from_bytes(name));
            if path.as_os_str().len() >= PATH_BYTES {
                seen.too_deep.get_or_insert_with(|| path.components().take(1).collect());
                continue;
            }
            // If a program is running in the tree, it may have removed the entry.
            let Ok(metadata) = statat(dir.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = FileType::from_raw_mode(metadata.st_mode);
            seen.entries += 1;
            seen.bytes += u64::try_from(metadata.st_blocks).unwrap_or_default() * 512;
            let stamp = stamp(&path, &metadata, kind);
            if !NOT_COUNTED.iter().any(|folder| path.starts_with(folder)) {
                for (byte, with) in sum.iter_mut().zip(stamp) {
                    *byte ^= with;
                }
            }
            if path.starts_with(".git") {
                seen.look_at_repository(top.as_fd(), &path, kind, stamp);
                branches += u32::from(kind != FileType::Directory && path.starts_with(".git/refs/heads"));
            } else if name == b".git" {
                if kind == FileType::RegularFile || is_git_directory(top.as_fd(), &path) {
                    seen.repositories.extend(path.parent().map(Path::to_owned));
                }
            } else if kind != FileType::Directory && !in_git_directory {
                seen.look_at_file(top.as_fd(), &path, kind);
                let size = u64::try_from(metadata.st_size).unwrap_or_default();
                if kind == FileType::RegularFile && size > large_from {
                    seen.large.insert(path.clone(), size);
                }
                let kind = match kind {
                    FileType::RegularFile => Kind::File,
                    FileType::Symlink => Kind::Link,
                    _ => Kind::Special,
                };
                entries.push(Entry { path: path.clone(), kind, stamp, is_ignored: false });
            }
            if kind == FileType::Directory {
                next.push(path);
            }
        }
    }
    seen.has_other_refs |= branches > 1;
    seen.listing = Listing::new(entries);
    seen.fingerprint = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(seen)
}

impl TreeScan {
    /// Takes account of an entry of the agent's repository.
    fn look_at_repository(&mut self, top: BorrowedFd<'_>, path: &Path, kind: FileType, stamp: Stamp) {
        if path == Path::new(".git/index") {
            self.index = Some(stamp);
        }
        self.has_sparse_patterns |= path == Path::new(".git/info/sparse-checkout");
        let is_in = |folder: &str| path.starts_with(folder) && path != Path::new(folder);
        self.has_other_refs |= is_in(".git/refs/tags")
            || [".git/refs/stash", ".git/packed-refs", ".git/reftable"].iter().any(|other| path == Path::new(other));
        let unfinished = UNFINISHED.into_iter().find(|(begun, _)| path == Path::new(begun));
        self.unfinished = unfinished.map(|(_, operation)| operation).or(self.unfinished);
        // The service's git runs no hooks.
        if !path.starts_with(".git/hooks") && may_block_readers(top, path, kind, true) {
            self.repository_is_plain = false;
        }
    }

    /// Takes account of a file of the tree.
    fn look_at_file(&mut self, top: BorrowedFd<'_>, path: &Path, kind: FileType) {
        if !path.file_name().is_some_and(|name| READ_BY_GIT.iter().any(|read| name == *read)) {
            return;
        }
        if may_block_readers(top, path, kind, false) {
            self.blocking.push(path.to_owned());
        }
        self.has_ignore_rules |= path.ends_with(".gitignore");
        self.has_attributes |= path.ends_with(".gitattributes");
        self.has_submodules |= path == Path::new(".gitmodules");
    }
}

/// Returns whether a path is a `.git` or in one.
fn is_in_git_directory(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

/// Returns whether git would take a folder for a git directory: it has a `HEAD`.
fn is_git_directory(top: BorrowedFd<'_>, path: &Path) -> bool {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(top, path.join("HEAD"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within).is_ok()
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
                FileType::Directory if path == Path::new("./own") || path == Path::new("./old") => {}
                FileType::Directory => next.push(path),
                FileType::RegularFile => {}
                _ => return Ok(Some(path)),
            }
        }
    }
    Ok(None)
}

/// Returns whether a reader of this entry might wait for ever: it is a FIFO or a device, or a link to one. Opening a socket
/// fails immediately. In a git directory, links to folders count too, and links that lead out of the tree.
fn may_block_readers(top: BorrowedFd<'_>, path: &Path, kind: FileType, in_repository: bool) -> bool {
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
                // Git follows no links to attributes and ignore rules, but reads the names of submodules through one.
                Err(_) => in_repository,
            }
        }
        kind => blocks_readers(kind),
    }
}

const fn blocks_readers(kind: FileType) -> bool {
    matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown)
}

/// Returns the stamp of an entry.
fn stamp(path: &Path, metadata: &Stat, kind: FileType) -> Stamp {
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
    let mut stamp = Stamp::default();
    for (byte, with) in stamp.iter_mut().zip(Fingerprint::of("survey", &entry).0) {
        *byte = with;
    }
    stamp
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
        for name in [".gitignore", "a/.gitattributes", ".gitmodules"] {
            let tree = Tree::new();
            tree.fifo(name);
            let seen = tree.scanned();
            assert_eq!(seen.blocking, [Path::new(name)]);
            assert!(seen.repository_is_plain, "{name}");
        }
        let tree = Tree::new();
        tree.fifo("pipe");
        fs::create_dir(tree.path("a")).expect("a folder");
        symlink("../pipe", tree.path("a/.gitattributes")).expect("a link");
        assert_eq!(tree.scanned().blocking, [Path::new("a/.gitattributes")], "a link to one");
    }

    #[test]
    fn other_fifos_links_and_files_do_not_block_git() {
        let tree = Tree::new();
        for name in ["pipe", "a/node", "a/.git/x/y", "g/HEAD", "g/refs/heads/x"] {
            tree.fifo(name);
        }
        fs::create_dir_all(tree.path(".git/hooks")).expect("a folder");
        symlink("/usr/bin/true", tree.path(".git/hooks/pre-commit")).expect("a link");
        symlink("/usr/share/config", tree.path(".gitignore")).expect("a link");
        symlink("nowhere", tree.path(".git/old")).expect("a link");
        let seen = tree.scanned();
        assert_eq!((seen.blocking, seen.repository_is_plain), (Vec::new(), true));
    }

    #[test]
    fn the_listing_has_the_files_of_the_tree_and_the_marks_of_its_folders() {
        let tree = Tree::new();
        for folder in [".git/info", "inside/.git/objects", "worktree", "fixture/.git", "a"] {
            fs::create_dir_all(tree.path(folder)).expect("a folder");
        }
        for file in ["inside/.git/HEAD", "inside/x", "worktree/.git", "worktree/y", "fixture/.git/x", "fixture/z"] {
            fs::write(tree.path(file), "x").expect("a file");
        }
        for file in [".git/index", ".git/info/sparse-checkout", ".git/MERGE_HEAD", "a/.gitignore", "a/.gitattributes"] {
            fs::write(tree.path(file), "x").expect("a file");
        }
        symlink("nowhere", tree.path("link")).expect("a link");
        tree.fifo("pipe");
        let seen = scan(tree.0.path(), 0).expect("a scan");
        let found: Vec<_> = seen.listing.entries().iter().map(|one| (one.path.to_str().unwrap(), one.kind)).collect();
        let file = |path| (path, Kind::File);
        let expected = [
            file("a/.gitattributes"),
            file("a/.gitignore"),
            file("fixture/z"),
            file("inside/x"),
            ("link", Kind::Link),
            ("pipe", Kind::Special),
            file("worktree/y"),
        ];
        assert_eq!(found, expected);
        assert_eq!(seen.repositories, ["inside", "worktree"].map(PathBuf::from).into());
        assert_eq!(seen.large.keys().filter(|path| path.starts_with("a")).count(), 2);
        assert!(seen.has_ignore_rules && seen.has_attributes && !seen.has_submodules && seen.has_sparse_patterns);
        assert!(seen.index.is_some());
        assert_eq!((seen.unfinished, seen.too_deep), (Some("merge"), None));
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
            assert_eq!((seen.repository_is_plain, seen.blocking), (false, Vec::new()), "{what}");
        }
    }

    #[test]
    fn links_and_fifos_among_the_files_of_the_committer_are_found() {
        let folder = Tree::new();
        for name in ["own", "old"] {
            fs::create_dir(folder.path(name)).expect("a folder");
            symlink("/x", folder.path(name).join("pack")).expect("a link");
        }
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
