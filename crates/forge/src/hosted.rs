//! A repository on a code host with an HTTP interface. [`Api`] is what differs between the hosts.

mod api;
mod discussion;
mod replies;
mod review;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::checks::{Check, CommitStatus, StatusState};
use journeyman_core::code_host::expiry::Expiry;
use journeyman_core::code_host::{CodeHost, HostKind, HostName, HostRepository, PullRepository, RepositoryPath};
use journeyman_core::conversation::Permission;
use journeyman_core::hook::HostUser;
use journeyman_core::ids::Sha;
use journeyman_core::message::SourceAuthor;
use journeyman_core::poll::{Cost, PollQuery, Polled};
use journeyman_core::ports::{Changes, Checks, CreatedPull, Discussion, Forge, ForgeError, Reach, Remote};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use serde_json::{Value, json};

pub(crate) use crate::account::{Account, AppAccount};
use crate::cache::Cache;
use crate::identity::Identity;

pub(crate) use self::api::{Api, STATUS, Written};

/// Returns the body of a request that sets a status, in the form of GitHub and Gitea.
pub(crate) fn status_body(status: &CommitStatus) -> Value {
    let state = match status.state {
        StatusState::Pending => "pending",
        StatusState::Success => "success",
        StatusState::Failure => "failure",
    };
    json!({ "state": state, "target_url": status.url, "description": status.description, "context": STATUS })
}

/// The time for which polls use the description of a repository. A renamed repository is followed all the same.
const DESCRIBED: Duration = Duration::from_secs(24 * 3600);

/// The age up to which an answer confirms that the address is that of the repository. A batch of reactions and comments
/// shares one.
const CONFIRMED: Duration = Duration::from_secs(1);

/// The cause if the address of a project is that of a repository with another ID.
const NEW_REPOSITORY: &str = "the repository that was there was renamed, moved or deleted, and another one has its \
                              address now; set the address of the project's repository again";

/// A cache of the repositories and users of a code host.
#[derive(Default)]
pub(crate) struct Known {
    /// By their path in the project, and the ID that they must have.
    pub(crate) repositories: Cache<(String, Option<String>), HostRepository>,
    pub(crate) me: Cache<(), HostUser>,
    pub(crate) aliases: Cache<(), Vec<String>>,
    pub(crate) permissions: Cache<(String, String), Permission>,
}

/// A repository on a code host.
pub(crate) struct HostedRepository {
    pub(crate) host: CodeHost,
    pub(crate) path: RepositoryPath,
    /// The address in the project, from which git clones.
    pub(crate) clone_url: String,
    pub(crate) reach: Reach,
    pub(crate) api: Arc<dyn Api>,
    pub(crate) known: Arc<Known>,
    pub(crate) identity: Identity,
}

impl HostedRepository {
    async fn current(&self) -> Result<HostRepository, ForgeError> {
        let found = self.known.repositories.get(self.key(), || self.described()).await?;
        self.identity.record(&found).await?;
        Ok(found)
    }

    /// Returns the repository from an answer that is at most [`CONFIRMED`] old, for what another repository must not get:
    /// a comment, a status, or a say in who may push. An older answer may name an address that another one has now.
    async fn confirmed(&self) -> Result<HostRepository, ForgeError> {
        self.asked(CONFIRMED).await
    }

    /// Returns the repository from an answer that is at most this old.
    async fn asked(&self, age: Duration) -> Result<HostRepository, ForgeError> {
        let found = self.known.repositories.get_within(age, self.key(), || self.described()).await?;
        self.identity.record(&found).await?;
        Ok(found)
    }

    /// Returns the key of the repository in the cache.
    fn key(&self) -> (String, Option<String>) {
        (self.path.as_str().to_owned(), self.identity.id().map(str::to_owned))
    }

    /// Asks for the current path, which is another one after a rename.
    async fn current_path(&self) -> Result<RepositoryPath, ForgeError> {
        match self.asked(Duration::ZERO).await {
            Ok(found) => Ok(RepositoryPath::parse(&found.path).unwrap_or_else(|| self.path.clone())),
            // A token may permit git and nothing else.
            Err(ForgeError::Credential(_) | ForgeError::Denied(_) | ForgeError::NotFound(_))
                if self.identity.id().is_none() =>
            {
                Ok(self.path.clone())
            }
            Err(error) => Err(error),
        }
    }

    async fn described(&self) -> Result<HostRepository, ForgeError> {
        let found = self.api.repository(&self.path).await;
        let is_other = |found: &HostRepository| self.identity.id().is_some_and(|id| id != found.id);
        match (&found, self.identity.id()) {
            (Ok(other), Some(id)) if is_other(other) => self.moved(id, NEW_REPOSITORY).await,
            (Err(ForgeError::NotFound(text)), Some(id)) => self.moved(id, text).await,
            (Err(ForgeError::NotFound(text)), None) => Err(self.not_found(text)),
            _ => found,
        }
    }

    /// Finds the repository at its new path.
    async fn moved(&self, id: &str, cause: &str) -> Result<HostRepository, ForgeError> {
        match self.api.repository_by_id(&self.path, id).await {
            Err(ForgeError::NotFound(_)) => Err(self.not_found(cause)),
            found => found,
        }
    }

    fn not_found(&self, cause: &str) -> ForgeError {
        let Self { host, path, .. } = self;
        ForgeError::NotFound(format!(
            "{} has no repository {path}, or the credential may not see it: {cause}",
            host.url
        ))
    }

