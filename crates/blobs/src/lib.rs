//! Where files are kept that outlive a machine: [`Folder`] on this one (or on a disk that machines share), [`Bucket`] in
//! S3, Google Cloud Storage, Azure Blob Storage or what speaks like one of them.

mod bucket;
mod folder;

pub use bucket::{Bucket, BucketError};
pub use folder::Folder;
