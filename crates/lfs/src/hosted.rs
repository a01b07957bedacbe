//! The objects of a repository of the built-in code host, which are in the blob store.

use std::fs::File;
use std::io;
use std::path::Path;

use futures::StreamExt;
use journeyman_core::hosted_storage::needs_renewal;
use journeyman_core::lfs::{Pointer, pointer_of};
use journeyman_core::ports::{BlobError, Blobs, LfsError, LfsFailure, LfsUpload};
use journeyman_core::time::Timestamp;

use crate::disk::{blocking, disk};
use crate::file::Incoming;
use crate::lock::Lock;

/// The objects of a repository.
pub(crate) struct Hosted<'a> {
    pub(crate) blobs: &'a dyn Blobs,
    /// The git directory of the repository. Its name, without `.git`, is that of the repository.
    pub(crate) git_dir: &'a Path,
    pub(crate) now: Timestamp,
}

/// An error of a repository of the built-in code host.
#[derive(Debug)]
pub(crate) enum HostedError {
    /// The repository does not exist.
    NoRepository,
    /// The blob store or the disk failed.
    Failed(String),
}

impl From<BlobError> for HostedError {
    fn from(error: BlobError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<io::Error> for HostedError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NoRepository,
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<HostedError> for LfsError {
    fn from(error: HostedError) -> Self {
        match error {
            HostedError::NoRepository => Self::Unsupported("the repository does not exist".to_owned()),
            HostedError::Failed(error) => Self::Failed(error),
        }
    }
}

/// Returns the name of a repository of the built-in code host.
pub(crate) fn name_of(git_dir: &Path) -> &str {
    git_dir.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

impl Hosted<'_> {
    fn key(&self, pointer: &Pointer) -> String {
        pointer.blob_key(name_of(self.git_dir))
    }

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
        let found = self.blobs.open(&self.key(pointer)).await.map_err(HostedError::from)?;
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
            if !self.keep(pointer).await? {
                failures.push(LfsFailure { pointer: pointer.clone(), error: LfsError::Missing });
            }
        }
        Ok(failures)
    }

    /// Returns whether the repository has an object. The answer does not keep it.
    pub(crate) async fn has(&self, pointer: &Pointer) -> Result<bool, BlobError> {
        let found = self.blobs.find(&self.key(pointer)).await?;
        Ok(found.is_some_and(|found| found.bytes == pointer.bytes))
    }

    /// Returns whether the repository has an object, for a client that pushes a pointer to it next. It is then as new as
    /// if it were uploaded now, so that it is not removed before the push.
    pub(crate) async fn keep(&self, pointer: &Pointer) -> Result<bool, HostedError> {
        let _held = Lock::shared(self.git_dir).await?;
        self.renewed(pointer).await
    }

    async fn renewed(&self, pointer: &Pointer) -> Result<bool, HostedError> {
        let key = self.key(pointer);
        match self.blobs.find(&key).await? {
            Some(found) if found.bytes != pointer.bytes => Ok(false),
            Some(found) if needs_renewal(found.written_at, self.now) => Ok(self.blobs.renew(&key).await?),
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }

    /// Stores a file whose content is that of an object, unless the repository has it.
    pub(crate) async fn store(&self, pointer: &Pointer, file: &Path) -> Result<(), HostedError> {
        let _held = Lock::shared(self.git_dir).await?;
        if !self.renewed(pointer).await? {
            self.blobs.put(&self.key(pointer), file).await?;
        }
        Ok(())
    }

    pub(crate) async fn upload(&self, objects: &[LfsUpload]) -> Result<(), LfsError> {
        for LfsUpload { pointer, file } in objects {
            if self.keep(pointer).await? {
                continue;
            }
            let path = file.clone();
            let found = blocking(move || pointer_of(&mut File::open(path)?)).await.map_err(|error| disk(&error))?;
            if found != *pointer {
                let text = format!("the file of the object {} has other content", pointer.oid);
                return Err(LfsError::Refused(text));
            }
            self.store(pointer, file).await?;
        }
        Ok(())
    }
}