    /// Explains a refused change: the repository may be archived.
    async fn explained(&self, error: ForgeError) -> ForgeError {
        let ForgeError::Denied(text) = &error else { return error };
        self.known.repositories.forget();
        match self.current().await {
            Ok(repository) if repository.is_archived => {
                ForgeError::Denied(format!("the repository {} is archived; unarchive it: {text}", self.path))
            }
            _ => error,
        }
    }
}

#[async_trait]
impl Forge for HostedRepository {
    fn host(&self) -> HostName {
        self.host.name()
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        let path = self.current_path().await?;
        let credential = Some(self.api.git_credential(&path).await?);
        let is_renamed = !path.as_str().eq_ignore_ascii_case(self.path.as_str());
        let url = if is_renamed { self.host.clone_url(&path) } else { self.clone_url.clone() };
        Ok(Remote { url, credential, is_ours: false, reach: self.reach })
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        self.current().await
    }

    fn known_repository(&self) -> Option<HostRepository> {
        self.known.repositories.known(&self.key())
    }

    async fn identity(&self) -> Result<Option<PullRepository>, ForgeError> {
        Ok(Some(PullRepository { host: self.host(), id: self.current().await?.id }))
    }

    fn no_reply_address(&self, user: &SourceAuthor) -> Option<String> {
        self.host.kind.no_reply_address(&self.host().0, &user.id, &user.name)
    }

    fn pull_ref(&self, number: u64) -> Option<String> {
        self.host.kind.pull_ref(number)
    }

    async fn credential_expiry(&self) -> Result<Expiry, ForgeError> {
        match self.api.expiry().await? {
            // The answer about the user shows whether the credential is still accepted.
            Expiry::Unknown => self.api.account().await.map(|_| Expiry::Unknown),
            known => Ok(known),
        }
    }

    fn forget(&self) {
        self.known.repositories.forget();
        self.known.permissions.forget();
    }

    async fn find_pulls(&self, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        let mut found = self.api.find_pulls(&self.current().await?, head).await?;
        // Some hosts ignore the filter, or apply it to forks too.
        found.retain(|pull| pull.head == head && !pull.is_from_fork);
        found.sort_by_key(|pull| std::cmp::Reverse(pull.number));
        Ok(found)
    }

    async fn create_pull(&self, new: &NewPull) -> Result<CreatedPull, ForgeError> {
        let repository = self.asked(Duration::ZERO).await?;
        let Some(base) = new.base.clone().or_else(|| repository.default_branch.clone()) else {
            return Err(ForgeError::Refused("the repository has no default branch; set pullRequest.base".to_owned()));
        };
        match self.api.create_pull(&repository, new, &base).await {
            Err(error) => Err(self.explained(error).await),
            created => created,
        }
    }

    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError> {
        self.api.pull(&self.current().await?, number).await
    }

    async fn update_pull(&self, number: u64, change: &PullChange) -> Result<(), ForgeError> {
        match self.api.update_pull(&self.confirmed().await?, number, change).await {
            Err(error) => Err(self.explained(error).await),
            changed => changed,
        }
    }

    async fn auto_merge(&self, number: u64) -> Result<(), ForgeError> {
        let repository = self.confirmed().await?;
        match self.api.auto_merge(&repository, number).await {
            Err(error) => Err(self.explained(error).await),
            done => done,
        }
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        Some(self)
    }

    fn checks(&self) -> Option<&dyn Checks> {
        Some(self)
    }

    fn changes(&self) -> Option<&dyn Changes> {
        Some(self)
    }
}

#[async_trait]
impl Changes for HostedRepository {
    async fn poll(&self, query: &PollQuery) -> Result<Polled, ForgeError> {
        let is_read = AtomicBool::new(false);
        let read = || {
            is_read.store(true, Ordering::Relaxed);
            self.described()
        };
        let repository = self.known.repositories.get_within(DESCRIBED, self.key(), read).await?;
        self.identity.record(&repository).await?;
        let mut query = query.clone();
        query.pulls.retain(|pull| pull.repository == repository.id);
        let mut polled = self.api.poll(&repository, &query).await?;
        let was_read = is_read.into_inner();
        let mut read = u32::from(was_read);
        // An unchanged answer costs nothing on GitHub, and that of another repository is not unchanged.
        let is_suspect = !polled.events.is_empty()
            || match self.host.kind {
                HostKind::Github => polled.cost.charged > 0,
                _ => query.confirms,
            };
        if is_suspect && !was_read {
            read += 1;
            if self.asked(Duration::ZERO).await?.path != repository.path {
                let text = format!("the repository {} was renamed; it is polled again", repository.path);
                return Err(ForgeError::Unclear(text));
            }
        }
        polled.cost = Cost { requests: polled.cost.requests + read, charged: polled.cost.charged + read };
        Ok(polled)
    }
}

#[async_trait]
impl Checks for HostedRepository {
    async fn of_commit(&self, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        self.api.checks(&self.current().await?, sha).await
    }

    async fn log(&self, log: &str, limit: usize) -> Result<Option<Vec<u8>>, ForgeError> {
        self.api.check_log(&self.current().await?, log, limit).await
    }

    async fn set_status(&self, sha: &Sha, status: &CommitStatus) -> Result<(), ForgeError> {
        self.api.set_status(&self.confirmed().await?, sha, status).await
    }
}
