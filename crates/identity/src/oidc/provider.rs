//! A cache for the provider's discovery document and keys.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::time::Timestamp;
use openidconnect::core::{
    CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClientAuthMethod, CoreGrantType, CoreJsonWebKey,
    CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm, CoreResponseMode,
    CoreResponseType, CoreSubjectIdentifierType,
};
use openidconnect::{AdditionalProviderMetadata, ProviderMetadata};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use url::Url;

use super::OidcError;
use super::http::Http;

/// The time after which the discovery document and the keys are fetched again.
const CACHE_LIFETIME: Duration = Duration::from_hours(1);

/// The time after a failed fetch in which there is no other attempt: all sign-ins get the same error at once.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The fields of a discovery document that the library does not read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extra {
    /// True if the provider adds the parameter `iss` to its responses (RFC 9207).
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl AdditionalProviderMetadata for Extra {}

/// The type of a discovery document with its keys.
pub(super) type Metadata = ProviderMetadata<
    Extra,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// A provider as described by its discovery document.
pub(super) struct Provider {
    pub(super) metadata: Metadata,
    fetched_at: Timestamp,
}

impl Provider {
    /// Checks that a response comes from this provider (RFC 9207).
    pub(super) fn check_issuer(&self, issuer: Option<&str>) -> Result<(), OidcError> {
        let required = self.metadata.additional_metadata().authorization_response_iss_parameter_supported;
        match issuer {
            Some(issuer) if issuer != self.metadata.issuer().as_str() => {
                Err(OidcError::bad(format!("the browser came back from another provider, {issuer:?}")))
            }
            None if required => Err(OidcError::bad("the provider announces the parameter iss, but did not send it")),
            _ => Ok(()),
        }
    }
}

/// Returns true if the provider accepts the client secret in the body of a request and not in a header. By default,
/// every provider accepts it in a header.
pub(super) fn secret_in_body(metadata: &Metadata) -> bool {
    metadata.token_endpoint_auth_methods_supported().is_some_and(|methods| {
        methods.contains(&CoreClientAuthMethod::ClientSecretPost)
            && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
    })
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
            Ok(metadata) => {
                let provider = Arc::new(Provider { metadata, fetched_at: now });
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

/// Fetches the discovery document and the keys (OpenID Connect Discovery, 4). The library's own function requires the
/// same trailing slash that the provider writes, which operators cannot know. Here only that slash may differ.
async fn discover(http: &Http, issuer: &Url) -> Result<Metadata, OidcError> {
    let base = issuer.as_str().trim_end_matches('/');
    let url = Url::parse(&format!("{base}/.well-known/openid-configuration"))
        .map_err(|error| OidcError::unconfigured(format!("oidc-issuer: {error}")))?;
    let metadata: Metadata = http.get(&url).await?;
    let named = metadata.issuer().as_str();
    if named.trim_end_matches('/') != base {
        return Err(OidcError::unconfigured(format!(
            "oidc-issuer is {issuer}, but the discovery document there has the issuer {named:?}"
        )));
    }
    let token = metadata.token_endpoint().map(|url| url.url());
    let user_info = metadata.userinfo_endpoint().map(|url| url.url());
    let endpoints = [metadata.authorization_endpoint().url(), metadata.jwks_uri().url()];
    if let Some(url) = endpoints.into_iter().chain(token).chain(user_info).find(|url| !http.permits(url)) {
        let origin = url.origin().ascii_serialization();
        return Err(OidcError::unconfigured(format!(
            "the discovery document names {origin}, which does not use https"
        )));
    }
    let keys: CoreJsonWebKeySet = http.get(metadata.jwks_uri().url()).await?;
    Ok(metadata.set_jwks(keys))
}
