//! Code hosts as administrators see them.

use async_trait::async_trait;

use super::{ForgeError, StoreError};
use crate::code_host::manifest::CreatedApp;
use crate::code_host::{CodeHost, CodeHostId};
use crate::finding::Finding;

/// A code host, and which of its secrets are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedHost {
    /// The code host.
    pub host: CodeHost,
    /// `true` if a token is set.
    pub has_token: bool,
    /// `true` if the private key of an app is set.
    pub has_private_key: bool,
    /// `true` if the secret that signs webhooks is set.
    pub has_webhook_secret: bool,
}

/// Reads and tests the code hosts of the configuration and of the store, and creates GitHub Apps.
#[async_trait]
pub trait HostAdmin: Send + Sync {
    /// Returns the code hosts, by ID. A code host of the configuration hides one of the store with the same ID or
    /// address.
    ///
    /// # Errors
    /// The store failed, or a secret cannot be decrypted.
    async fn code_hosts(&self) -> Result<Vec<DescribedHost>, StoreError>;

    /// Tests whether a code host answers, and accepts the credential; `None` if there is no such code host.
    ///
    /// # Errors
    /// The store failed, or a secret cannot be decrypted.
    async fn check_host(&self, id: &CodeHostId) -> Result<Option<Vec<Finding>>, StoreError>;

    /// Gets the app that a GitHub server has created from a manifest. A code is valid once, for an hour.
    ///
    /// # Errors
    /// The code is not valid, or GitHub cannot be reached.
    async fn created_app(&self, host: &CodeHost, code: &str) -> Result<CreatedApp, ForgeError>;
}
