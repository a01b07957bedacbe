//! Tests of the objects of Git LFS.

#[path = "lfs/folder.rs"]
mod folder;
#[path = "lfs/given.rs"]
mod given;
#[path = "lfs/hosted.rs"]
mod hosted;
#[path = "lfs/http.rs"]
mod http;
