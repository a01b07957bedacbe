//! API keys.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::call::Call;
use crate::client::Client;
use crate::models::{CreateKey, CreatedKey, Key};
use crate::pager::Pager;

/// The operations on API keys.
#[derive(Debug, Clone)]
pub struct Keys {
    pub(crate) client: Client,
}

impl Keys {
    /// Lists the keys without their secrets, and without those that were exchanged for tokens.
    pub fn list(&self) -> Pager<Key> {
        self.client.list(&["v2", "keys"], "keys")
    }

    /// Lists the keys that were exchanged for tokens, without their secrets.
    pub fn list_exchanged(&self) -> Pager<Key> {
        self.list().query("origin", "exchanged")
    }

    /// Creates a key. Only the result contains its secret.
    pub fn create(&self, key: &CreateKey) -> Call<CreatedKey> {
        self.client.post(&["v2", "keys"]).json(key)
    }

    /// Returns a key without its secret.
    pub fn get(&self, key: &str) -> Call<Key> {
        self.client.get(&["v2", "keys", key])
    }

    /// Revokes a key, at once.
    pub fn revoke(&self, key: &str) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &["v2", "keys", key]).harmless()
    }

    /// Gives a key a new secret, which only the result contains. The old one works too for `keep_old`, up to 7 days.
    pub fn rotate(&self, key: &str, keep_old: Duration) -> Call<CreatedKey> {
        let body = json!({ "keepOldSeconds": keep_old.as_secs() });
        self.client.post(&["v2", "keys", key, "rotate"]).json(&body)
    }
}
