//! The entries of a commit's tree at single paths.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use journeyman_core::ids::Sha;

use crate::{Mirror, RepositoryError};

/// The number of paths in one call of git. Each has at most 4096 bytes.
const AT_ONCE: usize = 200;

impl Mirror {
    /// Returns the entries of a commit at these paths, as far as there are some: their modes, types and objects, as git
    /// prints them. Paths are bytes, and not patterns.
    ///
    /// # Errors
    /// Git failed.
    pub async fn tree_entries(
        &self,
        commit: &Sha,
        paths: &[PathBuf],
    ) -> Result<HashMap<PathBuf, Vec<u8>>, RepositoryError> {
        let mut entries = HashMap::new();
        for paths in paths.chunks(AT_ONCE) {
            let fixed = ["ls-tree", "-z", "--full-tree", commit.as_str(), "--"].map(OsString::from);
            let arguments = fixed.into_iter().chain(paths.iter().map(|path| path.clone().into_os_string()));
            let output = self.git.at(&self.path, arguments).env("GIT_LITERAL_PATHSPECS", "1").run().await?.stdout;
            for entry in output.split(|byte| *byte == 0) {
                let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
                let (head, path) = entry.split_at(tab);
                entries.insert(PathBuf::from(OsStr::from_bytes(path.get(1..).unwrap_or_default())), head.to_vec());
            }
        }
        Ok(entries)
    }
}
