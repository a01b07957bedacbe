//! Removes files that are no longer needed: workspaces of inactive jobs, blobs, and the files of a run that filled
//! the disk.

pub(crate) mod blobs;
pub(crate) mod discard;
pub(crate) mod workspaces;
