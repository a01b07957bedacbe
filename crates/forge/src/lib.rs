//! Code hosts, which store repositories and open pull requests.
//!
//! [`CodeHosts`] finds the host of a project: the built-in host for `local:<name>`, a configured code host or a public
//! service by the address of the repository, otherwise a plain git remote, which receives branches and opens no pull
//! requests.
//!
//! | module | task |
//! |---|---|
//! | [`find`] | find the code host of a project, with its credential |
//! | `hosted` | what all code hosts with an HTTP interface share |
//! | `github`, … | the interface of each product |
//! | `http` | requests: errors, rate limits, pages, renamed repositories |
//! | `identity` | recognize a repository by its ID, since its address may become another repository's |
//! | `feed` | the requests of polls |
//! | `local` | the built-in code host |
//! | `plain` | git remotes without pull requests |

mod account;
mod bitbucket;
mod bitbucket_data_center;
mod cache;
mod check;
mod copy;
mod feed;
pub mod find;
mod gitea;
mod github;
mod gitlab;
mod hooks;
mod hosted;
mod http;
mod identity;
mod json;
mod local;
mod merge;
mod plain;
mod report;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::manifest::CreatedApp;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostSecrets};
use journeyman_core::finding::Finding;
use journeyman_core::hosted_storage::{HostedStorage, StorageRecord};
use journeyman_core::ports::{
    CodeHostStore, ComparisonStore, DescribedHost, Forge, ForgeError, Forges, HostAdmin, HostedObjects, ImportFailed,
    ProjectStore, PullStore, Reach, ReachedServers, Remote, StoreError, UserStore,
};
use journeyman_core::project::{Address, CODE_HOST_TOKEN, CodeHostKind, Project, SecretChanges, parse_address};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::Clock;
use journeyman_git::Git;
pub use journeyman_net::Outbound;

use self::find::{Finder, HostWithSecrets};

pub use check::check_code_host;
pub use copy::{CopyError, JobBranch, Refs, copy_repository, refs, repository_names};
pub use local::{LocalHost, is_unfinished, write_hooks};

/// The time limit for resolving a host name.
const RESOLVE_TIME: Duration = Duration::from_secs(5);

/// The ports and settings of [`CodeHosts`].
pub struct Parts {
    /// Runs git.
    pub git: Git,
    /// The folder of the built-in host.
    pub repositories: PathBuf,
    /// The folder of the built-in host's hooks ([`write_hooks`]).
    pub hooks: PathBuf,
    /// The URL of the service, without a slash at its end.
    pub public_url: String,
    /// The pull requests of the built-in host.
    pub pulls: Arc<dyn PullStore>,
    /// The comparisons of pull requests with their bases, which a push makes due.
    pub comparisons: Arc<dyn ComparisonStore>,
    /// The users of the dashboard, who comment on pull requests of the built-in host.
    pub users: Arc<dyn UserStore>,
    /// The secrets of projects.
    pub secrets: Arc<dyn ProjectStore>,
    /// The code hosts that are defined in the store.
    pub hosts: Arc<dyn CodeHostStore>,
    /// The code hosts of the configuration file.
    pub configured: Vec<(CodeHost, HostSecrets)>,
    /// The settings for connections to code hosts.
    pub outbound: Outbound,
    /// The objects of Git LFS of the built-in host.
    pub objects: Arc<dyn HostedObjects>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// The code hosts of an installation. Cheap to clone.
#[derive(Clone)]
pub struct CodeHosts {
    git: Git,
    local: LocalHost,
    finder: Finder,
}

impl CodeHosts {
    /// Creates the hosts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            git,
            repositories,
            hooks,
            public_url,
            pulls,
            comparisons,
            users,
            secrets,
            hosts,
            configured,
            outbound,
            clock,
            objects,
        } = parts;
        let stores = (pulls, comparisons, users, Arc::clone(&secrets));
        let folders = (repositories, hooks);
        let local = LocalHost::new(git.clone(), folders, public_url, stores, objects, Arc::clone(&clock));
        Self { local, git, finder: Finder::new(secrets, hosts, configured, outbound, clock) }
    }

    /// Returns the built-in host.
    #[must_use]
    pub const fn local(&self) -> &LocalHost {
        &self.local
    }

    /// Returns the part that finds code hosts.
    #[must_use]
    pub const fn finder(&self) -> &Finder {
        &self.finder
    }
}

