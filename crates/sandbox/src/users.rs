//! The user IDs of sandboxes on the host, if the service runs as root: one for each workspace, and one group for all.
//! Thus even a program that breaks out of its sandbox cannot touch the files and processes of another.
//!
//! Invariant: only the owner of a folder records which user the folder belongs to.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ports::{SandboxError, Spawn};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, chownat, openat, openat2, statat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::quota::Quotas;

/// A range of user IDs that nothing else on the machine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRange {
    /// The first ID of the range, which is also the ID of the common group.
    pub first: u32,
    /// The number of IDs.
    pub count: u32,
}

impl Default for UserRange {
    /// Returns a range above the IDs that systemd assigns a use (its `UIDS-GIDS.md`).
    fn default() -> Self {
        Self { first: 2_000_000_000, count: Self::COUNT }
    }
}

impl UserRange {
    /// The number of user IDs in a range.
    pub const COUNT: u32 = 65_536;

    /// The lowest first ID. Lower IDs belong to the system, to people or to `nobody` (65534), or stand for -1 in
    /// programs with 16-bit IDs.
    pub const LOWEST: u32 = 65_536;

    /// The highest first ID; the last ID of that range is 2147483647. Programs that store user IDs with a sign take
    /// higher ones for negative.
    pub const HIGHEST: u32 = i32::MAX.cast_unsigned() - Self::COUNT + 1;

    /// Returns the range that begins with an ID; `None` if that is not from [`Self::LOWEST`] to [`Self::HIGHEST`].
    #[must_use]
    pub const fn beginning_with(first: u32) -> Option<Self> {
        if first < Self::LOWEST || first > Self::HIGHEST { None } else { Some(Self { first, count: Self::COUNT }) }
    }

    /// Returns whether an ID is in the range.
    #[must_use]
    pub const fn has(self, user: u32) -> bool {
        user >= self.first && user - self.first < self.count
    }

    /// Returns the last ID of the range.
    #[must_use]
    pub const fn last(self) -> u32 {
        self.first.saturating_add(self.count.saturating_sub(1))
    }
}

/// Assigns user IDs to workspaces.
#[derive(Debug)]
pub(crate) struct Users {
    range: UserRange,
    /// The folders whose entries, one or two levels below, belong to users of sandboxes.
    roots: Vec<PathBuf>,
    round: Mutex<Option<Round>>,
    /// `true` if a probe has shown that the kernel refuses what exceeds a quota. It may only count.
    enforces: AtomicBool,
}

/// A pass through the range of IDs.
#[derive(Debug)]
struct Round {
    /// The IDs that owned folders when the pass began.
    taken: HashSet<u32>,
    next: u32,
}

impl Users {
    pub(crate) fn new(range: UserRange, roots: Vec<PathBuf>) -> Self {
        Self { range, roots, round: Mutex::default(), enforces: AtomicBool::new(false) }
    }

    pub(crate) const fn group(&self) -> u32 {
        self.range.first
    }

    /// Returns the user that owns a folder.
    pub(crate) fn of(&self, folder: &Path) -> io::Result<u32> {
        let owner = folder.symlink_metadata()?.uid();
        if self.range.has(owner) { Ok(owner) } else { Err(io::Error::other("no sandbox user owns the workspace")) }
    }

    /// Gives folders with all their content to the user of the first folder, or to the next free user if it has none
    /// yet.
    pub(crate) fn give(&self, folders: &[PathBuf]) -> io::Result<()> {
        let Some(first) = folders.first() else { return Ok(()) };
        let user = match self.of(first) {
            Ok(user) => user,
            Err(_) => self.fresh(&Quotas::of(first)?)?,
        };
        folders.iter().try_for_each(|folder| give(folder, user, self.group()))
    }

