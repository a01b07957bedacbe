//! Stores for files that outlive a machine: [`Folder`] on this machine (or on a disk that machines share), [`Bucket`]
//! in S3, Google Cloud Storage, Azure Blob Storage or a compatible service.

mod bucket;
mod folder;

pub use bucket::{Bucket, BucketError};
pub use folder::Folder;
