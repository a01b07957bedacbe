//! Work in folders of the sandbox's user, with the rights of that user.
//!
//! The service may be root. What it writes into a tree or a home is in the middle of what the repository and the agent have
//! put there, so it writes with the rights of the user that the folder belongs to: the kernel refuses what that user may
//! not do, counts the files for its quota, and no file belongs to root at any time.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Runs `work` with the rights of the owner of `folder`, and none of root's, in a thread that ends with it. If the service
/// is not root, or root owns the folder, `work` runs in the calling thread.
///
/// `work` cannot open the service's own files, so the caller opens them before.
///
/// # Errors
/// The error of `work`, or the thread could not be started or change its user.
pub(crate) fn as_owner<T: Send>(folder: &File, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let owner = folder.metadata()?;
    if !geteuid().is_root() || owner.uid() == 0 {
        return work();
    }
    let (user, group) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
    std::thread::scope(|scope| {
        let run = move || {
            set_thread_groups(&[])?;
            set_thread_res_gid(None::<Gid>, group, None::<Gid>)?;
            // A change of the effective user clears the effective capabilities. The real user stays root, so that
            // processes of the user may not send signals to this thread (credentials(7)).
            set_thread_res_uid(None::<Uid>, user, None::<Uid>)?;
            work()
        };
        let thread = std::thread::Builder::new().name("owner".to_owned()).spawn_scoped(scope, run)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that writes for a sandbox's user has panicked")))
    })
}

/// Creates the folder `path`, and gives it to the owner of the folder `like`, who alone may read it. If the service is not
/// root, the folder belongs to the service.
///
/// # Errors
/// The disk failed.
pub(crate) fn create_like(path: &Path, like: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    let owner = like.symlink_metadata()?;
    if geteuid().is_root() && owner.uid() != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
        chown(path, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

/// The user of the tests that need one, which is not a user of the system.
#[cfg(test)]
pub(crate) const TEST_USER: u32 = 100_003;

/// Gives a folder and everything in it to [`TEST_USER`]. Returns false if that is not possible, because only root can.
#[cfg(test)]
pub(crate) fn give_to_test_user(folder: &Path) -> bool {
    if !geteuid().is_root() {
        return false;
    }
    if folder.is_dir() && !folder.is_symlink() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            give_to_test_user(&entry.expect("an entry").path());
        }
    }
    std::os::unix::fs::lchown(folder, Some(TEST_USER), Some(TEST_USER)).expect("a change of the owner");
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::super::beneath::open_folder;
    use super::*;

    #[test]
    fn work_has_the_rights_of_the_owner_and_only_this_thread() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let (own, roots) = (dir.path().join("own"), dir.path().join("roots"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&roots).unwrap();
        if !give_to_test_user(&own) {
            // Only root has other users.
            return;
        }
        let folder = open_folder(&own).unwrap();
        as_owner(&folder, || fs::write(own.join("x"), "x")).unwrap();
        let written = own.join("x").metadata().unwrap();
        assert_eq!((written.uid(), written.gid()), (TEST_USER, TEST_USER));
        let refused = as_owner(&folder, || fs::write(roots.join("x"), "x")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(geteuid().is_root());
        as_owner(&open_folder(&roots).unwrap(), || fs::write(roots.join("x"), "x")).unwrap();
    }

    #[test]
    fn a_folder_is_created_for_the_owner_of_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let (own, new) = (dir.path().join("own"), dir.path().join("new"));
        fs::create_dir(&own).unwrap();
        let is_given = give_to_test_user(&own);
        create_like(&new, &own).unwrap();
        let found = new.metadata().unwrap();
        assert_eq!(found.uid(), if is_given { TEST_USER } else { geteuid().as_raw() });
        assert!(!is_given || found.mode() & 0o7777 == 0o700, "{:o}", found.mode());
    }
}
