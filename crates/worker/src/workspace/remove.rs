//! Removes folders that an agent had access to. They may deny us access, and they may be nested more deeply than file
//! descriptors or the stack allow (`std::fs::remove_dir_all` failed with 60,000 nested folders).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, Mode, OFlags, chmod, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Removes a folder with everything in it; a missing folder is not an error. The targets of links are not touched.
pub(crate) async fn remove_folder(path: &Path) -> io::Result<()> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || remove(&path)).await.map_err(io::Error::other)?
}

fn remove(path: &Path) -> io::Result<()> {
    remove_at(CWD, path)
}

/// Removes an entry of an open folder, of any kind, like [`remove_folder`].
pub(crate) fn remove_at(parent: impl AsFd, name: impl Arg + Copy) -> io::Result<()> {
    match unlinkat(&parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {
            Removal { top: open(&parent, name)?, moved: 0 }.empty()?;
            Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
        }
        done => Ok(done?),
    }
}

/// A folder that is being emptied. The subfolders of its folders are moved up into it, so that no more than two folders
/// are open.
struct Removal {
    top: OwnedFd,
    /// The counter for the names of moved folders.
    moved: u64,
}

impl Removal {
    fn empty(&mut self) -> io::Result<()> {
        while let Some(entries) = entries(&self.top)? {
            for entry in entries {
                let name = entry?;
                let name = name.file_name();
                if !unlinked(&self.top, name)? {
                    let folder = open(&self.top, name)?;
                    self.flatten(&folder)?;
                    unlinkat(&self.top, name, AtFlags::REMOVEDIR)?;
                }
            }
        }
        Ok(())
    }

    /// Empties a folder, and moves its subfolders up.
    fn flatten(&mut self, folder: &OwnedFd) -> io::Result<()> {
        while let Some(entries) = entries(folder)? {
            for entry in entries {
                let name = entry?;
                let name = name.file_name();
                if !unlinked(folder, name)? {
                    // A folder that is not writable cannot be moved. Opening it makes it writable.
                    open(folder, name)?;
                    self.move_up(folder, name)?;
                }
            }
        }
        Ok(())
    }

    fn move_up(&mut self, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
        loop {
            self.moved += 1;
            match renameat(folder, name, &self.top, format!("moved-{}", self.moved)) {
                // The agent has created an entry with that name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                done => return Ok(done?),
            }
        }
    }
}

/// Returns the entries of a folder; `None` if it is empty. Removing entries may hide others from this listing; the next
/// call returns them.
fn entries(folder: &OwnedFd) -> io::Result<Option<impl Iterator<Item = rustix::io::Result<DirEntry>> + use<>>> {
    let is_own = |name: &CStr| name == c"." || name == c"..";
    let mut entries =
        Dir::read_from(folder)?.filter(move |entry| !entry.as_ref().is_ok_and(|it| is_own(it.file_name())));
    let first = entries.next();
    Ok(first.map(|first| std::iter::once(first).chain(entries)))
}

/// Removes an entry that is not a folder. Returns false if the entry is a folder.
fn unlinked(folder: &OwnedFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder, and makes it readable and writable.
pub(crate) fn open(parent: impl AsFd, name: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptor = openat(parent, name, flags, Mode::empty())?;
    // Use the descriptor, because the name may be a link to another folder by now.
    chmod(format!("/proc/self/fd/{}", descriptor.as_raw_fd()), Mode::RWXU)?;
    Ok(openat(&descriptor, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn closed_folders_odd_names_and_links_are_removed_but_the_targets_of_links_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (host, tree) = (dir.path().join("host"), dir.path().join("tree"));
        std::fs::create_dir_all(host.join("kept")).unwrap();
        std::fs::create_dir_all(tree.join("a/b/moved-1")).unwrap();
        std::fs::create_dir_all(tree.join("moved-2/full")).unwrap();
        std::fs::write(tree.join("moved-3"), "").unwrap();
        std::fs::write(tree.join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink(&host, tree.join("a/link")).unwrap();
        for (folder, mode) in [("a/b", 0o555), ("a", 0o000)] {
            std::fs::set_permissions(tree.join(folder), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        remove_folder(&tree).await.unwrap();
        assert!(!tree.exists() && host.join("kept").is_dir());
        remove_folder(&tree).await.unwrap();
        std::os::unix::fs::symlink("/nowhere", &tree).unwrap();
        remove_folder(&tree).await.unwrap();
        assert!(tree.symlink_metadata().is_err(), "a link without a target is removed too");
        assert!(remove_folder(&dir.path().join("host/kept/no\0name")).await.is_err());
    }

    #[tokio::test]
    async fn folders_nested_more_deeply_than_any_path_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mut folder = open(CWD, &tree).unwrap();
        for _ in 0..20_000 {
            rustix::fs::mkdirat(&folder, c"d", Mode::RWXU).unwrap();
            folder = open(&folder, c"d").unwrap();
        }
        remove_folder(&tree).await.unwrap();
        assert!(!tree.exists());
    }
}
