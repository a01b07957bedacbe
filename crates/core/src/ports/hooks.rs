//! Webhooks of code hosts.

use async_trait::async_trait;

use crate::code_host::{CodeHost, CodeHostId};
use crate::hook::HookEvent;
use crate::ids::ProjectId;
use crate::ports::StoreError;

/// A webhook as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawHook {
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl RawHook {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A webhook whose signature is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedHook {
    /// The code host.
    pub host: CodeHost,
    /// The ID of the delivery. A redelivery has the same.
    pub delivery: String,
    /// The name of the event, as the host writes it.
    pub event: String,
}

/// A webhook that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookRefusal {
    /// The code host or the project does not exist.
    #[error("there is no code host or project with this ID")]
    NotFound,
    /// No secret is set, so no webhook can be verified.
    #[error("no webhook secret is set for this code host or project; set one here and at the code host")]
    NoSecret,
    /// The signature is missing or wrong.
    #[error("the signature of the webhook is missing or does not match the secret")]
    Signature,
    /// The code host tests the URL, and does not sign that. Nothing is stored.
    #[error("the code host tests the URL, without a signature")]
    Test,
    /// A header that identifies the event is missing.
    #[error("the header {0} is missing")]
    Header(&'static str),
    /// The body cannot be read.
    #[error("the body cannot be read: {0}")]
    Unreadable(String),
    /// The store failed.
    #[error("{0}")]
    Unavailable(String),
}

/// Verifies and reads webhooks.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Checks what is known before the body of a webhook has arrived: the code host, that it has a secret, and the
    /// headers. `hook` has no body.
    ///
    /// # Errors
    /// The webhook would be refused, whatever its body is.
    async fn check_head(
        &self,
        host: &CodeHostId,
        project: Option<&ProjectId>,
        hook: &RawHook,
    ) -> Result<(), HookRefusal>;

    /// Finds the code host, and verifies the signature with its secret, or with that of the project.
    ///
    /// # Errors
    /// The code host or the project does not exist, or the webhook is not signed with the secret.
    async fn verify(
        &self,
        host: &CodeHostId,
        project: Option<&ProjectId>,
        hook: &RawHook,
    ) -> Result<VerifiedHook, HookRefusal>;

    /// Returns the code host of a stored webhook; `None` if it was removed.
    ///
    /// # Errors
    /// The store failed.
    async fn host(&self, host: &CodeHostId, project: Option<&ProjectId>) -> Result<Option<CodeHost>, StoreError>;

    /// Reads the body of a webhook.
    ///
    /// # Errors
    /// The body does not have the form of the event.
    fn read(&self, host: &CodeHost, event: &str, body: &[u8]) -> Result<HookEvent, String>;
}
