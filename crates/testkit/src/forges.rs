//! Code hosts that exist only in memory.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::ids::Sha;
use journeyman_core::ports::{Forge, ForgeError, Forges, PullDetail, PullPages, PullPagesError};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::pull::LocalPull;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::Timestamp;

/// Code hosts whose repositories can all be read, except [`FakeForges::MISSING`] and [`FakeForges::BROKEN`]. Jobs
/// cannot work on them. Their pull requests can always be merged.
#[derive(Debug, Default)]
pub struct FakeForges;

impl FakeForges {
    /// A repository that does not exist.
    pub const MISSING: &str = "https://gone.example/a.git";
    /// A repository whose preparation fails.
    pub const BROKEN: &str = "local:broken";
    /// A name with a link-local address.
    pub const LINK_LOCAL: &str = "links.example";
}

#[async_trait]
impl Forges for FakeForges {
    async fn of(&self, _: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        Err(ForgeError::Refused("this test has no code host".to_owned()))
    }

    async fn check(&self, project: &Project, _: &SecretChanges) -> Result<(), Reason> {
        match project.repository.as_str() {
            Self::MISSING => Err(Reason::new(ReasonCode::RepositoryNotFound, "the repository does not exist")),
            _ => Ok(()),
        }
    }

    async fn prepare(&self, project: &Project) -> Result<(), ForgeError> {
        match project.repository.as_str() {
            Self::BROKEN => Err(ForgeError::Refused("the disk is full".to_owned())),
            _ => Ok(()),
        }
    }

    async fn addresses(&self, name: &str) -> Vec<IpAddr> {
        if name == Self::LINK_LOCAL { vec![[169, 254, 7, 7].into()] } else { Vec::new() }
    }
}

#[async_trait]
impl PullPages for FakeForges {
    async fn pulls(&self, _: &Project) -> Result<Vec<LocalPull>, PullPagesError> {
        Err(PullPagesError::NotFound)
    }

    async fn pull(&self, _: &Project, _: u64) -> Result<PullDetail, PullPagesError> {
        Err(PullPagesError::NotFound)
    }

    async fn merge(&self, _: &Project, _: u64, _: &str, _: Timestamp) -> Result<(Sha, Sha), PullPagesError> {
        Ok(ends())
    }

    async fn ends(&self, _: &Project, _: u64) -> Result<Option<(Sha, Sha)>, PullPagesError> {
        Ok(Some(ends()))
    }
}

#[expect(clippy::unwrap_used, reason = "a constant")]
fn ends() -> (Sha, Sha) {
    ["a", "b"].map(|digit| digit.repeat(40).parse().unwrap()).into()
}
