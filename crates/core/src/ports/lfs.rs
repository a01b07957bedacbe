//! The objects of Git LFS, which are stored next to a repository.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{GitHttpRequest, GitHttpResponse, GitServerError, Remote};
use crate::lfs::Pointer;
use crate::project::Project;

/// An error of the server that stores the objects of a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LfsError {
    /// The remote has no server for objects that the service can use. The text says why, and what to do.
    #[error("{0}")]
    Unsupported(String),
    /// The server refused the credential, or asks for one.
    #[error("the LFS server refused the credential: {0}")]
    Credential(String),
    /// The credential does not permit the request, or a quota is exhausted.
    #[error("the LFS server denied the request: {0}")]
    Denied(String),
    /// The server does not have the object.
    #[error("the LFS server does not have the object")]
    Missing,
    /// The server refused the request, or its answer is wrong. Another attempt would fail, too.
    #[error("the LFS server refused the request: {0}")]
    Refused(String),
    /// The request failed. Another attempt may succeed.
    #[error("the request to the LFS server failed: {0}")]
    Failed(String),
}

impl LfsError {
    /// Returns whether another attempt may succeed without a change by a person.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// An object that a request did not concern successfully.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LfsFailure {
    /// The object.
    pub pointer: Pointer,
    /// The error.
    pub error: LfsError,
}

/// An object to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LfsUpload {
    /// The object.
    pub pointer: Pointer,
    /// The file with its content.
    pub file: PathBuf,
}

/// The objects of repositories on their code hosts.
#[async_trait]
pub trait LfsObjects: Send + Sync {
    /// Downloads objects to files of `folder`, which get the names of their objects. The size and the hash of each file
    /// are those of its pointer. Returns the objects that could not be downloaded.
    ///
    /// # Errors
    /// No object could be downloaded.
    async fn download(&self, remote: &Remote, objects: &[Pointer], folder: &Path) -> Result<Vec<LfsFailure>, LfsError>;

    /// Returns those of the objects that the server does not have ([`LfsError::Missing`]) or would not accept for a push
    /// to `branch` (other errors).
    ///
    /// # Errors
    /// The server cannot be asked, or accepts nothing.
    async fn missing(&self, remote: &Remote, branch: &str, objects: &[Pointer]) -> Result<Vec<LfsFailure>, LfsError>;

    /// Uploads those of the objects that the server does not have, before a push to `branch`. When this returns, the
    /// server has all of them.
    ///
    /// # Errors
    /// An object could not be uploaded.
    async fn upload(&self, remote: &Remote, branch: &str, objects: &[LfsUpload]) -> Result<(), LfsError>;
}

/// The objects of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedObjects {
    /// The number of objects that the repository has now.
    pub copied: usize,
    /// The number of objects that could not be copied.
    pub failed: usize,
    /// One of them, with the reason.
    pub example: Option<LfsFailure>,
}

/// The objects of the repositories of the built-in code host, for the host itself.
#[async_trait]
pub trait HostedObjects: Send + Sync {
    /// Copies the objects that the pointers in the repository at `staged` name, from a remote to the repository at `to` of
    /// the built-in host. `scratch` is a folder for temporary files, which the caller removes.
    ///
    /// # Errors
    /// No object was copied, because the repository at `staged` cannot be read.
    async fn import(
        &self,
        from: &Remote,
        staged: &Path,
        to: &Path,
        scratch: &Path,
    ) -> Result<ImportedObjects, LfsError>;

    /// Removes all objects of the repository with this name, whose git directory was moved to `git_dir`.
    ///
    /// # Errors
    /// An upload is still being stored, or the blob store failed. Another attempt may succeed.
    async fn remove(&self, name: &str, git_dir: &Path) -> Result<(), LfsError>;
}

/// Serves the objects of repositories of the built-in code host to clients of Git LFS.
#[async_trait]
pub trait LfsServer: Send + Sync {
    /// Answers a request whose path begins with [`crate::lfs::SERVER`]. `may_write` is true if the client may push.
    ///
    /// # Errors
    /// The repository is not on the built-in code host, or the blob store failed.
    async fn serve(
        &self,
        project: &Project,
        request: GitHttpRequest,
        may_write: bool,
    ) -> Result<GitHttpResponse, GitServerError>;
}
