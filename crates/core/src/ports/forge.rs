//! Code hosts, which store repositories and open pull requests.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::code_host::HostRepository;

use async_trait::async_trait;

use super::StoreError;
use crate::code_host::expiry::Expiry;
use crate::code_host::{CodeHost, HostName, PullRepository};
use crate::finding::Finding;
use crate::hosted_storage::{HostedStorage, StorageRecord};
use crate::message::SourceAuthor;
use crate::poll::{PollQuery, Polled};
use crate::project::{Host, Project, RestrictedHost, SecretChanges, repository_host};
use crate::pull::{HostPull, NewPull, PullChange};
use crate::run::Reason;

mod checks;
mod conversation;
mod discussion;
mod error;
mod review;

pub use checks::Checks;
pub use conversation::CommentFile;
pub use discussion::Discussion;
pub use error::ForgeError;

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
    /// The addresses that the host of `url` may have.
    pub reach: Reach,
}

/// The addresses that the host in the URL of a remote may have. It depends on who has chosen the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Public addresses, and those in the networks that the operator has allowed. The host has been chosen by a repository
    /// or a server, or its name may be answered differently each time.
    #[default]
    Public,
    /// Also private addresses: the host is a configured code host, or an administrator has entered the address itself. A
    /// name must not resolve to a link-local address or a metadata service.
    Private,
}

/// The servers that git has reached for an operation, with their addresses, for the audit log.
#[derive(Debug, Clone, Default)]
pub struct ReachedServers(Arc<Mutex<BTreeSet<String>>>);

impl ReachedServers {
    /// Records a server, such as `git.example.com (93.184.216.34)`.
    pub fn add(&self, server: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(server);
    }

    /// Returns the recorded servers, separated by commas; `None` if there is none.
    #[must_use]
    pub fn list(&self) -> Option<String> {
        let servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        (!servers.is_empty()).then(|| servers.join(", "))
    }
}

/// The reason why nothing was imported, and the remedy, as sentences for people. It contains no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportFailed(pub String);

/// A repository on a code host.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Returns the name of the host in the index of pull requests.
    fn host(&self) -> HostName;

    /// Returns the remote, with a credential that remains valid for at least ten minutes.
    async fn remote(&self) -> Result<Remote, ForgeError>;

    /// Describes the repository. The answer may be a minute old.
    async fn repository(&self) -> Result<HostRepository, ForgeError>;

    /// Returns the description of the repository from an answer that is known, such as that of [`Forge::remote`], without
    /// asking; `None` if there is none.
    fn known_repository(&self) -> Option<HostRepository> {
        None
    }

    /// Returns the repository as pull requests name it; `None` if the remote gives repositories no ID. The answer may be a
    /// minute old.
    async fn identity(&self) -> Result<Option<PullRepository>, ForgeError> {
        Ok(None)
    }

    /// Returns the address with which the host recognizes a user in commits, without showing the user's own address; `None`
    /// if the host has none.
    fn no_reply_address(&self, user: &SourceAuthor) -> Option<String> {
        let _ = user;
        None
    }

    /// Returns the end of the credential with which the service uses the repository.
    ///
    /// # Errors
    /// The code host refuses the credential, or cannot be asked.
    async fn credential_expiry(&self) -> Result<Expiry, ForgeError> {
        Ok(Expiry::Unknown)
    }

    /// Forgets the answers that were kept, for a person who tests the repository after a change.
    fn forget(&self) {}

    /// Returns the pull requests of a branch of this repository, in all states, newest first.
    async fn find_pulls(&self, head: &str) -> Result<Vec<HostPull>, ForgeError>;

    /// Returns the ref of the repository that has the newest commit of a pull request, also of one from a fork; `None` if
    /// there is none.
    fn pull_ref(&self, number: u64) -> Option<String> {
        let _ = number;
        None
    }

    /// Opens a pull request. Sets no labels, reviewers and assignees; [`Forge::update_pull`] does.
    async fn create_pull(&self, new: &NewPull) -> Result<CreatedPull, ForgeError>;

    /// Returns a pull request; `None` if it does not exist.
    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError>;

    /// Changes a pull request. Labels, reviewers and assignees are added to those that it has.
    async fn update_pull(&self, number: u64, change: &PullChange) -> Result<(), ForgeError>;

    /// Asks the host to merge an open pull request when all requirements are met, such as checks and approvals. Never
    /// merges it at once: if nothing is left to wait for, the request is refused.
    ///
    /// # Errors
    /// The host has no such operation, or refuses it.
    async fn auto_merge(&self, number: u64) -> Result<(), ForgeError> {
        let _ = number;
        Err(ForgeError::Refused("the code host merges no pull requests by itself".to_owned()))
    }

    /// Returns the comments of pull requests and issues; `None` if the host has none.
    fn discussion(&self) -> Option<&dyn Discussion>;

    /// Returns the checks of commits; `None` if the host has none.
    fn checks(&self) -> Option<&dyn Checks>;

    /// Returns the changes of the repository, which can be polled; `None` if the host cannot be polled.
    fn changes(&self) -> Option<&dyn Changes> {
        None
    }
}

