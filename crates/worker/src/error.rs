//! Errors that end a run, in words that a person can act on.

use journeyman_core::ports::{BlobError, ForgeError, SandboxError, StoreError, UpdateError};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_git::GitError;
use journeyman_repository::{RepositoryError, is_of_the_disk};

/// The reason why a run ends early.
#[derive(Debug)]
pub(crate) enum RunError {
    /// The run failed; `retry` if another attempt may succeed.
    Failed { reason: Reason, retry: bool },
    /// The mirror of the repository is damaged or missing: the step can be retried after the mirror has been recreated.
    MirrorDamaged(String),
    /// The worker is shutting down, and another attempt continues.
    HandedBack,
    /// The run lost its lease. Nothing may be reported any more.
    LeaseLost,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { reason, .. } => f.write_str(&reason.text),
            Self::MirrorDamaged(detail) => write!(f, "the mirror of the repository is damaged: {detail}"),
            Self::HandedBack => f.write_str("the worker is shutting down"),
            Self::LeaseLost => f.write_str("the run lost its lease"),
        }
    }
}

impl RunError {
    pub(crate) fn failed(code: ReasonCode, text: impl Into<String>) -> Self {
        Self::Failed { reason: Reason::new(code, text), retry: false }
    }

    /// Returns whether the files or the commits of the agent cannot be committed as they are.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Failed { reason, retry: false } if reason.code == ReasonCode::WorkspaceRefused)
    }

    pub(crate) fn may_pass(code: ReasonCode, text: impl Into<String>) -> Self {
        Self::Failed { reason: Reason::new(code, text), retry: true }
    }
}

impl From<UpdateError> for RunError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Rejected(_) | UpdateError::NotFound | UpdateError::NoProject => Self::LeaseLost,
            // While the store is unavailable, the failure cannot be reported either. The lease then expires, and the
            // run is taken over.
            other => Self::may_pass(ReasonCode::Internal, other.to_string()),
        }
    }
}

impl From<BlobError> for RunError {
    fn from(error: BlobError) -> Self {
        storage_unavailable(&error.to_string())
    }
}

impl From<std::io::Error> for RunError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => disk_full(),
            _ if is_of_the_disk(&error) => disk_failed(&error),
            _ => Self::may_pass(ReasonCode::Internal, format!("the workspace could not be used: {error}")),
        }
    }
}

impl From<RepositoryError> for RunError {
    fn from(error: RepositoryError) -> Self {
        match error {
            RepositoryError::Failed { reason, retry } => Self::Failed { reason, retry },
            RepositoryError::MirrorDamaged(detail) => Self::MirrorDamaged(detail),
        }
    }
}

impl From<GitError> for RunError {
    fn from(error: GitError) -> Self {
        RepositoryError::from(error).into()
    }
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> Self {
        Self::may_pass(ReasonCode::Internal, error.to_string())
    }
}

impl From<ForgeError> for RunError {
    fn from(error: ForgeError) -> Self {
        RepositoryError::from_forge("the branch was pushed, but the pull request was not opened", error).into()
    }
}

impl From<SandboxError> for RunError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Unavailable(_) => {
                Self::may_pass(ReasonCode::SandboxUnsafe, format!("{error}; run journeyman doctor for details"))
            }
            SandboxError::EngineUnreachable(_) => Self::may_pass(ReasonCode::SandboxUnavailable, error.to_string()),
            SandboxError::ImageMissing(_) | SandboxError::ImageRefused(_) => {
                Self::failed(ReasonCode::ImageRefused, error.to_string())
            }
            SandboxError::NotFound(_) | SandboxError::Failed { .. } => {
                let text = format!("{error}; check the agent's command in the configuration");
                Self::failed(ReasonCode::AgentNotStarted, text)
            }
        }
    }
}

/// Returns the error for a blob store that cannot be read or written.
pub(crate) fn storage_unavailable(detail: &str) -> RunError {
    let text =
        format!("the work continues when the blob store (blob-url) can be used again, and nothing is lost: {detail}");
    RunError::may_pass(ReasonCode::StorageUnavailable, text)
}

fn disk_failed(error: &std::io::Error) -> RunError {
    let text = format!("the disk of the worker failed: {error}; check the file system of its data directory");
    RunError::may_pass(ReasonCode::StorageUnavailable, text)
}

pub(crate) fn disk_full() -> RunError {
    RunError::may_pass(ReasonCode::DiskFull, "the disk of the worker is full; free space in its data directory")
}
