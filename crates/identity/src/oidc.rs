//! Sign-in through an OpenID provider: the authorization code flow with PKCE, state and nonce.
//!
//! [`Oidc::begin`] returns the provider's URL for the browser, and a [`Pending`] to keep until the browser comes back.
//! [`Oidc::finish`] takes the parameters that the browser brings back and returns the [`Person`] whom the provider
//! authenticated.
//!
//! The first sign-in makes the first request to the provider, so that the server starts even if the provider is down.

mod error;
mod http;
mod pending;
mod provider;
mod settings;
mod token;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::time::{IdGen, Timestamp};
use openidconnect::core::{CoreAuthenticationFlow, CoreClient, CoreTokenResponse, CoreUserInfoClaims};
use openidconnect::{
    AuthType, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointMaybeSet, EndpointNotSet, EndpointSet,
    Nonce, OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, SubjectIdentifier,
    TokenResponse,
};
use serde::Deserialize;
use url::Url;

pub use error::OidcError;
pub use pending::{PENDING_LIFETIME, Pending};
pub use settings::{ANY_DOMAIN, DEFAULT_SCOPES, InvalidOidcSettings, OidcSettings};

use self::http::Http;
use self::provider::{Metadata, Provider, Providers};
use self::token::Profile;

/// The default timeout for each request to the provider.
const PATIENCE: Duration = Duration::from_secs(10);

/// The type of a client that is built from a discovery document.
type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// A sign-in that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The provider's authorization URL, to which the browser is redirected.
    pub url: Url,
    /// The state that [`Oidc::finish`] needs. It belongs to this browser alone and is valid for one attempt.
    pub pending: Pending,
}

/// The query parameters with which the provider sends the browser back.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Returned {
    /// The authorization code, which is exchanged for a token.
    pub code: Option<String>,
    /// The `state` parameter from the URL of [`Oidc::begin`].
    pub state: Option<String>,
    /// The issuer identifier of the provider, if the provider sends it (RFC 9207).
    pub iss: Option<String>,
    /// The error code of a provider that sends no authorization code.
    pub error: Option<String>,
    /// The provider's description of the error.
    pub error_description: Option<String>,
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The code is a credential until it is used.
        f.debug_struct("Returned").field("iss", &self.iss).field("error", &self.error).finish_non_exhaustive()
    }
}

/// A person whom the provider authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The issuer identifier of the provider.
    pub issuer: String,
    /// The provider's identifier for the person. Issuer and subject together are unique and never change: identify
    /// people by them, not by their email address.
    pub subject: String,
    /// The email address that the provider has on record.
    pub email: Option<String>,
    /// True if the provider verified that the address belongs to the person. Do not trust an unverified address: the
    /// person may have typed any. Always true unless [`OidcSettings::allowed_domains`] is [`ANY_DOMAIN`].
    pub email_verified: bool,
    /// The person's display name.
    pub name: Option<String>,
}

/// Sign-in through one provider.
pub struct Oidc {
    settings: OidcSettings,
    http: Http,
    ids: Arc<dyn IdGen>,
    providers: Providers,
}

