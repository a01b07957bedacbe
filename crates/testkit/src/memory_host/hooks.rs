//! The projects and webhooks of the code host in memory. The body of a webhook is an event in the form of all hosts.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHost, CodeHostId};
use journeyman_core::finding::Finding;
use journeyman_core::hook::{HookContent, HookEvent};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{Forge, ForgeError, Forges, HookRefusal, Hooks, RawHook, StoreError, VerifiedHook};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::run::Reason;

use super::MemoryHost;

/// The value of the header `signature` of a webhook that is accepted.
const SIGNATURE: &str = "valid";

impl MemoryHost {
    /// Returns the webhook of an event in the repository.
    #[must_use]
    pub fn hook(delivery: &str, content: HookContent) -> RawHook {
        let event = HookEvent { repository: Some(Self::repository()), sender: None, content };
        Self::hook_of(delivery, &event)
    }

    /// Returns the webhook of an event.
    #[must_use]
    pub fn hook_of(delivery: &str, event: &HookEvent) -> RawHook {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = vec![header("delivery", delivery), header("event", "test"), header("signature", SIGNATURE)];
        RawHook { headers, body: serde_json::to_vec(event).unwrap() }
    }
}

#[async_trait]
impl Hooks for MemoryHost {
    async fn check_head(
        &self,
        host: &CodeHostId,
        project: Option<&ProjectId>,
        hook: &RawHook,
    ) -> Result<(), HookRefusal> {
        self.verify(host, project, hook).await.map(drop)
    }

    async fn verify(
        &self,
        host: &CodeHostId,
        _: Option<&ProjectId>,
        hook: &RawHook,
    ) -> Result<VerifiedHook, HookRefusal> {
        let known = self.code_host();
        if known.id != *host {
            return Err(HookRefusal::NotFound);
        }
        if hook.header("signature") != Some(SIGNATURE) {
            return Err(HookRefusal::Signature);
        }
        let header = |name: &'static str| hook.header(name).map(str::to_owned).ok_or(HookRefusal::Header(name));
        Ok(VerifiedHook { host: known, delivery: header("delivery")?, event: header("event")? })
    }

    async fn host(&self, host: &CodeHostId, _: Option<&ProjectId>) -> Result<Option<CodeHost>, StoreError> {
        Ok(Some(self.code_host()).filter(|known| known.id == *host))
    }

    fn read(&self, _: &CodeHost, _: &str, body: &[u8]) -> Result<HookEvent, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Forges for MemoryHost {
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        match project.repository.as_str() {
            Self::REPOSITORY => Ok(Arc::new(self.clone())),
            other => Err(ForgeError::NotFound(other.to_owned())),
        }
    }

    async fn prepare(&self, _: &Project) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn check(&self, _: &Project, _: &SecretChanges) -> Result<Vec<Finding>, Reason> {
        Ok(Vec::new())
    }

    async fn code_host(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError> {
        Ok((project.repository == Self::REPOSITORY).then(|| self.code_host()))
    }

    async fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}
