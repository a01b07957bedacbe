//! The store for files that must outlive a machine: the homes of agents between turns, commits that are not on the code
//! host yet, and the objects of Git LFS of the built-in code host.

use std::path::Path;

use async_trait::async_trait;

use super::GitBody;
use crate::time::Timestamp;

/// An error from the blob store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the blob store failed: {0}")]
pub struct BlobError(pub String);

/// A blob without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The key.
    pub key: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The time at which the blob was written.
    pub written_at: Timestamp,
}

/// The content of a blob.
pub struct BlobContent {
    /// The size in bytes.
    pub bytes: u64,
    /// The content.
    pub body: GitBody,
}

/// A flat store of files by key. A key consists of words of `[A-Za-z0-9._-]` with slashes between them, and is written
/// only once.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Returns whether other machines can read what this machine writes.
    fn is_shared(&self) -> bool;

    /// Stores the content of `file` and removes `file`. When this returns, the blob survives a power failure.
    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError>;

    /// Checks whether blobs can be written now: writes a few bytes, as durably as a blob. Nothing of it is listed.
    async fn check_writes(&self) -> Result<(), BlobError>;

    /// Writes the content of a blob to `file`. Returns false if there is no such blob.
    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError>;

    /// Returns a blob; `None` if there is no such blob. Its time is the later one of the times at which it was written and
    /// renewed.
    async fn find(&self, key: &str) -> Result<Option<Blob>, BlobError>;

    /// Renews a blob: its time is now. Returns false if there is no such blob.
    async fn renew(&self, key: &str) -> Result<bool, BlobError>;

    /// Opens a blob to read it; `None` if there is no such blob.
    async fn open(&self, key: &str) -> Result<Option<BlobContent>, BlobError>;

    /// Removes a blob, if it exists.
    async fn delete(&self, key: &str) -> Result<(), BlobError>;

    /// Lists the blobs in the folder `prefix` (without a trailing slash), in the order of their keys: at most `limit`
    /// blobs whose keys come after `after`. The listing may not show that a blob was renewed.
    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Blob>, BlobError>;
}
