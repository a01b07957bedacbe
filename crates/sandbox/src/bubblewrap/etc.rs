//! The `/etc` of sandboxes. It is a separate folder, because programs need little of the host's, and each mount costs a
//! sandbox time.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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

/// Writes the folder as the host's is now. Keeps an existing folder unless `renew` is set.
pub(super) fn write(folder: &Path, renew: bool) -> io::Result<()> {
    if !renew && folder.join(FOLDER).is_dir() {
        return Ok(());
    }
    let (place, draft) = (folder.join(FOLDER), folder.join(format!("{FOLDER}.{}", std::process::id())));
    // A failed attempt may have left a draft, and the copy cannot overwrite read-only files.
    remove(&draft)?;
    std::fs::create_dir_all(&draft)?;
    for name in COPIED {
        copy(&Path::new("/etc").join(name), &draft.join(name))?;
    }
    for (name, text) in WRITTEN {
        std::fs::write(draft.join(name), text)?;
    }
    open_for_all(folder)?;
    open_for_all(&draft)?;
    // A rename cannot replace a folder that is not empty.
    let old = folder.join(format!("{FOLDER}.old.{}", std::process::id()));
    remove(&old)?;
    let had_one = std::fs::rename(&place, &old).is_ok();
    let renamed = match std::fs::rename(&draft, &place) {
        // Another process was first.
        Err(_) if place.is_dir() => std::fs::remove_dir_all(draft),
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
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(kind) = from.symlink_metadata().map(|meta| meta.file_type()) else { return Ok(()) };
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if kind.is_symlink() {
        std::os::unix::fs::symlink(std::fs::read_link(from)?, to)?;
    } else if kind.is_dir() && from.file_name().is_some_and(|name| name != PRIVATE) {
        std::fs::create_dir_all(to)?;
        for entry in from.read_dir()?.flatten() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
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
