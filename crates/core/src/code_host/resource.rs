//! How administrators create, change and remove code hosts.

use super::{CodeHost, CodeHostId, HostSecretChanges};
use crate::refusal::ResourceKind;
use crate::resource::Resource;

impl Resource for CodeHost {
    const KIND: ResourceKind = ResourceKind::CodeHost;
    const HAS_CHOSEN_ID: bool = true;
    type Id = CodeHostId;
    type Secrets = HostSecretChanges;
    /// `true` if a project names the code host.
    type Related = bool;

    fn id(&self) -> &CodeHostId {
        &self.id
    }

    fn unique_name(&self) -> String {
        self.name().0
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn with_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// [`Draft::host`](super::draft::Draft::host) has checked the fields together with the secrets.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn check_unused(is_used: &bool) -> Result<(), String> {
        if !is_used {
            return Ok(());
        }
        Err("a project uses this code host; change codeHost.host of the project first".to_owned())
    }

    fn exists() -> String {
        "a code host with this ID or this address already exists".to_owned()
    }
}
