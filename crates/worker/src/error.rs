//! Why a run stops before its end, in words that a person can act on.

use journeyman_core::ports::{BlobError, ForgeError, SandboxError, UpdateError};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_git::{Failure, GitError};

/// How a run stops early.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// It failed; `retry` where another attempt may go better.
    Failed { reason: Reason, retry: bool },
    /// The mirror of the repository is damaged or missing: the step can be retried after the mirror has been recreated.
    MirrorDamaged(String),
    /// The worker shuts down.
    HandedBack,
    /// The lease is gone: nothing may be reported any more.
    LeaseLost,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { reason, .. } => f.write_str(&reason.text),
            Self::MirrorDamaged(detail) => write!(f, "the mirror of the repository is damaged: {detail}"),
            Self::HandedBack => f.write_str("the worker shuts down"),
            Self::LeaseLost => f.write_str("the lease is gone"),
        }
    }
}

impl Stopped {
    pub(crate) fn failed(code: ReasonCode, text: impl Into<String>) -> Self {
        Self::Failed { reason: Reason::new(code, text), retry: false }
    }

    pub(crate) fn may_pass(code: ReasonCode, text: impl Into<String>) -> Self {
        Self::Failed { reason: Reason::new(code, text), retry: true }
    }
}

impl From<UpdateError> for Stopped {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Rejected(_) | UpdateError::NotFound | UpdateError::NoProject => Self::LeaseLost,
            // Reporting the failure will fail too while the store is away; the lease then runs out and the run is
            // taken over.
            other => Self::may_pass(ReasonCode::Internal, other.to_string()),
        }
    }
}

impl From<BlobError> for Stopped {
    fn from(error: BlobError) -> Self {
        Self::may_pass(ReasonCode::Internal, error.to_string())
    }
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => disk_full(),
            _ => Self::may_pass(ReasonCode::Internal, format!("the workspace could not be used: {error}")),
        }
    }
}

impl From<GitError> for Stopped {
    fn from(error: GitError) -> Self {
        match error.failure() {
            Failure::NotFound => Self::failed(
                ReasonCode::RepositoryNotFound,
                format!("there is no repository at the project's address, or it may not be seen: {error}"),
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
            Failure::DiskFull => disk_full(),
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

impl From<ForgeError> for Stopped {
    fn from(error: ForgeError) -> Self {
        let text = format!("the branch was pushed, but the pull request was not opened: {error}");
        match error {
            ForgeError::NoPulls(reason) => Self::Failed { reason, retry: false },
            ForgeError::AlreadyExists | ForgeError::Unclear(_) => Self::may_pass(ReasonCode::PullRequestFailed, text),
            ForgeError::Refused(_) => Self::failed(ReasonCode::PullRequestFailed, text),
        }
    }
}

impl From<SandboxError> for Stopped {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Unavailable(_) => {
                Self::may_pass(ReasonCode::SandboxUnsafe, format!("{error}; journeyman doctor says more"))
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

pub(crate) fn disk_full() -> Stopped {
    Stopped::may_pass(ReasonCode::DiskFull, "the disk of the worker is full; free space in its data directory")
}
