//! Blobs in an object store.

use std::path::Path;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use journeyman_core::ports::{Blob, BlobError, Blobs};
use journeyman_core::time::Timestamp;
use object_store::buffered::BufWriter;
use object_store::path::Path as Place;
use object_store::{ObjectStore, ObjectStoreExt, parse_url_opts};
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use url::Url;

/// A bucket, or a folder of one.
#[derive(Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    root: Place,
}

/// The URL names no object store that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the object store cannot be used: {0}")]
pub struct BucketError(String);

impl Bucket {
    /// The bucket at `url`: `s3://bucket/folder`, `gs://bucket/folder`, `az://container/folder`. `options` are the
    /// variables that the providers' own programs know, such as `AWS_ENDPOINT`; others are ignored.
    ///
    /// # Errors
    /// The URL has another form, or an option a value that cannot be used.
    pub fn open(url: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Self, BucketError> {
        let failed = |error: &dyn std::fmt::Display| BucketError(error.to_string());
        let url = Url::parse(url).map_err(|error| failed(&error))?;
        let (store, root) = parse_url_opts(&url, options).map_err(|error| failed(&error))?;
        Ok(Self { store: store.into(), root })
    }

    fn place(&self, key: &str) -> Place {
        key.split('/').fold(self.root.clone(), |place, part| place.join(part))
    }

    /// The key of an object, without the bucket's folder.
    fn key(&self, place: &Place) -> Option<String> {
        let parts: Vec<String> = place.prefix_match(&self.root)?.map(|part| part.as_ref().to_owned()).collect();
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
        // In parts where it is large: no more than some of them are in memory.
        let mut writer = BufWriter::new(Arc::clone(&self.store), self.place(key));
        tokio::io::copy(&mut source, &mut writer).await.map_err(failed)?;
        writer.shutdown().await.map_err(failed)?;
        tokio::fs::remove_file(file).await.map_err(failed)
    }

    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError> {
        let found = match self.store.get(&self.place(key)).await {
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

    async fn delete(&self, key: &str) -> Result<(), BlobError> {
        match self.store.delete(&self.place(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        let prefix = self.place(prefix);
        let listing = match after {
            Some(after) => self.store.list_with_offset(Some(&prefix), &self.place(after)),
            None => self.store.list(Some(&prefix)),
        };
        let found: Vec<_> = listing.take(limit).try_collect().await.map_err(failed)?;
        let blob = |object: &object_store::ObjectMeta| {
            let written_at = Timestamp::from_micros(object.last_modified.timestamp_micros());
            self.key(&object.location).map(|key| Blob { key, written_at })
        };
        Ok(found.iter().filter_map(blob).collect())
    }
}

fn failed(error: impl std::fmt::Display) -> BlobError {
    BlobError(error.to_string())
}
