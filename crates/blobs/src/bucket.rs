//! Blobs in an object store.

#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
mod connector;
mod provider;

use std::path::Path;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use journeyman_core::ports::{Blob, BlobContent, BlobError, Blobs};
use journeyman_core::time::Timestamp;
use object_store::buffered::BufWriter;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutPayload};
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use url::Url;

/// The folder with the times at which blobs were renewed.
const RENEWED: &str = "renewed";

/// The key of the object that checks of writes replace.
const CHECK: &str = "check/writes";

/// A bucket of an object store, or a folder in a bucket.
#[derive(Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    root: ObjectPath,
}

/// An error in the URL or in the options of an object store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the object store cannot be used: {0}")]
pub struct BucketError(String);

impl Bucket {
    /// Opens the bucket at `url`: `s3://bucket/folder`, `gs://bucket/folder`, `az://container/folder`. `options` are
    /// the variables that the providers' own programs use, such as `AWS_ENDPOINT`; others are ignored.
    ///
    /// # Errors
    /// Returns an error if the URL has another form, if the program was built without this provider, or if the value of
    /// an option is invalid.
    pub fn open(url: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Self, BucketError> {
        let url = Url::parse(url).map_err(|error| BucketError(error.to_string()))?;
        let (scheme, root) = ObjectStoreScheme::parse(&url).map_err(|error| BucketError(error.to_string()))?;
        let store = provider::open(&scheme, &url, options)?;
        Ok(Self { store, root })
    }

    fn object_path(&self, key: &str) -> ObjectPath {
        key.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Returns the path of the empty object whose time is that of a blob's last renewal.
    fn renewal(&self, key: &str) -> ObjectPath {
        self.object_path(&format!("{RENEWED}/{key}"))
    }

    /// Returns the size of an object in bytes and its time; `None` if it does not exist.
    async fn head(&self, path: &ObjectPath) -> Result<Option<(u64, Timestamp)>, BlobError> {
        match self.store.head(path).await {
            Ok(found) => Ok(Some(described(&found))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the key of an object, without the bucket's folder.
    fn key(&self, path: &ObjectPath) -> Option<String> {
        let parts: Vec<String> = path.prefix_match(&self.root)?.map(|part| part.as_ref().to_owned()).collect();
        Some(parts.join("/"))
    }
}

#[async_trait]
impl Blobs for Bucket {
    fn is_shared(&self) -> bool {
        true
    }

    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError> {
        let mut source = File::open(file).await.map_err(failed)?;
        // Large files are uploaded in parts; only a few of the parts are in memory at a time.
        let mut writer = BufWriter::new(Arc::clone(&self.store), self.object_path(key));
        if let Err(error) = tokio::io::copy(&mut source, &mut writer).await {
            // The parts that were uploaded would be kept, and paid for, until a rule of the bucket removes them.
            let _ = writer.abort().await;
            return Err(failed(error));
        }
        writer.shutdown().await.map_err(failed)?;
        tokio::fs::remove_file(file).await.map_err(failed)
    }

    async fn check_writes(&self) -> Result<(), BlobError> {
        let content = PutPayload::from_static(b"writes work");
        self.store.put(&self.object_path(CHECK), content).await.map_err(failed)?;
        Ok(())
    }

    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError> {
        let found = match self.store.get(&self.object_path(key)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let mut target = File::create(file).await.map_err(failed)?;
        let mut bytes = found.into_stream();
        while let Some(part) = bytes.next().await {
            target.write_all(&part.map_err(failed)?).await.map_err(failed)?;
        }
        target.flush().await.map_err(failed)?;
        Ok(true)
    }

    async fn find(&self, key: &str) -> Result<Option<Blob>, BlobError> {
        let Some((bytes, written_at)) = self.head(&self.object_path(key)).await? else { return Ok(None) };
        let renewed = self.head(&self.renewal(key)).await?;
        let written_at = renewed.map_or(written_at, |(_, at)| at.max(written_at));
        Ok(Some(Blob { key: key.to_owned(), bytes, written_at }))
    }

    async fn renew(&self, key: &str) -> Result<bool, BlobError> {
        if self.head(&self.object_path(key)).await?.is_none() {
            return Ok(false);
        }
        // Stores cannot change the time of an object, and not all of them can copy a large one onto itself.
        self.store.put(&self.renewal(key), PutPayload::default()).await.map_err(failed)?;
        Ok(true)
    }

    async fn open(&self, key: &str) -> Result<Option<BlobContent>, BlobError> {
        match self.store.get(&self.object_path(key)).await {
            Ok(found) => {
                let bytes = found.meta.size;
                Ok(Some(BlobContent { bytes, body: Box::pin(found.into_stream().map_err(std::io::Error::other)) }))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn delete(&self, key: &str) -> Result<(), BlobError> {
        for path in [self.object_path(key), self.renewal(key)] {
            match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        let prefix = self.object_path(prefix);
        let listing = match after {
            Some(after) => self.store.list_with_offset(Some(&prefix), &self.object_path(after)),
            None => self.store.list(Some(&prefix)),
        };
        let found: Vec<_> = listing.take(limit).try_collect().await.map_err(failed)?;
        let blob = |object: &object_store::ObjectMeta| {
            let (bytes, written_at) = described(object);
            self.key(&object.location).map(|key| Blob { key, bytes, written_at })
        };
        Ok(found.iter().filter_map(blob).collect())
    }
}

/// Returns the size of an object in bytes, and the time at which it was written.
fn described(object: &object_store::ObjectMeta) -> (u64, Timestamp) {
    (object.size, Timestamp::from_micros(object.last_modified.timestamp_micros()))
}

fn failed(error: impl std::fmt::Display) -> BlobError {
    BlobError(error.to_string())
}
