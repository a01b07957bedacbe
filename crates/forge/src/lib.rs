//! Code hosts, which store repositories and open pull requests.
//!
//! [`CodeHosts`] selects the host of a project: the built-in host for `local:<name>`, otherwise a plain git remote,
//! which receives branches and opens no pull requests.

mod check;
mod copy;
mod local;
mod plain;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Forge, ForgeError, Forges, ProjectStore, PullStore};
use journeyman_core::project::{Address, CODE_HOST_TOKEN, CodeHostKind, Project, SecretChanges, parse_address};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::Clock;
use journeyman_git::Git;

pub use copy::{CopyError, JobBranch, Refs, copy_repository, refs, repository_names};
pub use local::{LocalHost, is_unfinished};

/// The time limit for resolving a host name.
const RESOLVE_TIME: Duration = Duration::from_secs(5);

/// The code hosts that this installation supports.
#[derive(Clone)]
pub struct CodeHosts {
    git: Git,
    local: LocalHost,
    secrets: Arc<dyn ProjectStore>,
}

impl CodeHosts {
    /// Creates the hosts. The built-in host has its repositories in `repositories` and its pages below `public_url`
    /// (which has no slash at its end).
    #[must_use]
    pub fn new(
        git: Git,
        repositories: PathBuf,
        public_url: String,
        pulls: Arc<dyn PullStore>,
        secrets: Arc<dyn ProjectStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { local: LocalHost::new(git.clone(), repositories, public_url, pulls, clock), git, secrets }
    }

    /// Returns the built-in host.
    #[must_use]
    pub const fn local(&self) -> &LocalHost {
        &self.local
    }
}

#[async_trait]
impl Forges for CodeHosts {
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        let address = parse_address(&project.repository).map_err(|error| ForgeError::Refused(error.to_string()))?;
        let url = match (address, project.settings.code_host.kind) {
            (Address::Local(name), None | Some(CodeHostKind::Local)) => {
                return Ok(Arc::new(self.local.repository(&project.id, name)));
            }
            // The built-in host's branches without its pull requests.
            (Address::Local(name), Some(CodeHostKind::Plain)) => {
                let url = self.local.path(&name).to_string_lossy().into_owned();
                return Ok(Arc::new(plain::PlainRemote::ours(url)));
            }
            (Address::Path(_) | Address::Url(_), Some(CodeHostKind::Local)) => {
                let text = "codeHost.kind is local, so the repository must be written as local:<name>";
                return Err(ForgeError::Refused(text.to_owned()));
            }
            (Address::Path(url) | Address::Url(url), None | Some(CodeHostKind::Plain)) => url,
        };
        let secrets = self.secrets.secrets(project.id.clone()).await;
        let mut secrets = secrets.map_err(|error| ForgeError::Unclear(error.to_string()))?;
        let username = project.settings.code_host.username.clone();
        Ok(Arc::new(plain::PlainRemote::new(url, username, secrets.remove(CODE_HOST_TOKEN))))
    }

    async fn prepare(&self, project: &Project) -> Result<(), ForgeError> {
        match parse_address(&project.repository) {
            Ok(Address::Local(name)) => self.local.prepare(&name).await,
            _ => Ok(()),
        }
    }

    async fn check(&self, project: &Project, changes: &SecretChanges) -> Result<(), Reason> {
        let url = match parse_address(&project.repository) {
            Ok(Address::Path(url) | Address::Url(url)) => url,
            // The built-in host creates a missing repository.
            Ok(Address::Local(_)) => return Ok(()),
            Err(error) => return Err(Reason::new(ReasonCode::RepositoryNotFound, error.to_string())),
        };
        let token = match changes.get(CODE_HOST_TOKEN) {
            Some(changed) => changed.clone(),
            None => {
                let stored = self.secrets.secrets(project.id.clone()).await;
                stored.map_err(|error| Reason::new(ReasonCode::Internal, error.to_string()))?.remove(CODE_HOST_TOKEN)
            }
        };
        let remote = plain::PlainRemote::new(url, project.settings.code_host.username.clone(), token).into_remote();
        check::read(&self.git, &remote).await
    }

    async fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = tokio::time::timeout(RESOLVE_TIME, tokio::net::lookup_host((name, 0))).await;
        found.ok().and_then(Result::ok).map_or_else(Vec::new, |found| found.map(|address| address.ip()).collect())
    }
}

#[cfg(test)]
mod tests;
