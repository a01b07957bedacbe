//! Code hosts: where repositories live and pull requests are opened.

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

/// A user name and password or token for git over HTTP. Its `Debug` shows no secret.
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

/// What git fetches from and pushes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// A URL or a path, never with a credential in it.
    pub url: String,
    /// What to show when asked.
    pub credential: Option<Credential>,
    /// Whether `url` is the path of a repository that we made and alone write: its refs may be read in place.
    pub is_ours: bool,
}

/// What a code host said no with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The remote opens no pull requests; says why.
    #[error("{}", .0.text)]
    NoPulls(Reason),
    /// There is an open one for this branch.
    #[error("there is an open pull request for this branch already")]
    AlreadyExists,
    /// The request is refused as it stands; another attempt would be too.
    #[error("the code host refused: {0}")]
    Refused(String),
    /// It may or may not have taken effect.
    #[error("the code host did not answer clearly: {0}")]
    Unclear(String),
}

/// One repository at a code host.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Where git finds it, with a credential fresh enough for one push.
    async fn remote(&self) -> Result<Remote, ForgeError>;

    /// The open pull request of a branch.
    async fn find_open_pull(&self, head: &str) -> Result<Option<Pull>, ForgeError>;

    /// Opens one; `None` where the branch holds nothing that its base does not.
    async fn open_pull(&self, new: &NewPull) -> Result<Option<Pull>, ForgeError>;

    /// How one stands; `None` if it is gone.
    async fn pull_state(&self, number: u64) -> Result<Option<PullState>, ForgeError>;
}

/// Finds the code host of a project.
#[async_trait]
pub trait Forges: Send + Sync {
    /// The project's repository at its code host.
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError>;

    /// Makes an empty repository for a project on the built-in code host if it is not there.
    async fn prepare(&self, project: &Project) -> Result<(), ForgeError>;

    /// Whether the repository of a project, stored or not, can be read, with the credential that it has or is about to
    /// have: `secrets` are the changes to it. One on the built-in code host always can.
    ///
    /// # Errors
    /// Why not, and what to do about it.
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

/// Why there is no diff.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// The repository cannot be read now.
    #[error("the diff cannot be read: {0}")]
    Unavailable(String),
}

/// What jobs change.
#[async_trait]
pub trait Diffs: Send + Sync {
    /// What the job changes against its base, as a unified diff; empty where nothing is changed.
    async fn diff(&self, project: &Project, job: &Job) -> Result<Bytes, DiffError>;
}

/// A body in pieces.
pub type GitBody = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// A request of git's smart HTTP protocol, with authentication behind it.
pub struct GitHttpRequest {
    /// `GET` or `POST`.
    pub method: String,
    /// Below the repository: `/info/refs`, `/git-upload-pack`, `/git-receive-pack`.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// Of the body.
    pub content_type: Option<String>,
    /// Of the body.
    pub content_encoding: Option<String>,
    /// The header `Git-Protocol`.
    pub git_protocol: Option<String>,
    /// Who asks, for the log of refs.
    pub user: String,
    /// The body.
    pub body: GitBody,
}

/// Its answer.
pub struct GitHttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: GitBody,
}

/// Why git could not be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitServerError {
    /// The repository is not on the built-in code host, or not there.
    #[error("there is no such repository on the built-in code host")]
    NotFound,
    /// git could not be run.
    #[error("git could not be served: {0}")]
    Failed(String),
}

/// Serves repositories of the built-in code host to git.
#[async_trait]
pub trait GitServer: Send + Sync {
    /// Whether a request of git, `path` below the repository, belongs to a push. What is not known to read counts as
    /// one that writes.
    fn needs_write(&self, path: &str, query: &str) -> bool;

    /// Answers one request.
    async fn serve(&self, project: &Project, request: GitHttpRequest) -> Result<GitHttpResponse, GitServerError>;
}

/// A commit in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLine {
    /// Its name.
    pub sha: Sha,
    /// The first line of its message.
    pub subject: String,
    /// Who made it.
    pub author: String,
    /// When.
    pub at: Timestamp,
}

/// What a page of a pull request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullDetail {
    /// The pull request.
    pub pull: LocalPull,
    /// Its commits, oldest first.
    pub commits: Vec<CommitLine>,
    /// What it changes, as a unified diff, at most a few MiB.
    pub diff: String,
    /// Whether the diff was cut.
    pub diff_cut: bool,
    /// Whether it could be merged now.
    pub mergeable: bool,
}

/// Why a pull request could not be shown, merged or closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullPagesError {
    /// There is none.
    #[error("there is no such pull request")]
    NotFound,
    /// It is merged or closed.
    #[error("the pull request is not open any more")]
    NotOpen,
    /// The branches contradict each other.
    #[error("the branches conflict; bring {base} into {head} and push, then merge")]
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

/// The pull requests of the built-in code host, for people.
#[async_trait]
pub trait PullPages: Send + Sync {
    /// All of a project's repository, newest first.
    async fn pulls(&self, project: &Project) -> Result<Vec<LocalPull>, PullPagesError>;

    /// One with its commits and diff.
    async fn pull(&self, project: &Project, number: u64) -> Result<PullDetail, PullPagesError>;

    /// Merges one into its base; `by` is named in the merge commit.
    async fn merge(&self, project: &Project, number: u64, by: &str) -> Result<(), PullPagesError>;

    /// Closes one.
    async fn close(&self, project: &Project, number: u64) -> Result<(), PullPagesError>;
}