#[async_trait]
impl Forges for CodeHosts {
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        let address = parse_address(&project.repository).map_err(|error| ForgeError::Refused(error.to_string()))?;
        match (address, project.settings.code_host.kind) {
            (Address::Local(name), None | Some(CodeHostKind::Local)) => {
                Ok(Arc::new(self.local.repository(&project.id, name)))
            }
            // The built-in host's branches without its pull requests.
            (Address::Local(name), Some(CodeHostKind::Plain)) => {
                let url = self.local.path(&name).to_string_lossy().into_owned();
                Ok(Arc::new(plain::PlainRemote::ours(url)))
            }
            (Address::Local(_), Some(_)) => {
                let text = "the repository is on the built-in code host, so codeHost.kind must be local or plain";
                Err(ForgeError::Refused(text.to_owned()))
            }
            (Address::Path(_) | Address::Url(_), Some(CodeHostKind::Local)) => {
                let text = "codeHost.kind is local, so the repository must be written as local:<name>";
                Err(ForgeError::Refused(text.to_owned()))
            }
            (Address::Path(url) | Address::Url(url), _) => self.finder.of(project, url, None).await,
        }
    }

    async fn prepare(&self, project: &Project) -> Result<(), ForgeError> {
        match parse_address(&project.repository) {
            Ok(Address::Local(name)) => self.local.prepare(&name).await,
            _ => Ok(()),
        }
    }

    async fn check(&self, project: &Project, changes: &SecretChanges) -> Result<Vec<Finding>, Reason> {
        self.check_and_record(project, changes, &ReachedServers::default()).await
    }

    async fn check_and_record(
        &self,
        project: &Project,
        changes: &SecretChanges,
        reached: &ReachedServers,
    ) -> Result<Vec<Finding>, Reason> {
        let url = match parse_address(&project.repository) {
            Ok(Address::Path(url) | Address::Url(url)) => url,
            // The built-in host creates a missing repository.
            Ok(Address::Local(_)) => return Ok(vec![Finding::ok("repository", "on the built-in code host")]),
            Err(error) => return Err(Reason::new(ReasonCode::RepositoryNotFound, error.to_string())),
        };
        let changed = changes.get(CODE_HOST_TOKEN).cloned();
        let forge = self.finder.of(project, url, changed).await.map_err(check::reason)?;
        let host = self.finder.host_of(project).await.map_err(check::reason)?;
        let page = host.map_or("docs/code-hosts.md", |host| check::page_of(host.kind));
        let unusable = |error: std::io::Error| {
            Reason::new(ReasonCode::Internal, format!("a folder for the test could not be made: {error}"))
        };
        let (scratch, _lock) = self.local.scratch("check").await.map_err(unusable)?;
        let now = self.finder.clock().now();
        let checked = check::repository(&self.git.recording(reached), &*forge, page, &scratch, now).await;
        // A folder that stays is removed at the next start of the service.
        let _ = tokio::fs::remove_dir_all(&scratch).await;
        checked
    }

    async fn code_host(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError> {
        match parse_address(&project.repository) {
            Ok(Address::Path(_) | Address::Url(_)) => self.finder.host_of(project).await,
            Ok(Address::Local(_)) | Err(_) => Ok(None),
        }
    }

    async fn import(
        &self,
        project: &Project,
        from: &Remote,
        reached: &ReachedServers,
    ) -> Result<Option<String>, ImportFailed> {
        match parse_address(&project.repository) {
            Ok(Address::Local(name)) => self.local.import(&name, from, reached).await,
            _ => Err(ImportFailed("The project's repository is not on the built-in code host.".to_owned())),
        }
    }

    async fn remove(&self, repository: &str) -> Result<(), ForgeError> {
        self.local.remove(repository).await
    }

    async fn storage(&self, project: &Project) -> Option<StorageRecord> {
        match parse_address(&project.repository) {
            Ok(Address::Local(name)) => self.local.storage(&name).await,
            _ => None,
        }
    }

    async fn storage_of_all(&self) -> Result<HostedStorage, ForgeError> {
        self.local.storage_of_all().await.map_err(|error| ForgeError::Unclear(error.to_string()))
    }

    async fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = tokio::time::timeout(RESOLVE_TIME, self.finder.outbound().resolver.resolve(name)).await;
        found.ok().and_then(Result::ok).unwrap_or_default()
    }

    async fn reach(&self, url: &str) -> Result<Reach, StoreError> {
        self.finder.reach(url).await
    }
}

#[async_trait]
impl HostAdmin for CodeHosts {
    async fn code_hosts(&self) -> Result<Vec<DescribedHost>, StoreError> {
        let mut described = Vec::new();
        for host in self.finder.hosts().await? {
            let found = self.finder.host(&host.id).await?;
            let secrets = found.map(|found| found.secrets).unwrap_or_default();
            described.push(DescribedHost {
                has_token: secrets.token.is_some(),
                has_private_key: secrets.private_key.is_some(),
                has_webhook_secret: secrets.webhook.is_some(),
                host,
            });
        }
        Ok(described)
    }

    async fn check_host(&self, id: &CodeHostId) -> Result<Option<Vec<Finding>>, StoreError> {
        let Some(HostWithSecrets { host, secrets }) = self.finder.host(id).await? else { return Ok(None) };
        Ok(Some(check_code_host(&host, &secrets, self.finder.outbound(), self.finder.clock()).await))
    }

    async fn created_app(&self, host: &CodeHost, code: &str) -> Result<CreatedApp, ForgeError> {
        github::created_app::created_app(&find::client_of(host, self.finder.outbound(), self.finder.clock()), code)
            .await
    }
}

#[cfg(test)]
mod tests;