/// The changes of a repository on a code host: comments, reviews, pull requests and issues.
#[async_trait]
pub trait Changes: Send + Sync {
    /// Returns what has changed since the position of the query. If much has changed, the rest follows with the next
    /// poll. Deleted comments, and on some hosts edited ones, are not reported.
    async fn poll(&self, query: &PollQuery) -> Result<Polled, ForgeError>;
}

/// The result of [`Forge::create_pull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedPull {
    /// The pull request was opened.
    Created(HostPull),
    /// The branch already has an open pull request.
    AlreadyExists,
    /// The branch has no commits that its base does not have.
    NoChanges,
}

/// The code hosts of projects.
#[async_trait]
pub trait Forges: Send + Sync {
    /// Returns the project's repository on its code host.
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError>;

    /// Creates the empty repository of a project on the built-in code host, if it does not exist.
    async fn prepare(&self, project: &Project) -> Result<(), ForgeError>;

    /// Tests whether jobs can work on the repository of a project, and returns what was found. The project may be new.
    /// `secrets` are the changes to its secrets that will be stored, such as a new credential. A repository on the
    /// built-in code host can always be used.
    ///
    /// # Errors
    /// Returns the reason why the repository cannot be read or pushed to, and the remedy.
    async fn check(&self, project: &Project, secrets: &SecretChanges) -> Result<Vec<Finding>, Reason>;

    /// As [`Forges::check`], and records the servers that git reaches.
    ///
    /// # Errors
    /// As [`Forges::check`].
    async fn check_and_record(
        &self,
        project: &Project,
        secrets: &SecretChanges,
        _reached: &ReachedServers,
    ) -> Result<Vec<Finding>, Reason> {
        self.check(project, secrets).await
    }

    /// Returns the code host of a project's repository; `None` for the built-in one and for plain remotes.
    async fn code_host(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError>;

    /// Copies the branches and tags of a remote into the repository of a project on the built-in code host, which has none.
    /// They are on disk when this returns. A push that arrives first wins: nothing is imported then. An import that was
    /// interrupted can be repeated. Returns what of the repository was not copied, as sentences for people. The servers that
    /// git reaches are recorded.
    ///
    /// # Errors
    /// Nothing was imported.
    async fn import(
        &self,
        _project: &Project,
        _from: &Remote,
        _reached: &ReachedServers,
    ) -> Result<Option<String>, ImportFailed> {
        Err(ImportFailed("Only the built-in code host can import a repository.".to_owned()))
    }

    /// Removes a repository of the built-in code host with its pull requests and objects, unless a project uses it. It is
    /// safe to repeat.
    ///
    /// # Errors
    /// The repository is still there, or a part of it. Another attempt may succeed.
    async fn remove(&self, _repository: &str) -> Result<(), ForgeError> {
        Ok(())
    }

    /// Returns the space that the repository of a project on the built-in code host takes; `None` if it was not measured
    /// yet, or is elsewhere.
    async fn storage(&self, _project: &Project) -> Option<StorageRecord> {
        None
    }

    /// Returns the space that all repositories of the built-in code host take, according to their last measurements.
    ///
    /// # Errors
    /// The repositories cannot be listed.
    async fn storage_of_all(&self) -> Result<HostedStorage, ForgeError> {
        Ok(HostedStorage::default())
    }

    /// Returns the addresses of a host name; empty if it cannot be resolved.
    async fn addresses(&self, name: &str) -> Vec<IpAddr>;

    /// Returns the addresses that the host of a URL may have if an administrator has entered the URL.
    ///
    /// # Errors
    /// The store failed.
    async fn reach(&self, _url: &str) -> Result<Reach, StoreError> {
        Ok(Reach::Public)
    }

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
