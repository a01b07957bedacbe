//! Trusts, and the exchange of tokens for keys.

use reqwest::Method;

use crate::call::Call;
use crate::client::Client;
use crate::models::{ChangeTrust, CreateTrust, ExchangeToken, ExchangedKey, Trust};
use crate::pager::Pager;

/// The operations on trusts: rules about which tokens are exchanged for keys.
#[derive(Debug, Clone)]
pub struct Trusts {
    pub(crate) client: Client,
}

impl Trusts {
    /// Exchanges a token, such as that of a CI service, for a key that works for 15 minutes. It needs no key: see
    /// [`Client::without_key`].
    pub fn exchange(&self, token: &ExchangeToken) -> Call<ExchangedKey> {
        // If the response is lost, no client has the key, and it expires after 15 minutes.
        self.client.call(Method::POST, &["v2", "oidc", "exchange"]).harmless().json(token)
    }

    /// Lists the trusts, oldest first.
    pub fn list(&self) -> Pager<Trust> {
        self.client.list(&["v2", "oidc", "trusts"], "trusts")
    }

    /// Creates a trust.
    pub fn create(&self, trust: &CreateTrust) -> Call<Trust> {
        self.client.post(&["v2", "oidc", "trusts"]).json(trust)
    }

    /// Returns a trust.
    pub fn get(&self, trust: &str) -> Call<Trust> {
        self.client.get(&["v2", "oidc", "trusts", trust])
    }

    /// Changes a trust. Its keys are revoked, unless only its name changes.
    pub fn change(&self, trust: &str, changes: &ChangeTrust) -> Call<Trust> {
        self.client.call(Method::PATCH, &["v2", "oidc", "trusts", trust]).harmless().json(changes)
    }

    /// Deletes a trust, and revokes its keys at once.
    pub fn delete(&self, trust: &str) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &["v2", "oidc", "trusts", trust]).harmless()
    }
}
