//! Submodules: the repositories that a repository has inside.
//!
//! | module | task |
//! |---|---|
//! | [`sources`] | decides which repositories a project may read, and fetches them into mirrors |
//! | [`find`] | finds the submodules of a commit, recursively |
//! | [`fill`] | fills the folders of a tree, in the sandbox |
//! | [`pointers`] | decides which pointers of a turn are published |
//!
//! Invariants:
//!
//! - `.gitmodules` is data: git on the host parses its bytes, and nothing that it names is run.
//! - Git on the host never runs in a tree. A submodule is filled in the sandbox, from the objects of a mirror, which
//!   programs there can read.
//! - The project's credential is sent to the server of the project's repository only, and only for repositories that
//!   people have named.

pub(crate) mod fill;
pub(crate) mod find;
pub(crate) mod pointers;
pub(crate) mod sources;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use journeyman_core::ids::Sha;
use serde::{Deserialize, Serialize};

/// The state of the submodules of a tree between two turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmoduleState {
    /// The submodules that are filled, by path, including those in submodules.
    pub(crate) filled: BTreeMap<String, Filled>,
    /// The pointers of the commit for which the service has filled the tree, by path. Some of them may not be filled.
    pub(crate) pointers: BTreeMap<String, Sha>,
}

/// A submodule that is filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filled {
    /// The commit that it has checked out, as the service knows.
    pub(crate) head: Sha,
    /// The objects of its mirror.
    pub(crate) objects: PathBuf,
}

impl SubmoduleState {
    /// Returns the objects of all mirrors that the submodules use.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &PathBuf> {
        self.filled.values().map(|filled| &filled.objects)
    }
}
