//! Programs on a search path.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where a program is on a search path; `None` where it is not, or has a path of its own. By its whole path it is started
/// without a copy of our memory's tables.
pub(crate) fn find(program: &Path, path: &str) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return None;
    }
    let runs =
        |file: &PathBuf| file.metadata().is_ok_and(|note| note.is_file() && note.permissions().mode() & 0o111 != 0);
    path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(program)).find(runs)
}
