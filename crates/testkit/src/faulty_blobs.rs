//! A blob store that fails on request.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use journeyman_core::ports::{Blob, BlobContent, BlobError, Blobs};

/// The way in which a [`FaultyBlobs`] fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobFault {
    /// Writes fail before the file is read.
    Writes,
    /// Writes fail after the file was taken.
    WritesAfterTaking,
    /// Writes succeed, but their answers are lost.
    LostAnswers,
    /// Writes never end.
    EndlessWrites,
    /// Reads and listings fail.
    Reads,
    /// Deletions fail.
    Deletions,
    /// Everything fails.
    Everything,
}

/// A blob store that passes requests on to another one, unless it fails.
pub struct FaultyBlobs {
    inner: Arc<dyn Blobs>,
    fault: Mutex<(Option<BlobFault>, usize)>,
}

impl FaultyBlobs {
    /// Wraps a blob store.
    #[must_use]
    pub fn new(inner: Arc<dyn Blobs>) -> Self {
        Self { inner, fault: Mutex::default() }
    }

    /// Makes the store fail from now on, or work again.
    pub fn set(&self, fault: Option<BlobFault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = (fault, 0);
    }

    /// Returns the number of requests that have failed since the last change.
    pub fn failures(&self) -> usize {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn check(&self, fails_for: &[BlobFault]) -> Result<(), BlobError> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match fault.0.filter(|fault| *fault == BlobFault::Everything || fails_for.contains(fault)) {
            None => Ok(()),
            Some(kind) => {
                fault.1 += 1;
                Err(BlobError(format!("it fails on request: {kind:?}")))
            }
        }
    }
}

#[async_trait]
impl Blobs for FaultyBlobs {
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError> {
        self.check(&[BlobFault::Writes])?;
        if self.check(&[BlobFault::EndlessWrites]).is_err() {
            std::future::pending::<()>().await;
        }
        if let Err(error) = self.check(&[BlobFault::WritesAfterTaking]) {
            std::fs::remove_file(file).unwrap();
            return Err(error);
        }
        self.inner.put(key, file).await?;
        self.check(&[BlobFault::LostAnswers])
    }

    async fn check_writes(&self) -> Result<(), BlobError> {
        self.check(&[BlobFault::Writes, BlobFault::WritesAfterTaking, BlobFault::LostAnswers])?;
        if self.check(&[BlobFault::EndlessWrites]).is_err() {
            std::future::pending::<()>().await;
        }
        self.inner.check_writes().await
    }

    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError> {
        self.check(&[BlobFault::Reads])?;
        self.inner.get(key, file).await
    }

    async fn find(&self, key: &str) -> Result<Option<Blob>, BlobError> {
        self.check(&[BlobFault::Reads])?;
        self.inner.find(key).await
    }

    async fn renew(&self, key: &str) -> Result<bool, BlobError> {
        self.check(&[BlobFault::Writes])?;
        self.inner.renew(key).await
    }

    async fn open(&self, key: &str) -> Result<Option<BlobContent>, BlobError> {
        self.check(&[BlobFault::Reads])?;
        self.inner.open(key).await
    }

    async fn delete(&self, key: &str) -> Result<(), BlobError> {
        self.check(&[BlobFault::Deletions])?;
        self.inner.delete(key).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        self.check(&[BlobFault::Reads])?;
        self.inner.list(prefix, after, limit).await
    }
}
