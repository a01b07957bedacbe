//! What is known of the provider: its discovery document and its keys.

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

/// How long it is believed.
const FRESH: Duration = Duration::from_hours(1);

/// How long after a failure the provider is not asked again: those who wait then get the same answer, at once.
const PAUSE: Duration = Duration::from_secs(5);

/// What the library does not read in a discovery document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extra {
    /// RFC 9207: the browser comes back with the provider's name.
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl AdditionalProviderMetadata for Extra {}

/// A discovery document, with the keys.
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

/// A provider as it said it was.
pub(super) struct Provider {
    pub(super) metadata: Metadata,
    at: Timestamp,
}

impl Provider {
    /// Whether what came back is from this provider (RFC 9207).
    pub(super) fn check_issuer(&self, said: Option<&str>) -> Result<(), OidcError> {
        let must_say = self.metadata.additional_metadata().authorization_response_iss_parameter_supported;
        match said {
            Some(said) if said != self.metadata.issuer().as_str() => {
                Err(OidcError::bad(format!("the browser came back from {said:?}, which is another provider")))
            }
            None if must_say => Err(OidcError::bad("the browser came back without the parameter iss that it promises")),
            _ => Ok(()),
        }
    }
}

/// Whether the provider takes the client's secret only in the body of a request. What every provider takes unless it
/// says otherwise is a header.
pub(super) fn secret_in_body(metadata: &Metadata) -> bool {
    metadata.token_endpoint_auth_methods_supported().is_some_and(|methods| {
        methods.contains(&CoreClientAuthMethod::ClientSecretPost)
            && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
    })
}

/// The provider, kept for an hour.
#[derive(Default)]
pub(super) struct Providers(Mutex<Known>);

#[derive(Default)]
struct Known {
    found: Option<Arc<Provider>>,
    failed: Option<(OidcError, Timestamp)>,
}

impl Providers {
    /// The provider as it is known, or as it says it is.
    pub(super) async fn get(&self, http: &Http, issuer: &Url, now: Timestamp) -> Result<Arc<Provider>, OidcError> {
        // Held while the provider is asked: one asks for all who wait.
        let mut known = self.0.lock().await;
        match &known.found {
            Some(found) if now.since(found.at) < FRESH => Ok(Arc::clone(found)),
            _ => known.ask(http, issuer, now).await,
        }
    }

    /// The provider as it is after `used`, whose keys did not fit.
    pub(super) async fn renew(
        &self,
        http: &Http,
        issuer: &Url,
        used: &Arc<Provider>,
        now: Timestamp,
    ) -> Result<Arc<Provider>, OidcError> {
        let mut known = self.0.lock().await;
        match &known.found {
            Some(found) if !Arc::ptr_eq(found, used) => Ok(Arc::clone(found)),
            _ => known.ask(http, issuer, now).await,
        }
    }
}

impl Known {
    async fn ask(&mut self, http: &Http, issuer: &Url, now: Timestamp) -> Result<Arc<Provider>, OidcError> {
        if let Some((error, at)) = &self.failed
            && now.since(*at) < PAUSE
        {
            return Err(error.clone());
        }
        match discover(http, issuer).await {
            Ok(metadata) => {
                let provider = Arc::new(Provider { metadata, at: now });
                self.found = Some(Arc::clone(&provider));
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

/// OpenID Connect Discovery, 4. The library's own wants the issuer with the very slash at its end that the provider
/// writes, which people cannot know; nothing else may differ.
async fn discover(http: &Http, issuer: &Url) -> Result<Metadata, OidcError> {
    let base = issuer.as_str().trim_end_matches('/');
    let place = Url::parse(&format!("{base}/.well-known/openid-configuration"))
        .map_err(|error| OidcError::unconfigured(format!("oidc.issuer: {error}")))?;
    let metadata: Metadata = http.get(&place).await?;
    let says = metadata.issuer().as_str();
    if says.trim_end_matches('/') != base {
        return Err(OidcError::unconfigured(format!(
            "oidc.issuer is {issuer}, and the provider there says it is {says:?}"
        )));
    }
    let token = metadata.token_endpoint().map(|url| url.url());
    let user_info = metadata.userinfo_endpoint().map(|url| url.url());
    let places = [metadata.authorization_endpoint().url(), metadata.jwks_uri().url()];
    if let Some(place) = places.into_iter().chain(token).chain(user_info).find(|place| !http.permits(place)) {
        let origin = place.origin().ascii_serialization();
        return Err(OidcError::unconfigured(format!("its discovery document names {origin}, which is not https")));
    }
    let keys: CoreJsonWebKeySet = http.get(metadata.jwks_uri().url()).await?;
    Ok(metadata.set_jwks(keys))
}
