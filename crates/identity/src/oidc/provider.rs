//! A cache for the provider's discovery document and keys.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::time::Timestamp;
use jsonwebtoken::jwk::Jwk;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tokio::sync::Mutex;
use url::Url;

use super::OidcError;
use super::http::Http;
use crate::jwt::KeySet;

/// The time after which the discovery document and the keys are fetched again.
const CACHE_LIFETIME: Duration = Duration::from_hours(1);

/// The time after a failed fetch in which there is no other attempt: all sign-ins get the same error at once.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The fields of a discovery document that a sign-in needs (OpenID Connect Discovery, 3).
#[derive(Deserialize)]
pub(super) struct Metadata {
    /// The issuer identifier. Tokens have exactly this text, so it is not parsed.
    pub(super) issuer: String,
    #[serde(deserialize_with = "required_url")]
    pub(super) authorization_endpoint: Url,
    #[serde(deserialize_with = "required_url")]
    pub(super) token_endpoint: Url,
    #[serde(default, deserialize_with = "optional_url")]
    pub(super) userinfo_endpoint: Option<Url>,
    #[serde(deserialize_with = "required_url")]
    jwks_uri: Url,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// True if the provider adds the parameter `iss` to its responses (RFC 9207).
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

fn required_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    Url::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn optional_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| Url::parse(&text)).transpose().map_err(D::Error::custom)
}

impl Metadata {
    /// Returns true if the provider accepts the client secret in the body of a request and not in a header. By default,
    /// every provider accepts it in a header.
    pub(super) fn takes_secret_in_body(&self) -> bool {
        self.token_endpoint_auth_methods_supported.as_ref().is_some_and(|methods| {
            let has = |name: &str| methods.iter().any(|method| method == name);
            has("client_secret_post") && !has("client_secret_basic")
        })
    }

    fn endpoints(&self) -> impl Iterator<Item = &Url> {
        let required = [&self.authorization_endpoint, &self.token_endpoint, &self.jwks_uri];
        required.into_iter().chain(&self.userinfo_endpoint)
    }
}

/// A provider as described by its discovery document.
pub(super) struct Provider {
    pub(super) metadata: Metadata,
    /// The keys with which the provider signs tokens.
    pub(super) keys: Vec<Jwk>,
    fetched_at: Timestamp,
}

impl Provider {
    /// Checks that a response comes from this provider (RFC 9207).
    pub(super) fn check_issuer(&self, issuer: Option<&str>) -> Result<(), OidcError> {
        match issuer {
            Some(issuer) if issuer != self.metadata.issuer => {
                Err(OidcError::bad(format!("the browser came back from another provider, {issuer:?}")))
            }
            None if self.metadata.authorization_response_iss_parameter_supported => {
                Err(OidcError::bad("the provider announces the parameter iss, but did not send it"))
            }
            _ => Ok(()),
        }
    }
}

/// A cache of the provider for [`CACHE_LIFETIME`].
#[derive(Default)]
pub(super) struct Providers(Mutex<Cache>);

#[derive(Default)]
struct Cache {
    provider: Option<Arc<Provider>>,
    failed: Option<(OidcError, Timestamp)>,
}

impl Providers {
    /// Returns the cached provider, or fetches it.
    pub(super) async fn get(&self, http: &Http, issuer: &Url, now: Timestamp) -> Result<Arc<Provider>, OidcError> {
        // The lock is held during the fetch, so that one request serves all sign-ins that wait.
        let mut cache = self.0.lock().await;
        match &cache.provider {
            Some(provider) if now.since(provider.fetched_at) < CACHE_LIFETIME => Ok(Arc::clone(provider)),
            _ => cache.fetch(http, issuer, now).await,
        }
    }

    /// Fetches the provider again, unless `used`, whose keys did not match, was already replaced.
    pub(super) async fn renew(
        &self,
        http: &Http,
        issuer: &Url,
        used: &Arc<Provider>,
        now: Timestamp,
    ) -> Result<Arc<Provider>, OidcError> {
        let mut cache = self.0.lock().await;
        match &cache.provider {
            Some(provider) if !Arc::ptr_eq(provider, used) => Ok(Arc::clone(provider)),
            _ => cache.fetch(http, issuer, now).await,
        }
    }
}

impl Cache {
    async fn fetch(&mut self, http: &Http, issuer: &Url, now: Timestamp) -> Result<Arc<Provider>, OidcError> {
        if let Some((error, at)) = &self.failed
            && now.since(*at) < RETRY_DELAY
        {
            return Err(error.clone());
        }
        match discover(http, issuer).await {
            Ok((metadata, keys)) => {
                let provider = Arc::new(Provider { metadata, keys, fetched_at: now });
                self.provider = Some(Arc::clone(&provider));
                self.failed = None;
                Ok(provider)
            }
            Err(error) => {
                self.failed = Some((error.clone(), now));
                Err(error)
            }
        }
    }
}

/// Fetches the discovery document and the keys (OpenID Connect Discovery, 4). Operators cannot know whether the
/// provider writes its issuer with a trailing slash, so that slash may differ.
async fn discover(http: &Http, issuer: &Url) -> Result<(Metadata, Vec<Jwk>), OidcError> {
    let base = issuer.as_str().trim_end_matches('/');
    let url = Url::parse(&format!("{base}/.well-known/openid-configuration"))
        .map_err(|error| OidcError::unconfigured(format!("oidc-issuer: {error}")))?;
    let metadata: Metadata = http.get(&url).await?;
    if metadata.issuer.trim_end_matches('/') != base {
        return Err(OidcError::unconfigured(format!(
            "oidc-issuer is {issuer}, but the discovery document there has the issuer {:?}",
            metadata.issuer
        )));
    }
    if let Some(url) = metadata.endpoints().find(|url| !http.permits(url)) {
        let origin = url.origin().ascii_serialization();
        return Err(OidcError::unconfigured(format!(
            "the discovery document names {origin}, which does not use https"
        )));
    }
    let set: KeySet = http.get(&metadata.jwks_uri).await?;
    Ok((metadata, set.keys))
}
