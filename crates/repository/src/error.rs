//! Errors of operations on repositories, in words that a person can act on.

use journeyman_core::ports::BlobError;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_git::{Failure, GitError};

/// An error of an operation on a repository.
#[derive(Debug)]
pub enum RepositoryError {
    /// The operation failed.
    Failed {
        /// The reason, for people.
        reason: Reason,
        /// True if another attempt may succeed.
        retry: bool,
    },
    /// The mirror is damaged or missing. The operation can be retried once the mirror has been rebuilt
    /// ([`crate::Mirrors::repair`]).
    MirrorDamaged(String),
}

impl std::fmt::Display for RepositoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { reason, .. } => f.write_str(&reason.text),
            Self::MirrorDamaged(detail) => write!(f, "the mirror of the repository is damaged: {detail}"),
        }
    }
}

impl RepositoryError {
    pub(crate) fn failed(code: ReasonCode, text: impl Into<String>) -> Self {
        Self::Failed { reason: Reason::new(code, text), retry: false }
    }

    pub(crate) fn may_pass(code: ReasonCode, text: impl Into<String>) -> Self {
        Self::Failed { reason: Reason::new(code, text), retry: true }
    }

    fn disk_full() -> Self {
        Self::may_pass(ReasonCode::DiskFull, "the disk of the worker is full; free space in its data directory")
    }
}

impl From<BlobError> for RepositoryError {
    fn from(error: BlobError) -> Self {
        Self::may_pass(ReasonCode::Internal, error.to_string())
    }
}

impl From<std::io::Error> for RepositoryError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::disk_full(),
            _ => Self::may_pass(ReasonCode::Internal, format!("the repository's mirror could not be used: {error}")),
        }
    }
}

impl From<GitError> for RepositoryError {
    fn from(error: GitError) -> Self {
        match error.failure() {
            Failure::NotFound => Self::failed(
                ReasonCode::RepositoryNotFound,
                format!("there is no repository at the project's address, or its credential may not read it: {error}"),
            ),
            Failure::CredentialRefused => Self::failed(
                ReasonCode::CredentialRefused,
                format!("the repository refused the project's credential; give the project a valid token: {error}"),
            ),
            Failure::Unreachable => Self::may_pass(
                ReasonCode::RepositoryUnreachable,
                format!("the repository could not be reached: {error}"),
            ),
            Failure::Refused | Failure::NonFastForward => {
                Self::failed(ReasonCode::PushRefused, format!("the code host refused the push: {error}"))
            }
            Failure::DiskFull => Self::disk_full(),
            Failure::Damaged => Self::MirrorDamaged(error.to_string()),
            Failure::TooLarge => Self::failed(
                ReasonCode::WorkspaceRefused,
                format!("git exceeded its limit of memory or processor time on the repository: {error}"),
            ),
            Failure::NotUsed => Self::failed(ReasonCode::RepositoryNotFound, error.to_string()),
            Failure::LockHeld | Failure::NotWritten | Failure::Other => {
                Self::may_pass(ReasonCode::Internal, error.to_string())
            }
        }
    }
}
