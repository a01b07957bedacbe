//! Tests of the objects of Git LFS.

#![expect(clippy::unwrap_used, clippy::cloned_ref_to_slice_refs, reason = "tests")]

#[path = "lfs/fixtures.rs"]
mod fixtures;
#[path = "lfs/folder.rs"]
mod folder;
#[path = "lfs/hosted.rs"]
mod hosted;
#[path = "lfs/http.rs"]
mod http;
#[path = "lfs/keeper.rs"]
mod keeper;
