//! Files whose content is checked against a pointer.

use std::path::{Path, PathBuf};

use journeyman_core::lfs::{Hasher, Pointer};
use journeyman_core::ports::LfsError;
use tokio::io::AsyncWriteExt;

use crate::disk::disk;

/// A new file for an object. It is removed when it is dropped, unless its content was complete.
pub(crate) struct Incoming<'a> {
    pointer: &'a Pointer,
    path: PathBuf,
    file: tokio::fs::File,
    hasher: Hasher,
    is_complete: bool,
}

impl<'a> Incoming<'a> {
    /// Creates the file with the name of the object in a folder.
    pub(crate) async fn create(pointer: &'a Pointer, folder: &Path) -> Result<Self, LfsError> {
        let path = folder.join(&pointer.oid);
        let file = tokio::fs::File::create(&path).await.map_err(|error| disk(&error))?;
        Ok(Self { pointer, path, file, hasher: Hasher::default(), is_complete: false })
    }

    /// Writes the next piece.
    ///
    /// # Errors
    /// The content is longer than it should be, or the disk failed.
    pub(crate) async fn write(&mut self, piece: &[u8]) -> Result<(), LfsError> {
        self.hasher.update(piece);
        if self.hasher.bytes() > self.pointer.bytes {
            return Err(self.wrong("it is longer"));
        }
        self.file.write_all(piece).await.map_err(|error| disk(&error))
    }

    /// Checks the content, and keeps the file.
    pub(crate) async fn finish(mut self) -> Result<(), LfsError> {
        self.file.flush().await.map_err(|error| disk(&error))?;
        let found = std::mem::take(&mut self.hasher).pointer();
        if found.bytes < self.pointer.bytes {
            // The connection may have ended early.
            let text = format!("the object {} ended after {} bytes", self.pointer.oid, found.bytes);
            return Err(LfsError::Failed(text));
        }
        if found != *self.pointer {
            return Err(self.wrong("its hash differs"));
        }
        self.is_complete = true;
        Ok(())
    }

    fn wrong(&self, how: &str) -> LfsError {
        LfsError::Refused(format!("the server has other content for the object {}: {how}", self.pointer.oid))
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            // The folder is temporary in any case.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
