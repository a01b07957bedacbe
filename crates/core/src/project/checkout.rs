//! The settings of a project for the content that a checkout has beside the commit's own files.

use serde::{Deserialize, Serialize};

/// The settings of checkouts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckoutSettings {
    /// The treatment of submodules.
    pub submodules: Submodules,
    /// The treatment of files in Git LFS.
    pub lfs: Lfs,
}

/// The treatment of submodules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Submodules {
    /// The folders of submodules are empty.
    Off,
    /// Submodules are filled, and agents can read them.
    #[default]
    Read,
}

/// The treatment of files in Git LFS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lfs {
    /// The files have their pointers as content.
    Off,
    /// The content of the files is fetched.
    #[default]
    Fetch,
}
