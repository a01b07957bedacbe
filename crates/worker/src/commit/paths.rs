//! Paths in the output of git.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns the paths of a list, each of which ends with NUL.
pub(super) fn paths_in(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    list.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of)
}

/// Returns a path of git, whose bytes need not be UTF-8.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
