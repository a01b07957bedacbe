//! Finds programs on a search path.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the path of a program on a search path; `None` if the program is not found, or is already given by a path.
///
/// The standard library starts a program that is given by its full path without a copy of this process's page tables
/// (posix_spawn(3)).
pub(crate) fn find(program: &Path, path: &str) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return None;
    }
    let runs =
        |file: &PathBuf| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(program)).find(runs)
}
