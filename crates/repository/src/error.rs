//! Errors of operations on repositories, in words that a person can act on.

use journeyman_core::branch::{DAMAGED, SHALLOW};
use journeyman_core::ports::{BlobError, ForgeError};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_git::{Failure, GitError};
use rustix::io::Errno;

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

    /// Converts an error of the code host; `what` says what could not be done.
    #[must_use]
    pub fn from_forge(what: &str, error: ForgeError) -> Self {
        let text = format!("{what}: {error}");
        match error {
            ForgeError::NoPulls(reason) => Self::Failed { reason, retry: false },
            ForgeError::Unclear(_) => Self::may_pass(ReasonCode::PullRequestFailed, text),
            ForgeError::RateLimited(_) => Self::may_pass(ReasonCode::CodeHostRateLimited, text),
            ForgeError::Credential(_) => Self::failed(ReasonCode::CredentialRefused, text),
            ForgeError::NotFound(_) => Self::failed(ReasonCode::RepositoryNotFound, text),
            ForgeError::Denied(_) => Self::failed(ReasonCode::PermissionMissing, text),
            ForgeError::Refused(_) => Self::failed(ReasonCode::PullRequestFailed, text),
        }
    }

    fn disk_full() -> Self {
        Self::may_pass(ReasonCode::DiskFull, "the disk of the worker is full; free space in its data directory")
    }
}

impl From<BlobError> for RepositoryError {
    fn from(error: BlobError) -> Self {
        let text = format!(
            "the work continues when the blob store (blob-url) can be used again, and nothing is lost: {error}"
        );
        Self::may_pass(ReasonCode::StorageUnavailable, text)
    }
}

/// Returns whether an error shows that a disk or a network file system fails, or is read-only.
#[must_use]
pub fn is_of_the_disk(error: &std::io::Error) -> bool {
    let errors = [Errno::IO, Errno::ROFS, Errno::STALE, Errno::NOTCONN, Errno::REMOTEIO];
    Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

impl From<std::io::Error> for RepositoryError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::disk_full(),
            _ if is_of_the_disk(&error) => {
                let text = format!("the disk with the repository's mirror failed: {error}; check its file system");
                Self::may_pass(ReasonCode::StorageUnavailable, text)
            }
            _ => Self::may_pass(ReasonCode::Internal, format!("the repository's mirror could not be used: {error}")),
        }
    }
}

impl RepositoryError {
    /// Returns the failure for a repository that is a shallow clone of another one.
    pub(crate) fn shallow() -> Self {
        Self::failed(ReasonCode::RepositoryUnsupported, SHALLOW)
    }

    /// Returns the failure for an error of git that shows damage of the remote, and not of this machine.
    pub(crate) fn damaged(error: &GitError) -> Self {
        Self::failed(ReasonCode::RepositoryUnsupported, format!("{DAMAGED}: {}", error.without_paths()))
    }

    /// Converts the error of a push. The text has no paths, which may be those of a server.
    pub(crate) fn of_push(error: &GitError) -> Self {
        Self::of(error.failure(), &error.without_paths())
    }

    /// Converts an error of git that is a failure of this kind.
    fn of(failure: Failure, error: &GitError) -> Self {
        match failure {
            Failure::NotFound => Self::failed(
                ReasonCode::RepositoryNotFound,
                format!("there is no repository at the project's address, or its credential cannot read it: {error}"),
            ),
            Failure::CredentialRefused => Self::failed(
                ReasonCode::CredentialRefused,
                format!("the repository refused the project's credential; give the project a valid token: {error}"),
            ),
            Failure::Unreachable => Self::may_pass(
                ReasonCode::RepositoryUnreachable,
                format!("the repository could not be reached: {error}"),
            ),
            Failure::AddressRefused => Self::failed(ReasonCode::RepositoryUnreachable, error.to_string()),
            Failure::Redirected => Self::failed(
                ReasonCode::RepositoryNotFound,
                format!(
                    "the repository has moved; set the address of the project's repository to the new one: {error}"
                ),
            ),
            Failure::Archived => Self::failed(
                ReasonCode::RepositoryArchived,
                format!("the repository is archived, so nothing can be pushed; unarchive it on the code host: {error}"),
            ),
            Failure::PermissionMissing => Self::failed(
                ReasonCode::PermissionMissing,
                format!("the credential may not push to the repository; let its user write: {error}"),
            ),
            Failure::CiFilesRefused => Self::failed(
                ReasonCode::CiFilesChanged,
                format!(
                    "the code host refused the push, because the commits change files of CI pipelines and the \
                     credential may not do that; give the App the permission \"workflows: write\", or the token the \
                     scope \"workflow\", and send another message. The commits are kept: {error}"
                ),
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
            Failure::PathRefused => Self::failed(
                ReasonCode::RepositoryUnsupported,
                format!(
                    "git does not check out a path of the commit, because it is too long or could overwrite files of \
                     git; remove the path from the branch: {error}"
                ),
            ),
            Failure::NotUsed => Self::failed(ReasonCode::RepositoryNotFound, error.to_string()),
            Failure::RemoteDamaged => Self::damaged(error),
            Failure::NotOurRef => Self::may_pass(
                ReasonCode::RepositoryUnreachable,
                format!("the branches of the repository changed while they were read: {error}"),
            ),
            Failure::ReadOnly => Self::failed(
                ReasonCode::PermissionMissing,
                format!(
                    "the repository is read-only: its server may not write to it; give it the permission to write: \
                     {error}"
                ),
            ),
            Failure::LockHeld | Failure::NotWritten | Failure::Other => {
                Self::may_pass(ReasonCode::Internal, error.to_string())
            }
        }
    }
}

impl From<GitError> for RepositoryError {
    fn from(error: GitError) -> Self {
        Self::of(error.failure(), &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(stderr: &str) -> GitError {
        GitError::Failed { command: "push".into(), code: Some(1), stderr: stderr.into() }
    }

    #[test]
    fn a_push_error_has_no_paths_and_its_kind_is_that_of_the_whole_message() {
        for (stderr, code, is_final) in [
            ("remote: fatal: '/srv/git/x.git/a.lock': File exists.", ReasonCode::Internal, false),
            ("remote: error: '/srv/git/x.git/a.lock': Permission denied", ReasonCode::PermissionMissing, true),
            ("error: failed to push some refs to '/srv/git/x.git' (fetch first)", ReasonCode::PushRefused, true),
        ] {
            let found = RepositoryError::of_push(&failed(stderr));
            let RepositoryError::Failed { reason, retry } = found else { panic!("{stderr}") };
            assert_eq!((reason.code, !retry), (code, is_final), "{stderr}");
            assert!(!reason.text.contains("/srv") && reason.text.contains('…'), "{}", reason.text);
        }
    }

    #[test]
    fn a_push_that_needs_the_permission_for_workflows_names_it() {
        let stderr = "refusing to allow an App to update workflow `.github/workflows/a.yml` without `workflows` \
                      permission";
        let error = GitError::Failed { command: "push".into(), code: Some(1), stderr: stderr.into() };
        let RepositoryError::Failed { reason, retry: false } = error.into() else { panic!("it is final") };
        assert_eq!(reason.code, ReasonCode::CiFilesChanged);
        assert!(reason.text.contains("workflows: write"), "{}", reason.text);
    }
}
