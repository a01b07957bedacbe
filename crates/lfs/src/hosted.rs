//! The objects of a repository of the built-in code host, which are in the blob store.

use std::fs::File;
use std::path::Path;

use futures::StreamExt;
use journeyman_core::lfs::Pointer;
use journeyman_core::ports::{BlobError, Blobs, LfsError, LfsFailure, LfsUpload};

use crate::blocking;
use crate::file::{Incoming, disk, pointer_of};

/// The objects of a repository.
pub(crate) struct Hosted<'a> {
    pub(crate) blobs: &'a dyn Blobs,
    /// The name of the repository.
    pub(crate) repository: &'a str,
}

impl Hosted<'_> {
    pub(crate) async fn download(&self, objects: &[Pointer], folder: &Path) -> Result<Vec<LfsFailure>, LfsError> {
        let mut failures = Vec::new();
        for pointer in objects {
            if let Err(error) = self.fetch(pointer, folder).await {
                failures.push(LfsFailure { pointer: pointer.clone(), error });
            }
        }
        Ok(failures)
    }

    async fn fetch(&self, pointer: &Pointer, folder: &Path) -> Result<(), LfsError> {
        let found = self.blobs.open(&pointer.blob_key(self.repository)).await.map_err(failed)?;
        let mut content = found.ok_or(LfsError::Missing)?.body;
        let mut file = Incoming::create(pointer, folder).await?;
        while let Some(piece) = content.next().await {
            file.write(&piece.map_err(|error| LfsError::Failed(error.to_string()))?).await?;
        }
        file.finish().await
    }

    pub(crate) async fn missing(&self, objects: &[Pointer]) -> Result<Vec<LfsFailure>, LfsError> {
        let mut failures = Vec::new();
        for pointer in objects {
            if !self.has(pointer).await? {
                failures.push(LfsFailure { pointer: pointer.clone(), error: LfsError::Missing });
            }
        }
        Ok(failures)
    }

    async fn has(&self, pointer: &Pointer) -> Result<bool, LfsError> {
        let size = self.blobs.size(&pointer.blob_key(self.repository)).await.map_err(failed)?;
        Ok(size == Some(pointer.bytes))
    }

    pub(crate) async fn upload(&self, objects: &[LfsUpload]) -> Result<(), LfsError> {
        for LfsUpload { pointer, file } in objects {
            if self.has(pointer).await? {
                continue;
            }
            let path = file.clone();
            let found = blocking(move || pointer_of(&mut File::open(path)?)).await.map_err(|error| disk(&error))?;
            if found != *pointer {
                let text = format!("the file of the object {} has other content", pointer.oid);
                return Err(LfsError::Refused(text));
            }
            self.blobs.put(&pointer.blob_key(self.repository), file).await.map_err(failed)?;
        }
        Ok(())
    }
}

fn failed(error: BlobError) -> LfsError {
    LfsError::Failed(error.to_string())
}
