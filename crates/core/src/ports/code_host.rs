//! The pages and the git server of the built-in code host, and the changes of jobs.

use std::future::poll_fn;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;

use crate::ids::Sha;
use crate::job::Job;
use crate::project::Project;
use crate::pull::base_comparison::Conflicts;
use crate::pull::{LocalPull, NewMerge};
use crate::time::Timestamp;

/// An error that prevents the reading of a diff.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// The repository cannot be read now.
    #[error("the diff cannot be read: {0}")]
    Unavailable(String),
}

/// The changes of jobs. A diff is read from the repository as fast as the caller takes it; dropping it ends the reading,
/// and a diff that cannot be read to its end ends with an error.
#[async_trait]
pub trait Diffs: Send + Sync {
    /// Returns the job's changes relative to its base, as a unified diff; empty if nothing has changed.
    async fn diff(&self, project: &Project, job: &Job) -> Result<GitBody, DiffError>;

    /// Returns the changes of consecutive commits of the job, as a unified diff: from the state before the first one to
    /// the last one. The caller has checked that the commits belong to the job.
    async fn diff_of_commits(&self, project: &Project, job: &Job, commits: &[Sha]) -> Result<GitBody, DiffError>;

    /// Returns the content of a file in a commit of the job; `None` if the commit has no such file, or if the file is
    /// larger than pages show. The caller has checked that the commit belongs to the job.
    async fn file(&self, project: &Project, job: &Job, commit: &Sha, path: &str) -> Result<Option<Bytes>, DiffError>;
}

/// An HTTP body as a stream of chunks.
pub type GitBody = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// Reads the beginning of a body, up to `most` bytes. The flag is true if there was more.
///
/// # Errors
/// The body cannot be read.
pub async fn beginning(mut body: GitBody, most: usize) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    while bytes.len() <= most {
        match poll_fn(|cx| body.as_mut().poll_next(cx)).await {
            Some(piece) => bytes.extend_from_slice(&piece?),
            None => return Ok((bytes, false)),
        }
    }
    bytes.truncate(most);
    Ok((bytes, true))
}

/// An authenticated request of git's smart HTTP protocol, or of Git LFS.
pub struct GitHttpRequest {
    /// `GET`, `POST` or `PUT`.
    pub method: String,
    /// The path below the repository: `/info/refs`, `/git-upload-pack`, `/git-receive-pack`.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// The content type of the body.
    pub content_type: Option<String>,
    /// The content encoding of the body.
    pub content_encoding: Option<String>,
    /// The header `Git-Protocol`.
    pub git_protocol: Option<String>,
    /// The user or key that sends the request, for the reflog.
    pub user: String,
    /// The body.
    pub body: GitBody,
}

/// The response to a [`GitHttpRequest`].
pub struct GitHttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: GitBody,
}

/// An error from serving a git request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitServerError {
    /// The repository does not exist, or is not on the built-in code host.
    #[error("there is no such repository on the built-in code host")]
    NotFound,
    /// git could not be run.
    #[error("git could not be served: {0}")]
    Failed(String),
}

/// Serves repositories of the built-in code host to git clients.
#[async_trait]
pub trait GitServer: Send + Sync {
    /// Returns whether a git request belongs to a push. `path` is below the repository. A request that is not known to
    /// only read counts as a write.
    fn needs_write(&self, path: &str, query: &str) -> bool;

    /// Answers a request.
    async fn serve(&self, project: &Project, request: GitHttpRequest) -> Result<GitHttpResponse, GitServerError>;
}

/// A commit in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLine {
    /// The hash of the commit.
    pub sha: Sha,
    /// The first line of the commit message.
    pub subject: String,
    /// The name of the author.
    pub author: String,
    /// The author date.
    pub at: Timestamp,
}

/// The content of the page of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullDetail {
    /// The pull request.
    pub pull: LocalPull,
    /// The commits, oldest first.
    pub commits: Vec<CommitLine>,
    /// The changes as a unified diff, at most a few MiB.
    pub diff: String,
    /// `true` if the diff was cut off.
    pub diff_cut: bool,
    /// `true` if the pull request can be merged now.
    pub mergeable: bool,
    /// The files that conflict, if the branches cannot be merged for that reason.
    pub conflicts: Conflicts,
}

/// A merge of the branches of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullMerge {
    /// The commits of the base and the head before the merge.
    pub between: (Sha, Sha),
    /// The merge commit; `None` if the base contains the head without one, such as after a fast-forward by hand.
    pub commit: Option<Sha>,
    /// `true` if the call has merged the branches, `false` if it found them merged.
    pub is_new: bool,
}

/// An error from showing or merging a pull request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullPagesError {
    /// The pull request does not exist.
    #[error("there is no such pull request")]
    NotFound,
    /// The pull request is merged or closed.
    #[error("the pull request is no longer open")]
    NotOpen,
    /// The branches conflict.
    #[error("the branches conflict; merge {base} into {head}, push, and try again")]
    Conflict {
        /// The branch to merge into.
        base: String,
        /// The branch to merge.
        head: String,
    },
    /// The repository has no such branch.
    #[error("there is no branch {0:?} in the repository")]
    NoBranch(String),
    /// The commits cannot be repeated one by one on top of the base branch.
    #[error("the commits cannot be rebased one by one: {0}; merge or squash them instead")]
    NotRebased(String),
    /// The repository or the store failed.
    #[error("{0}")]
    Failed(String),
}

/// The maximum number of branches in the answer of [`PullPages::branches`].
pub const MAX_BRANCHES: usize = 500;

/// The repositories and pull requests of the built-in code host, for the dashboard.
#[async_trait]
pub trait PullPages: Send + Sync {
    /// Returns all pull requests of the project's repository, newest first.
    async fn pulls(&self, project: &Project) -> Result<Vec<LocalPull>, PullPagesError>;

    /// Returns the branches of the project's repository: the default branch first, if it exists, then the others by name, at
    /// most [`MAX_BRANCHES`]. A repository without a commit has none.
    async fn branches(&self, project: &Project) -> Result<Vec<String>, PullPagesError>;

    /// Returns the number of commits of a branch, at most `limit`; `None` if the branch does not exist.
    async fn commits(&self, project: &Project, branch: &str, limit: u64) -> Result<Option<u64>, PullPagesError>;

    /// Returns a pull request with its commits and its diff.
    async fn pull(&self, project: &Project, number: u64) -> Result<PullDetail, PullPagesError>;

    /// Returns the files in which the branches of an open pull request conflict, as in [`PullDetail::conflicts`]. There are
    /// none if a branch was deleted, or if the pull request has ended.
    async fn conflicts(&self, project: &Project, number: u64) -> Result<Conflicts, PullPagesError>;

    /// Returns the name of the branch that a pull request of the branch `head` would be merged into, which is the default
    /// branch without `base`, and the number of commits that the pull request would have.
    async fn ahead(&self, project: &Project, base: Option<&str>, head: &str) -> Result<(String, u64), PullPagesError>;

    /// Merges the branches of an open pull request. If the base branch has the changes already, this changes nothing, and
    /// returns the merge that it finds.
    async fn merge(&self, project: &Project, number: u64, merge: &NewMerge) -> Result<PullMerge, PullPagesError>;

    /// Returns the commits of the base and the head of a pull request; `None` if one of the branches was deleted.
    async fn ends(&self, project: &Project, number: u64) -> Result<Option<(Sha, Sha)>, PullPagesError>;
}