impl Oidc {
    /// Creates a client with these settings, without a request to the provider.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn new(settings: OidcSettings, ids: Arc<dyn IdGen>) -> Result<Self, InvalidOidcSettings> {
        let settings = settings.checked()?;
        let http = Http::new(&settings.issuer, PATIENCE);
        Ok(Self { settings, http, ids, providers: Providers::default() })
    }

    /// Replaces the timeout of ten seconds for each request to the provider.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.http.patience = patience;
        self
    }

    /// Returns the settings in their checked form.
    #[must_use]
    pub fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// Begins a sign-in. The provider sends the browser back to `redirect`, which must be registered there.
    ///
    /// # Errors
    /// Fails if the provider cannot be reached, or if its discovery document is not valid.
    pub async fn begin(&self, redirect: &Url, now: Timestamp) -> Result<Begun, OidcError> {
        let provider = self.provider(now).await?;
        let pending = Pending::new(&*self.ids, now);
        let client = self.client(&provider.metadata);
        let (state, nonce) = (CsrfToken::new(pending.state().to_owned()), Nonce::new(pending.nonce().to_owned()));
        let verifier = PkceCodeVerifier::new(pending.verifier().to_owned());
        // The library adds the scope "openid".
        let scopes = self.settings.scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new);
        let request = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, move || state, move || nonce)
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .set_redirect_uri(Cow::Owned(RedirectUrl::from_url(redirect.clone())))
            .add_scopes(scopes);
        let (url, _, _) = request.url();
        Ok(Begun { url, pending })
    }

    /// Finishes a sign-in that [`Oidc::begin`] began with the same `redirect`. A `pending` is valid for one attempt:
    /// delete it before the call.
    ///
    /// # Errors
    /// Fails if the sign-in is not accepted. The error's text tells the person what to do; [`OidcError::detail`] has
    /// more for the operator.
    pub async fn finish(
        &self,
        pending: &Pending,
        returned: Returned,
        redirect: &Url,
        now: Timestamp,
    ) -> Result<Person, OidcError> {
        pending.check(returned.state.as_deref(), now)?;
        if let Some(error) = &returned.error {
            return Err(OidcError::of_provider(error, returned.error_description.as_deref()));
        }
        let provider = self.provider(now).await?;
        provider.check_issuer(returned.iss.as_deref())?;
        let code = returned.code.filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| OidcError::bad("the browser came back without an authorization code"))?;

        let answer = self.exchange(&self.client(&provider.metadata), code, pending, redirect).await?;
        let (profile, provider) = self.verify(&answer, provider, pending, now).await?;
        // The check of the token may have fetched a new discovery document.
        let client = self.client(&provider.metadata);
        let profile =
            if profile.email.is_some() { profile } else { self.add_user_info(&client, &answer, profile).await? };
        self.settings.admit(profile.email.as_deref(), profile.email_verified)?;
        Ok(Person {
            issuer: provider.metadata.issuer().as_str().to_owned(),
            subject: profile.subject,
            email: profile.email,
            email_verified: profile.email_verified,
            name: profile.name,
        })
    }

    async fn provider(&self, now: Timestamp) -> Result<Arc<Provider>, OidcError> {
        self.providers.get(&self.http, &self.settings.issuer, now).await
    }

    fn client(&self, metadata: &Metadata) -> Client {
        let secret = self.settings.client_secret.as_ref().map(|secret| ClientSecret::new(secret.0.clone()));
        let id = ClientId::new(self.settings.client_id.clone());
        let auth = if provider::secret_in_body(metadata) { AuthType::RequestBody } else { AuthType::BasicAuth };
        CoreClient::from_provider_metadata(metadata.clone(), id, secret).set_auth_type(auth)
    }

    async fn exchange(
        &self,
        client: &Client,
        code: String,
        pending: &Pending,
        redirect: &Url,
    ) -> Result<CoreTokenResponse, OidcError> {
        let request = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|_| OidcError::bad("the provider's discovery document has no token endpoint"))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier().to_owned()))
            .set_redirect_uri(Cow::Owned(RedirectUrl::from_url(redirect.clone())));
        request.request_async(&self.http).await.map_err(token::not_exchanged)
    }

    /// Verifies the ID token. If its signature matches none of the cached keys, fetches the provider's keys again.
    async fn verify(
        &self,
        answer: &CoreTokenResponse,
        provider: Arc<Provider>,
        pending: &Pending,
        now: Timestamp,
    ) -> Result<(Profile, Arc<Provider>), OidcError> {
        let token = answer.id_token().ok_or_else(|| OidcError::bad("the provider sent no ID token"))?;
        let (id, nonce) = (self.settings.client_id.as_str(), Nonce::new(pending.nonce().to_owned()));
        match token::verify(token, &provider.metadata, id, &nonce, now) {
            Ok(profile) => Ok((profile, provider)),
            Err(error) if error.may_be_stale => {
                let provider = self.providers.renew(&self.http, &self.settings.issuer, &provider, now).await?;
                let profile = token::verify(token, &provider.metadata, id, &nonce, now).map_err(|error| error.error)?;
                Ok((profile, provider))
            }
            Err(error) => Err(error.error),
        }
    }

    /// Adds the claims of the user info endpoint, if there is one: some providers send the email address only there.
    async fn add_user_info(
        &self,
        client: &Client,
        answer: &CoreTokenResponse,
        profile: Profile,
    ) -> Result<Profile, OidcError> {
        if client.user_info_url().is_none() {
            return Ok(profile);
        }
        let access = answer.access_token();
        // The library panics on a token that is not a valid header value.
        if !access.secret().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(OidcError::bad("the provider's access token has characters that are not allowed"));
        }
        let subject = SubjectIdentifier::new(profile.subject.clone());
        let request = client
            .user_info(access.clone(), Some(subject))
            .map_err(|_| OidcError::bad("the provider's discovery document has no user info endpoint"))?;
        let more: CoreUserInfoClaims = request.request_async(&self.http).await.map_err(token::not_informed)?;
        Ok(profile.with(&more))
    }
}
