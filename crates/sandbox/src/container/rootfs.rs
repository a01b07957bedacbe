//! Checks the files of a running container from outside, before anything of the image has run in it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use journeyman_core::ports::SandboxError;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::process::Pid;

use super::order::Order;
use super::runtime;
use super::shim_socket;
use super::{SEARCH, unavailable};
use crate::bubblewrap::{HOME, WORKSPACE};

/// The shell that runs setup commands and the script that makes commits.
const SHELL: &str = "/bin/sh";

/// Checks the files of an order's container through the container's first process.
pub(super) fn check(first: Pid, order: &Order<'_>) -> Result<(), SandboxError> {
    let root = PathBuf::from(format!("/proc/{}/root", first.as_raw_pid()));
    let root = openat(CWD, &root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|error| unavailable("the files of a container could not be inspected", &error.into()))?;
    is_as_ordered(&root, order)?;
    let path = order.image.environment.get("PATH").map_or(SEARCH, String::as_str);
    has_programs(&root, &order.image.name, path)
}

/// Checks that our mounts are at their paths. Engines follow links in an image, so one of our folders may have been
/// mounted over another, and a program of the image may have replaced the shim.
fn is_as_ordered(root: &OwnedFd, order: &Order<'_>) -> Result<(), SandboxError> {
    for (there, ours) in [
        (runtime::INSIDE, order.runtime.folder.clone()),
        ("/etc/ld.so.preload", order.runtime.folder.join("nothing")),
        (shim_socket::INSIDE, order.socket.folder().to_owned()),
        (HOME, order.spawn.home.clone()),
        (WORKSPACE, order.spawn.workspace.clone()),
    ] {
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        let found = openat2(root, there, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within);
        let stat = found.and_then(fstat).map_err(io::Error::from);
        let ours =
            ours.metadata().map_err(|error| unavailable("a folder for a container could not be inspected", &error))?;
        if !stat.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (ours.dev(), ours.ino())) {
            return Err(SandboxError::ImageRefused(format!(
                "the image {} has something else at {there}, such as a link; use another image",
                order.image.name
            )));
        }
    }
    Ok(())
}

/// Checks that the image has the programs with which commits are made. Without them, a turn would be lost at its end.
fn has_programs(root: &OwnedFd, image: &str, path: &str) -> Result<(), SandboxError> {
    let remedy = "use another image (sandbox.image of the project, or container-image of the server)";
    if !is_program(root, Path::new(SHELL)) {
        return Err(SandboxError::ImageRefused(format!("the image {image} has no shell at {SHELL}; {remedy}")));
    }
    if !path.split(':').any(|folder| is_program(root, &Path::new(folder).join("git"))) {
        return Err(SandboxError::ImageRefused(format!(
            "the image {image} has no git in its search path ({path}), but git is needed to commit the changes \
             of a turn; add git to the image, or {remedy}"
        )));
    }
    Ok(())
}

/// Returns whether the path leads to an executable file. Links are followed within the image.
fn is_program(root: &OwnedFd, path: &Path) -> bool {
    let found = openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT);
    let stat = found.and_then(fstat);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_mode & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn an_image_without_a_shell_or_git_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, mode: u32| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let root = || OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let judge = |path: &str| has_programs(&root(), "x:1", path).map_err(|error| error.to_string());
        assert!(judge("/bin").unwrap_err().contains("x:1 has no shell at /bin/sh"));
        put("bin/busybox", 0o755);
        symlink("/bin/busybox", dir.path().join("bin/sh")).unwrap();
        assert!(judge("/usr/bin:/bin").unwrap_err().contains("no git in its search path (/usr/bin:/bin)"));
        // A file that is not executable does not count, nor does a program of the host.
        put("bin/git", 0o644);
        symlink("../../../../../../../../usr/bin/env", dir.path().join("bin/env")).unwrap();
        assert!(judge("/bin").is_err());
        assert!(!is_program(&root(), Path::new("/bin/env")), "a link does not lead out of the image");
        put("nix/store/git", 0o755);
        std::fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
        symlink("/nix/store/git", dir.path().join("usr/bin/git")).unwrap();
        assert_eq!(judge("/usr/bin:/bin"), Ok(()));
    }
}
