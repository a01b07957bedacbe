//! The keys of issuers, which are fetched from their discovery documents and kept in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::ACCEPT;
use ipnet::IpNet;
use journeyman_core::time::Timestamp;
use journeyman_net::{Client, Error as NetError, Limits, Policy, Resolver, Settings, is_loopback};
use jsonwebtoken::jwk::Jwk;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use url::Url;

use crate::jwt::KeySet;

/// The default timeout for each request to an issuer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of a document, in bytes. Real ones have a few kilobytes.
const MAX_BYTES: usize = 256 * 1024;

/// The maximum number of keys of an issuer that are kept.
const MAX_KEYS: usize = 100;

/// The maximum number of issuers whose keys are kept. There are not more trusts.
const MAX_ISSUERS: usize = 1000;

/// The time after which keys are fetched again.
const FRESH: Duration = Duration::from_hours(1);

/// The time for which keys are used while the issuer cannot be reached.
const STALE: Duration = Duration::from_hours(24);

/// The shortest time between two fetches from one issuer. Anyone can send tokens with unknown keys.
const PAUSE: Duration = Duration::from_mins(1);

/// The reason why there are no keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the keys of the issuer {issuer} cannot be read: {cause}")]
pub(super) struct NoKeys {
    issuer: String,
    cause: String,
}

/// The keys of all issuers.
pub(super) struct Keys {
    client: Client,
    patience: Duration,
    issuers: Mutex<HashMap<String, Arc<Mutex<Known>>>>,
}

/// The cached keys of one issuer, and the last fetch.
#[derive(Default)]
struct Known {
    /// The keys, and the time at which they were fetched.
    keys: Option<(Arc<[Jwk]>, Timestamp)>,
    /// The time of the last fetch, whether it succeeded or failed.
    tried_at: Option<Timestamp>,
    /// The error of the last fetch.
    error: Option<String>,
}

impl Keys {
    pub(super) fn new(allowed: &[IpNet], resolver: Arc<dyn Resolver>) -> Self {
        let policy = Policy::Public(allowed.into());
        let client = Client::new(Settings { policy, resolver, connect_time: PATIENCE, ..Settings::default() });
        Self { client, patience: PATIENCE, issuers: Mutex::default() }
    }

    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the keys of an issuer. Fetches them if they are old, or if none has the ID `kid`, but at most once a minute.
    ///
    /// # Errors
    /// The keys are not known, and cannot be fetched.
    pub(super) async fn find(
        self: Arc<Self>,
        issuer: String,
        kid: Option<String>,
        now: Timestamp,
    ) -> Result<Arc<[Jwk]>, NoKeys> {
        let named = issuer.clone();
        // A fetch ends also if its request is dropped. Otherwise a client that disconnects would use up the only fetch of
        // the minute.
        let found = tokio::spawn(async move { self.find_now(&issuer, kid.as_deref(), now).await }).await;
        found.unwrap_or_else(|error| Err(error.to_string())).map_err(|cause| NoKeys { issuer: named, cause })
    }

    async fn find_now(&self, issuer: &str, kid: Option<&str>, now: Timestamp) -> Result<Arc<[Jwk]>, String> {
        let known = self.known(issuer).await;
        // Only one request at a time asks the issuer; the others wait for its result.
        let mut known = known.lock().await;
        if !known.suffices(kid, now) && known.may_fetch(now) {
            known.tried_at = Some(now);
            match self.fetch(issuer).await {
                Ok(keys) => (known.keys, known.error) = (Some((keys, now)), None),
                Err(error) => {
                    tracing::warn!(issuer, error, "the keys of an OpenID issuer could not be fetched");
                    known.error = Some(error);
                }
            }
        }
        match &known.keys {
            // After a failed fetch, a key that is not known may be a new one of the issuer.
            Some((keys, at)) if now.since(*at) <= STALE && (known.error.is_none() || has_key(keys, kid)) => {
                Ok(Arc::clone(keys))
            }
            _ => Err(known
                .error
                .clone()
                .unwrap_or_else(|| "they were not fetched yet; try again in a minute".to_owned())),
        }
    }

    async fn known(&self, issuer: &str) -> Arc<Mutex<Known>> {
        let mut issuers = self.issuers.lock().await;
        if issuers.len() >= MAX_ISSUERS && !issuers.contains_key(issuer) {
            // The cache can contain issuers of removed trusts. The keys that are needed are fetched again.
            issuers.clear();
        }
        Arc::clone(issuers.entry(issuer.to_owned()).or_default())
    }

    async fn fetch(&self, issuer: &str) -> Result<Arc<[Jwk]>, String> {
        #[derive(Deserialize)]
        struct Discovery {
            issuer: String,
            jwks_uri: String,
        }
        let base = journeyman_core::trust::issuer(issuer).ok_or("its URL is not valid")?;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Discovery = self.get(&url).await?;
        if found.issuer != issuer {
            return Err(format!("the discovery document at {url} is of another issuer"));
        }
        let url = Url::parse(&found.jwks_uri).map_err(|_| "its jwks_uri is not a URL".to_owned())?;
        let is_local = |url: &Url| url.scheme() == "http" && is_loopback(url);
        if url.scheme() != "https" && !(is_local(&base) && is_local(&url)) {
            return Err("its jwks_uri does not use https".to_owned());
        }
        let set: KeySet = self.get(url.as_str()).await?;
        let keys: Arc<[Jwk]> = set.keys.into_iter().take(MAX_KEYS).collect();
        if keys.is_empty() { Err("it publishes no keys".to_owned()) } else { Ok(keys) }
    }

    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, String> {
        let request = http::Request::get(url).header(ACCEPT, "application/json").body(Bytes::new());
        let request = request.map_err(|error| error.to_string())?;
        let limits = Limits { time: self.patience, bytes: MAX_BYTES };
        let answer = self.client.send(request, limits).await.map_err(|error| match error {
            NetError::NotPermitted(host) => {
                format!("{host} is not a public address; an operator can allow its network with oidc-networks")
            }
            error => error.to_string(),
        })?;
        if answer.status() != StatusCode::OK {
            return Err(format!("{url} answers with status {}", answer.status().as_u16()));
        }
        serde_json::from_slice(answer.body()).map_err(|_| format!("the document at {url} is not valid"))
    }
}

/// Returns whether one of the keys has the ID, if there is one.
fn has_key(keys: &[Jwk], kid: Option<&str>) -> bool {
    kid.is_none_or(|kid| keys.iter().any(|key| key.common.key_id.as_deref() == Some(kid)))
}

impl Known {
    /// Returns whether the keys are fresh and have the ID.
    fn suffices(&self, kid: Option<&str>, now: Timestamp) -> bool {
        let Some((keys, at)) = &self.keys else { return false };
        let is_fresh = now.since(*at) <= FRESH;
        is_fresh && has_key(keys, kid)
    }

    fn may_fetch(&self, now: Timestamp) -> bool {
        // A time in the future is from before the clock was set back.
        self.tried_at.is_none_or(|tried| now.since(tried) >= PAUSE || tried > now)
    }
}
