//! The files of a commit in Git LFS.

use std::path::PathBuf;

use journeyman_core::lfs::Pointer;

/// A file in Git LFS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LfsFile {
    /// The path in the repository.
    pub path: PathBuf,
    /// The object with its content.
    pub pointer: Pointer,
}

/// The files of a commit in Git LFS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LfsTree {
    /// True if an attribute of the commit may put files into Git LFS.
    pub is_used: bool,
    /// The files whose content is a pointer, in the order of their paths.
    pub files: Vec<LfsFile>,
    /// The setting that names another server for the objects than the code host of the repository.
    pub other_server: Option<String>,
}
