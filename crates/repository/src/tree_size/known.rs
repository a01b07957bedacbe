//! A cache of what is known about the trees of commits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ids::Sha;

use crate::lfs::LfsTree;

/// The maximum number of cached sizes.
const CACHED: usize = 1000;

/// What is known about trees that were counted completely. A commit never changes, so it stays valid. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TreeSizes(Arc<Mutex<HashMap<Sha, Facts>>>);

/// What is known about a tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) bytes: u64,
    /// The IDs of the files with attributes.
    pub(super) attributes: Arc<[String]>,
    /// The paths of the pointers of submodules.
    pub(super) pointers: Arc<[Vec<u8>]>,
    /// The files in Git LFS, if they were looked for.
    pub(super) lfs: Option<Arc<LfsTree>>,
}

impl TreeSizes {
    pub(super) fn known(&self, commit: &Sha) -> Option<Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(commit).cloned()
    }

    pub(super) fn remember(&self, commit: &Sha, facts: Facts) {
        let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sizes.len() >= CACHED {
            sizes.clear();
        }
        sizes.insert(commit.clone(), facts);
    }

    /// Returns the files of a commit in Git LFS, if they are known.
    pub(crate) fn lfs(&self, commit: &Sha) -> Option<Arc<LfsTree>> {
        self.known(commit)?.lfs
    }

    /// Records the files of a commit in Git LFS.
    pub(crate) fn remember_lfs(&self, commit: &Sha, tree: &Arc<LfsTree>) {
        let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = sizes.get_mut(commit) {
            facts.lfs = Some(Arc::clone(tree));
        }
    }
}
