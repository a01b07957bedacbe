//! A path to the program that the users of sandboxes can access. If the build directory is in a folder that other users
//! cannot pass, such as root's home, the tests use a copy, as `serve` does for its sandboxes.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The path of the program in the build directory.
const BUILT: &str = env!("CARGO_BIN_EXE_journeyman");

/// The prefix of the names of folders with copies. The ID of the process that created the copy follows it.
const PREFIX: &str = "journeyman-test-program-";

/// Returns a path to the program that all users can access.
pub(crate) fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        if others_can_run(Path::new(BUILT)) {
            return BUILT.to_owned();
        }
        remove_old_copies();
        copy().to_str().unwrap().to_owned()
    });
    &PROGRAM
}

fn others_can_run(program: &Path) -> bool {
    let open = |path: &Path, bits| path.metadata().is_ok_and(|note| note.mode() & bits == bits);
    program.ancestors().skip(1).all(|dir| open(dir, 0o001)) && open(program, 0o005)
}

fn copy() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let path = folder.join("journeyman");
    if std::fs::hard_link(BUILT, &path).is_err() {
        std::fs::copy(BUILT, &path).unwrap();
    }
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// Removes the copies of processes that have ended. A test process cannot remove its own copy when it ends.
fn remove_old_copies() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if !Path::new("/proc").join(process).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
