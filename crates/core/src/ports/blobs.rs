//! Files that outlive a machine: the homes of agents between turns, and commits that are not on the code host yet.

use std::path::Path;

use async_trait::async_trait;

use crate::time::Timestamp;

/// Why a blob could not be kept or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the blob store failed: {0}")]
pub struct BlobError(pub String);

/// A blob in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its key.
    pub key: String,
    /// When it was written.
    pub written_at: Timestamp,
}

/// A flat space of files by key: words of `[A-Za-z0-9._-]` with slashes between. A key is written once.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Whether other machines read what this one writes.
    fn is_shared(&self) -> bool;

    /// Keeps the content of `file`, which is gone afterwards. It is there after a power failure when this returns.
    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError>;

    /// Writes the content to `file`; false if there is no such blob.
    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError>;

    /// Removes a blob; one that is not there is fine.
    async fn delete(&self, key: &str) -> Result<(), BlobError>;

    /// Blobs whose keys begin with the folder `prefix` (a slash follows it), in the order of their keys: at most `limit`
    /// behind `after`.
    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Blob>, BlobError>;
}
