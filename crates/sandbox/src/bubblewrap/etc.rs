//! The `/etc` of sandboxes. It is a separate folder, because programs need little of the host's, and each mount costs a
//! sandbox time. Only the folders with hundreds of links are mounted: a copy of them takes 0.3 s of processor time.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder's name in the folder of the back end.
pub(super) const FOLDER: &str = "etc";

/// The entries that are copied from the host: library paths, certificates, the time zone. None of them is secret, and
/// none names users or hosts.
const COPIED: [&str; 9] = [
    "alternatives",
    "ca-certificates",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "pki/tls/certs",
    "ssl",
];

/// The folders in them that are mounted from the host instead, if sandboxes have other users than the service, and all
/// users may read them.
const MOUNTED: [&str; 2] = ["alternatives", "ssl/certs"];

/// A folder in `ssl` that not all users may read.
const PRIVATE: &str = "private";

/// The files that the service writes, with their content.
const WRITTEN: [(&str, &str); 4] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/bin/sh\n",
    ),
    ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
];

/// Writes the folder as the host's is now. Keeps an existing folder unless `renew` is set. Returns the folders of the
/// host that must be mounted in it.
pub(super) fn write(folder: &Path, renew: bool) -> io::Result<Vec<PathBuf>> {
    // Without other users, a file that is added later and that not all users may read would be readable in sandboxes.
    let has_users = rustix::process::geteuid().is_root();
    let host = Path::new("/etc");
    let mut mounted: Vec<PathBuf> =
        MOUNTED.iter().filter(|name| has_users && is_public(host, name)).map(|name| host.join(name)).collect();
    if renew || !folder.join(FOLDER).is_dir() {
        replace(folder, &mounted)?;
    }
    // A folder can be mounted only on a folder.
    mounted.retain(|path| {
        let target = path.strip_prefix(host).map(|name| folder.join(FOLDER).join(name));
        target.is_ok_and(|target| mode_of_folder(&target).is_some())
    });
    Ok(mounted)
}

/// Returns whether a folder below `parent` is not behind a link, all users may list it, and it has only links, and files
/// that all users may read.
fn is_public(parent: &Path, name: &str) -> bool {
    let folder = parent.join(name);
    let is_reachable = folder
        .ancestors()
        .take_while(|path| *path != parent)
        .all(|path| mode_of_folder(path).is_some_and(|mode| mode & 0o005 == 0o005));
    let Ok(mut entries) = folder.read_dir() else { return false };
    is_reachable
        && entries.all(|entry| {
            let Ok(meta) = entry.and_then(|entry| entry.metadata()) else { return false };
            meta.is_symlink() || (meta.is_file() && meta.permissions().mode() & 0o004 != 0)
        })
}

/// Returns the permissions of a folder; `None` if the path leads to something else, or is a link.
fn mode_of_folder(path: &Path) -> Option<u32> {
    let meta = path.symlink_metadata().ok()?;
    meta.is_dir().then(|| meta.permissions().mode())
}

/// Writes the folder, with empty folders where folders of the host are mounted.
fn replace(folder: &Path, mounted: &[PathBuf]) -> io::Result<()> {
    let (path, draft) = (folder.join(FOLDER), folder.join(format!("{FOLDER}.{}", std::process::id())));
    // A failed attempt may have left a draft, and the copy cannot overwrite read-only files.
    remove(&draft)?;
    std::fs::create_dir_all(&draft)?;
    for name in COPIED {
        copy(&Path::new("/etc").join(name), &draft.join(name), mounted)?;
    }
    for (name, text) in WRITTEN {
        std::fs::write(draft.join(name), text)?;
    }
    open_for_all(folder)?;
    open_for_all(&draft)?;
    // A rename cannot replace a folder that is not empty.
    let old = folder.join(format!("{FOLDER}.old.{}", std::process::id()));
    remove(&old)?;
    let had_one = std::fs::rename(&path, &old).is_ok();
    let renamed = match std::fs::rename(&draft, &path) {
        // Another process was first.
        Err(_) if path.is_dir() => std::fs::remove_dir_all(draft),
        renamed => renamed,
    };
    if had_one {
        remove(&old)?;
    }
    renamed
}

fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies an entry if it exists and all users may read it. Links stay links, and all users may read the copied folders.
/// Folders that are mounted stay empty.
fn copy(from: &Path, to: &Path, mounted: &[PathBuf]) -> io::Result<()> {
    let Ok(kind) = from.symlink_metadata().map(|meta| meta.file_type()) else { return Ok(()) };
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if kind.is_symlink() {
        std::os::unix::fs::symlink(std::fs::read_link(from)?, to)?;
    } else if kind.is_dir() && from.file_name().is_some_and(|name| name != PRIVATE) {
        std::fs::create_dir_all(to)?;
        if !mounted.iter().any(|path| path == from) {
            for entry in from.read_dir()?.flatten() {
                copy(&entry.path(), &to.join(entry.file_name()), mounted)?;
            }
        }
        open_for_all(to)?;
    } else if kind.is_file() && from.metadata()?.permissions().mode() & 0o004 != 0 {
        std::fs::copy(from, to)?;
    }
    Ok(())
}

fn open_for_all(folder: &Path) -> io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_library_paths_and_a_user_and_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            write(dir.path(), true).unwrap();
            let etc = dir.path().join(FOLDER);
            assert!(etc.join("ld.so.cache").exists());
            assert!(!etc.join("ssl/private").exists());
            assert!(!etc.join("shadow").exists());
            let users = std::fs::read_to_string(etc.join("passwd")).unwrap();
            assert!(users.contains("agent:x:1000") && users.lines().count() == 3, "{users}");
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn only_folders_that_all_users_may_read_are_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("ssl/certs");
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.join("link")).unwrap();
        let file = folder.join("file");
        std::fs::write(&file, "x").unwrap();
        let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let is_mounted = || is_public(dir.path(), "ssl/certs");
        for (path, closed, open) in
            [(&file, 0o640, 0o644), (&folder, 0o750, 0o755), (&dir.path().join("ssl"), 0o750, 0o755)]
        {
            set(path, closed);
            assert!(!is_mounted(), "{} with mode {closed:o}", path.display());
            set(path, open);
            assert!(is_mounted(), "{} with mode {open:o}", path.display());
        }
        std::fs::create_dir(folder.join("inner")).unwrap();
        assert!(!is_mounted(), "a folder in it");
        std::os::unix::fs::symlink("ssl", dir.path().join("linked")).unwrap();
        std::fs::remove_dir(folder.join("inner")).unwrap();
        assert!(is_mounted() && !is_public(dir.path(), "linked/certs"), "a link to it");
        assert!(!is_public(dir.path(), "missing"));
    }

    #[test]
    fn leftovers_of_a_failed_attempt_cause_no_other_failure() {
        let dir = tempfile::tempdir().unwrap();
        let [draft, old] = ["etc", "etc.old"].map(|name| dir.path().join(format!("{name}.{}", std::process::id())));
        // A folder in place of a file makes the copy fail for root too, as a read-only file does for other users.
        std::fs::create_dir_all(draft.join("passwd")).unwrap();
        std::fs::create_dir_all(old.join("inner")).unwrap();
        write(dir.path(), true).unwrap();
        write(dir.path(), true).unwrap();
        assert!(dir.path().join(FOLDER).join("passwd").is_file());
        assert_eq!(dir.path().read_dir().unwrap().count(), 1, "no draft is left");
    }
}
