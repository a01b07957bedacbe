//! Code hosts, which store repositories and open pull requests.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;

use crate::ids::Sha;
use crate::job::{Job, Pull};
use crate::project::{Host, Project, RestrictedHost, SecretChanges, repository_host};
use crate::pull::{LocalPull, NewPull, PullState};
use crate::run::Reason;
use crate::time::Timestamp;

/// A user name and a password or token for git over HTTP. `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user name.
    pub username: String,
    /// The password or token.
    pub password: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("username", &self.username).finish_non_exhaustive()
    }
}

/// A remote repository that git fetches from and pushes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// A URL or a path, never with a credential.
    pub url: String,
    /// The credential, if the remote requires one.
    pub credential: Option<Credential>,
    /// `true` if `url` is the path of a repository that only the service writes to. Its refs may be read directly.
    pub is_ours: bool,
}

/// An error from a code host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The remote does not support pull requests. The reason explains why.
    #[error("{}", .0.text)]
    NoPulls(Reason),
    /// The branch already has an open pull request.
    #[error("this branch already has an open pull request")]
    AlreadyExists,
    /// The code host refused the request, and would refuse another attempt too.
    #[error("the code host refused the request: {0}")]
    Refused(String),
    /// The request failed, and may have taken effect nevertheless.
    #[error("the request to the code host failed: {0}")]
    Unclear(String),
}

/// A repository on a code host.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Returns the remote, with a credential that remains valid for at least one push.
    async fn remote(&self) -> Result<Remote, ForgeError>;

    /// Finds the open pull request of a branch.
    async fn find_open_pull(&self, head: &str) -> Result<Option<Pull>, ForgeError>;

    /// Opens a pull request. Returns `None` if the branch has no commits that its base does not have.
    async fn open_pull(&self, new: &NewPull) -> Result<Option<Pull>, ForgeError>;

    /// Returns the state of a pull request; `None` if it does not exist.
    async fn pull_state(&self, number: u64) -> Result<Option<PullState>, ForgeError>;
}

/// The code hosts of projects.
#[async_trait]
pub trait Forges: Send + Sync {
    /// Returns the project's repository on its code host.
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError>;

    /// Creates the empty repository of a project on the built-in code host, if it does not exist.
    async fn prepare(&self, project: &Project) -> Result<(), ForgeError>;

    /// Checks whether the repository of a project can be read. The project may be new. `secrets` are the changes to its
    /// secrets that will be stored, such as a new credential. A repository on the built-in code host can always be
    /// read.
    ///
    /// # Errors
    /// Returns the reason why the repository cannot be read, and the remedy.
    async fn check(&self, project: &Project, secrets: &SecretChanges) -> Result<(), Reason>;

    /// Returns the addresses of a host name; empty if it cannot be resolved.
    async fn addresses(&self, name: &str) -> Vec<IpAddr>;

    /// Returns the host of a repository if only an administrator may name it: it is, or resolves to, a link-local
    /// address or the metadata service of a cloud.
    async fn restricted_host(&self, repository: &str) -> Option<RestrictedHost> {
        let host = repository_host(repository)?;
        if let Some(found) = host.restricted() {
            return Some(found);
        }
        let Host::Name(name) = &host else { return None };
        self.addresses(name).await.into_iter().find_map(|address| host.restricted_at(address))
    }
}

/// An error that prevents the reading of a diff.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// The repository cannot be read now.
    #[error("the diff cannot be read: {0}")]
    Unavailable(String),
}

/// The changes of jobs.
#[async_trait]
pub trait Diffs: Send + Sync {
    /// Returns the job's changes relative to its base, as a unified diff; empty if nothing has changed.
    async fn diff(&self, project: &Project, job: &Job) -> Result<Bytes, DiffError>;
}

/// An HTTP body as a stream of chunks.
pub type GitBody = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// An authenticated request of git's smart HTTP protocol.
pub struct GitHttpRequest {
    /// `GET` or `POST`.
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
    /// The repository or the store failed.
    #[error("{0}")]
    Failed(String),
}

/// The pull requests of the built-in code host, for the dashboard.
#[async_trait]
pub trait PullPages: Send + Sync {
    /// Returns all pull requests of the project's repository, newest first.
    async fn pulls(&self, project: &Project) -> Result<Vec<LocalPull>, PullPagesError>;

    /// Returns a pull request with its commits and its diff.
    async fn pull(&self, project: &Project, number: u64) -> Result<PullDetail, PullPagesError>;

    /// Merges the branches of an open pull request, and returns their commits before the merge. The merge commit names
    /// `by`. If the branches are merged already, this changes nothing.
    async fn merge(
        &self,
        project: &Project,
        number: u64,
        by: &str,
        at: Timestamp,
    ) -> Result<(Sha, Sha), PullPagesError>;

    /// Returns the commits of the base and the head of a pull request; `None` if one of the branches was deleted.
    async fn ends(&self, project: &Project, number: u64) -> Result<Option<(Sha, Sha)>, PullPagesError>;
}
