//! A blob store in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream;
use journeyman_core::ports::{Blob, BlobContent, BlobError, Blobs};
use journeyman_core::time::{Clock, Timestamp};

use crate::World;

/// The size of the pieces in which a blob is read, in bytes.
const PIECE_BYTES: usize = 7;

/// A blob store in memory, whose blobs have the times of a clock.
pub struct MemoryBlobs {
    clock: Arc<World>,
    blobs: Mutex<BTreeMap<String, (Vec<u8>, Timestamp)>>,
}

impl MemoryBlobs {
    /// Creates an empty store.
    #[must_use]
    pub fn new(clock: Arc<World>) -> Self {
        Self { clock, blobs: Mutex::default() }
    }

    /// Stores a blob.
    pub fn insert(&self, key: &str, content: &[u8]) {
        self.locked().insert(key.to_owned(), (content.to_vec(), self.clock.now()));
    }

    /// Returns the keys of all blobs.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.locked().keys().cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, (Vec<u8>, Timestamp)>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Blobs for MemoryBlobs {
    fn is_shared(&self) -> bool {
        true
    }

    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError> {
        self.insert(key, &std::fs::read(file).unwrap());
        std::fs::remove_file(file).unwrap();
        Ok(())
    }

    async fn check_writes(&self) -> Result<(), BlobError> {
        Ok(())
    }

    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError> {
        let content = self.locked().get(key).map(|(content, _)| content.clone());
        Ok(content.map(|content| std::fs::write(file, content).unwrap()).is_some())
    }

    async fn find(&self, key: &str) -> Result<Option<Blob>, BlobError> {
        Ok(self.locked().get(key).map(|found| blob(key, found)))
    }

    async fn renew(&self, key: &str) -> Result<bool, BlobError> {
        let now = self.clock.now();
        Ok(self.locked().get_mut(key).map(|(_, at)| *at = now).is_some())
    }

    async fn open(&self, key: &str) -> Result<Option<BlobContent>, BlobError> {
        let content = self.locked().get(key).map(|(content, _)| content.clone());
        let open = |content: Vec<u8>| {
            let pieces: Vec<_> = content.chunks(PIECE_BYTES).map(<[u8]>::to_vec).collect();
            let body = stream::iter(pieces.into_iter().map(|piece| Ok(piece.into())));
            BlobContent { bytes: content.len() as u64, body: Box::pin(body) }
        };
        Ok(content.map(open))
    }

    async fn delete(&self, key: &str) -> Result<(), BlobError> {
        self.locked().remove(key);
        Ok(())
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        let blobs = self.locked();
        let below = format!("{prefix}/");
        let is_listed = |key: &str| key.starts_with(&below) && after.is_none_or(|after| key > after);
        let listed = blobs.iter().filter(|(key, _)| is_listed(key)).take(limit);
        Ok(listed.map(|(key, found)| blob(key, found)).collect())
    }
}

fn blob(key: &str, (content, written_at): &(Vec<u8>, Timestamp)) -> Blob {
    Blob { key: key.to_owned(), bytes: content.len() as u64, written_at: *written_at }
}