    /// Lets only a group of its own read a folder, which is assigned when a folder has none yet. The folder stays the
    /// service's.
    pub(crate) fn restrict(&self, folder: &Path) -> io::Result<()> {
        let opened = openat(CWD, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        // Two folders must not get the same group.
        let _round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        if self.own_group(folder).is_none() {
            let beside = folder.parent().unwrap_or(folder).read_dir()?.flatten();
            let taken: HashSet<u32> = beside.filter_map(|entry| Some(entry.metadata().ok()?.gid())).collect();
            let free = (self.range.first + 1..=self.range.last()).find(|group| !taken.contains(group));
            let free = free.ok_or_else(|| io::Error::other("all group IDs for sandboxes are in use"))?;
            rustix::fs::fchown(&opened, None, Some(Gid::from_raw(free)))
                .map_err(|error| refused(error, Uid::from_raw(free)))?;
        }
        Ok(rustix::fs::fchmod(&opened, Mode::RWXU | Mode::RGRP | Mode::XGRP)?)
    }

    /// Returns the groups that may read the folders around these paths ([`Self::restrict`]).
    pub(crate) fn groups_of(&self, paths: &[PathBuf]) -> BTreeSet<u32> {
        paths.iter().filter_map(|path| self.own_group(path.parent()?)).collect()
    }

    fn own_group(&self, folder: &Path) -> Option<u32> {
        let group = folder.symlink_metadata().ok()?.gid();
        (self.range.has(group) && group != self.group()).then_some(group)
    }

    /// Stores whether a probe has shown that the kernel refuses what exceeds a quota.
    pub(crate) fn set_enforces(&self, enforces: bool) {
        self.enforces.store(enforces, Ordering::Relaxed);
    }

    /// Limits the space that the user of a workspace may own on its disk, if the kernel has quotas there. Returns
    /// whether the kernel enforces the limit.
    pub(crate) fn limit(&self, workspace: &Path, disk_bytes: Option<u64>) -> io::Result<bool> {
        let user = self.of(workspace)?;
        let is_limited = Quotas::of(workspace)?.limit(user, disk_bytes)?;
        Ok(is_limited && disk_bytes.is_some() && self.enforces.load(Ordering::Relaxed))
    }

    /// Returns the bytes that the user of a workspace owns on its disk; `None` if the kernel does not count them.
    pub(crate) fn disk_usage(&self, workspace: &Path) -> Option<u64> {
        let user = self.of(workspace).ok()?;
        Quotas::of(workspace).ok()?.used(user).ok()?
    }

    /// Returns the next free user. IDs are assigned in order, so that the folders need to be scanned only after all IDs
    /// have been assigned once. A user that owns something elsewhere on the disk is skipped, because that would count
    /// against its workspace.
    fn fresh(&self, quotas: &Quotas) -> io::Result<u32> {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || Round { taken: owners(&self.roots), next: self.range.first + 1 };
        for again in [false, true] {
            let round = if again { round.insert(begin()) } else { round.get_or_insert_with(begin) };
            let owns_nothing = |user: &u32| !matches!(quotas.used(*user), Ok(Some(1..)));
            let is_free = |user: &u32| !round.taken.contains(user) && owns_nothing(user);
            if let Some(user) = (round.next..=self.range.last()).find(is_free) {
                round.next = user.saturating_add(1);
                // The user's last workspace may have had a lower limit.
                quotas.limit(user, None)?;
                return Ok(user);
            }
        }
        Err(io::Error::other("all user IDs for sandboxes are in use; shorten workspace-idle"))
    }
}

/// Limits the space that a program's user may own on the disk, like [`Users::limit`], but on a blocking thread: the
/// disk may be slow.
pub(crate) async fn limit_disk(users: &Arc<Users>, spawn: &Spawn) -> io::Result<bool> {
    let (users, workspace, disk_bytes) = (Arc::clone(users), spawn.workspace.clone(), spawn.resources.disk_bytes);
    let limited = tokio::task::spawn_blocking(move || users.limit(&workspace, disk_bytes)).await;
    limited.map_err(io::Error::other)?
}

/// Restricts folders, like [`Users::restrict`], but on a blocking thread.
pub(crate) async fn restrict(users: &Arc<Users>, folders: &[PathBuf]) -> Result<(), SandboxError> {
    let (users, folders) = (Arc::clone(users), folders.to_owned());
    let restricted = move || folders.iter().try_for_each(|folder| users.restrict(folder));
    let restricted = tokio::task::spawn_blocking(restricted).await.map_err(io::Error::other);
    restricted.flatten().map_err(|error| {
        SandboxError::Unavailable(format!("the group of a folder of the service could not be changed: {error}"))
    })
}

/// Returns the result of [`Users::disk_usage`], computed on a blocking thread: the disk may be slow.
pub(crate) async fn disk_usage(users: &Arc<Users>, workspace: &Path) -> Option<u64> {
    let (users, workspace) = (Arc::clone(users), workspace.to_owned());
    // `spawn_blocking` fails only when the runtime shuts down.
    tokio::task::spawn_blocking(move || users.disk_usage(&workspace)).await.ok()?
}

/// Returns the owners of all entries one and two levels below the roots.
fn owners(roots: &[PathBuf]) -> HashSet<u32> {
    let entries = |folder: &Path| folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let below: Vec<PathBuf> = roots.iter().flat_map(|root| entries(root)).collect();
    let further = below.iter().flat_map(|folder| entries(folder));
    let owner = |path: &PathBuf| path.symlink_metadata().ok().map(|meta| meta.uid());
    below.iter().cloned().chain(further).filter_map(|path| owner(&path)).collect()
}

/// Returns the error for a folder whose owner could not be changed. If the kernel does not know the ID, the text says
/// what to do.
fn refused(error: Errno, user: Uid) -> io::Error {
    if error != Errno::INVAL {
        return error.into();
    }
    io::Error::other(format!(
        "the user ID {user} does not exist here, for example in a container with few user IDs; set sandbox-users to \
         IDs that /proc/self/uid_map contains"
    ))
}

/// Changes the owner of a folder and all its content, without following links. Denies all other users access to the
/// folder itself.
fn give(folder: &Path, user: u32, group: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    let top = openat(CWD, folder, flags, Mode::empty())?;
    rustix::fs::fchmod(&top, Mode::RWXU)?;
    rustix::fs::fchown(&top, Some(user), Some(group)).map_err(|error| refused(error, user))?;
    // Open folders by their paths from the top: a descriptor for each level would be too many for some repositories.
    let mut next = vec![PathBuf::from(".")];
    while let Some(path) = next.pop() {
        // A folder may have been replaced by a link in the meantime.
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let mut dir = Dir::new(openat2(&top, &path, flags, Mode::empty(), within)?)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            // Skip entries that already have the owner, so that git does not need to check them again.
            let meta = statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if (meta.st_uid, meta.st_gid) != (user.as_raw(), group.as_raw()) {
                chownat(dir.fd()?, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            if entry.file_type() == FileType::Directory {
                next.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_range_has_no_id_of_the_system_and_none_that_looks_negative() {
        for first in [0, 1000, 65_535, 2_147_418_113, 2_147_483_648, 4_294_900_000, u32::MAX] {
            assert_eq!(UserRange::beginning_with(first), None, "{first}");
        }
        for first in [65_536, UserRange::default().first, 2_147_418_112] {
            let range = UserRange::beginning_with(first).unwrap();
            assert!(range.has(first) && range.has(range.last()) && range.last() <= 2_147_483_647, "{range:?}");
            assert!(!range.has(first - 1) && !range.has(range.last() + 1) && !range.has(65_534), "{range:?}");
        }
        assert_eq!(UserRange { first: u32::MAX, count: 3 }.last(), u32::MAX, "no overflow");
    }

    #[test]
    fn all_users_of_a_range_are_assigned_in_turn() {
        let root = tempfile::tempdir().unwrap();
        let users = Users::new(UserRange { first: 100_000, count: 5 }, vec![root.path().to_owned()]);
        // The users are free again in the next round, because none of them owns a folder.
        let quotas = Quotas::of(root.path()).unwrap();
        let given: Vec<u32> = (0..5).map(|_| users.fresh(&quotas).unwrap()).collect();
        assert_eq!(given, [100_001, 100_002, 100_003, 100_004, 100_001]);
    }

    #[test]
    fn a_user_that_owns_something_elsewhere_on_the_disk_is_skipped() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let quotas = Quotas::of(root.path()).unwrap();
        if quotas.used(200_001).unwrap().is_none() {
            let text = "IGNORED: this kernel has no quotas on the disk of temporary files; nothing was tested";
            let _ = writeln!(std::io::stderr(), "{text}");
            return;
        }
        std::os::unix::fs::chown(elsewhere.path(), Some(200_001), None).unwrap();
        let users = Users::new(UserRange { first: 200_000, count: 5 }, vec![root.path().to_owned()]);
        assert_eq!(users.fresh(&quotas).unwrap(), 200_002);
    }

    #[test]
    fn an_id_that_the_kernel_does_not_know_is_reported_with_the_setting() {
        let text = refused(Errno::INVAL, Uid::from_raw(2_000_000_001)).to_string();
        assert!(text.contains("sandbox-users") && text.contains("2000000001"), "{text}");
        assert_eq!(refused(Errno::PERM, Uid::from_raw(1)).raw_os_error(), Some(Errno::PERM.raw_os_error()));
    }

    #[test]
    fn each_workspace_has_a_separate_user() {
        if !rustix::process::geteuid().is_root() {
            // Only root can change owners.
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().join(name);
            std::fs::create_dir_all(folder.join("a/b")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", folder.join("a/link")).unwrap();
            folder
        };
        let users = || Users::new(UserRange::default(), vec![root.path().to_owned()]);
        let (one, two) = (folder("one/tree"), folder("two/tree"));
        let (first, later) = (users(), users());
        first.give(std::slice::from_ref(&one)).unwrap();
        // A service that has just started knows only the folders.
        later.give(std::slice::from_ref(&two)).unwrap();
        let (a, b) = (first.of(&one).unwrap(), first.of(&two).unwrap());
        assert_ne!(a, b);
        for inner in ["a", "a/b", "a/link"] {
            assert_eq!(one.join(inner).symlink_metadata().unwrap().uid(), a, "{inner}");
        }
        assert_eq!(std::fs::metadata("/etc/passwd").unwrap().uid(), 0, "a link is not followed");
        // A folder that is added later gets the same user.
        let home = folder("one/home");
        later.give(&[one, home.clone()]).unwrap();
        assert_eq!(later.of(&home).unwrap(), a);
        assert!(later.of(root.path()).is_err());
    }

    #[test]
    fn a_restricted_folder_is_open_to_those_who_name_something_in_it() {
        if !rustix::process::geteuid().is_root() {
            // Only root can change groups.
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().join(name);
            std::fs::create_dir_all(folder.join("objects")).unwrap();
            folder
        };
        let (one, two, open) = (folder("one"), folder("two"), folder("open"));
        let users = Users::new(UserRange::default(), Vec::new());
        for folder in [&one, &two, &one] {
            users.restrict(folder).unwrap();
            let metadata = folder.metadata().unwrap();
            assert_eq!((metadata.uid(), metadata.mode() & 0o777), (0, 0o750));
        }
        let of = |folder: &Path| users.groups_of(&[folder.join("objects")]);
        let (first, second) = (of(&one), of(&two));
        assert!(first.len() == 1 && second.len() == 1 && first != second, "{first:?} {second:?}");
        assert!(of(&open).is_empty() && !first.contains(&users.group()));
    }
}
