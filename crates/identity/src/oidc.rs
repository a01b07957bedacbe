//! Sign-in through an OpenID provider: the authorization code flow with PKCE, state and nonce.
//!
//! [`Oidc::begin`] returns the provider's URL for the browser, and a [`Pending`] to keep until the browser comes back.
//! [`Oidc::finish`] takes the parameters that the browser brings back and returns the [`ProviderUser`] whom the provider
//! authenticated.
//!
//! The first sign-in makes the first request to the provider, so that the server starts even if the provider is down.

mod error;
mod exchange;
mod http;
mod pending;
mod profile;
mod provider;
mod settings;
mod token;
mod user_info;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::time::{IdGen, Timestamp};
use serde::Deserialize;
use url::Url;

pub use error::OidcError;
pub use pending::{PENDING_LIFETIME, Pending};
pub use settings::{ANY_DOMAIN, DEFAULT_SCOPES, InvalidOidcSettings, OidcSettings};

use self::exchange::TokenResponse;
use self::http::Http;
use self::profile::Profile;
use self::provider::{Provider, Providers};
use self::token::Expected;

/// The default timeout for each request to the provider.
const PATIENCE: Duration = Duration::from_secs(10);

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
pub struct ProviderUser {
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
    /// The time at which the provider has last asked the person to prove who they are (`auth_time`); `None` if the
    /// token does not say. It is not after the current time.
    pub authenticated_at: Option<Timestamp>,
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
        let url = self.authorization_url(&provider.metadata.authorization_endpoint, &pending, redirect);
        Ok(Begun { url, pending })
    }

    /// Begins a sign-in like [`Oidc::begin`], and asks the provider to make the person prove who they are even if it
    /// knows the browser (OpenID Connect Core, 3.1.2.1). [`ProviderUser::authenticated_at`] tells whether it has done so.
    ///
    /// # Errors
    /// Fails if the provider cannot be reached, or if its discovery document is not valid.
    pub async fn begin_again(&self, redirect: &Url, now: Timestamp) -> Result<Begun, OidcError> {
        let mut begun = self.begin(redirect, now).await?;
        // Providers that know only one of the two ignore the other.
        begun.url.query_pairs_mut().append_pair("prompt", "login").append_pair("max_age", "0");
        Ok(begun)
    }

    /// Finishes a sign-in that [`Oidc::begin`] or [`Oidc::begin_again`] began with the same `redirect`. A `pending` is
    /// valid for one attempt: delete it before the call.
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
    ) -> Result<ProviderUser, OidcError> {
        pending.check(returned.state.as_deref(), now)?;
        if let Some(error) = &returned.error {
            return Err(OidcError::of_provider(error, returned.error_description.as_deref()));
        }
        let provider = self.provider(now).await?;
        provider.check_issuer(returned.iss.as_deref())?;
        let code = returned.code.filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| OidcError::bad("the browser came back without an authorization code"))?;

        let tokens = self.exchange(&provider, &code, pending, redirect).await?;
        let (profile, authenticated_at, provider) = self.verify(&tokens, provider, pending, now).await?;
        // The check of the token may have fetched a new discovery document.
        let profile =
            if profile.email.is_some() { profile } else { self.add_user_info(&provider, &tokens, profile).await? };
        self.settings.admit(profile.email.as_deref(), profile.email_verified)?;
        Ok(ProviderUser {
            issuer: provider.metadata.issuer.clone(),
            subject: profile.subject,
            email: profile.email,
            email_verified: profile.email_verified,
            name: profile.name,
            authenticated_at,
        })
    }

    async fn provider(&self, now: Timestamp) -> Result<Arc<Provider>, OidcError> {
        self.providers.get(&self.http, &self.settings.issuer, now).await
    }

    /// Returns the URL of the authorization request (OpenID Connect Core, 3.1.2.1; RFC 7636, 4.3).
    fn authorization_url(&self, endpoint: &Url, pending: &Pending, redirect: &Url) -> Url {
        // The scope "openid" makes it a request for an ID token.
        let others = self.settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        let scopes: Vec<&str> = std::iter::once("openid").chain(others).collect();
        let mut url = endpoint.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("state", pending.state())
            .append_pair("code_challenge", &pending.challenge())
            .append_pair("code_challenge_method", "S256")
            .append_pair("redirect_uri", redirect.as_str())
            .append_pair("scope", &scopes.join(" "))
            .append_pair("nonce", pending.nonce());
        url
    }

    async fn exchange(
        &self,
        provider: &Provider,
        code: &str,
        pending: &Pending,
        redirect: &Url,
    ) -> Result<TokenResponse, OidcError> {
        let request = exchange::request(&self.settings, &provider.metadata, code, pending, redirect)?;
        exchange::tokens(&self.http.send(request).await?)
    }

    /// Verifies the ID token. If its signature matches none of the cached keys, fetches the provider's keys again.
    async fn verify(
        &self,
        tokens: &TokenResponse,
        provider: Arc<Provider>,
        pending: &Pending,
        now: Timestamp,
    ) -> Result<(Profile, Option<Timestamp>, Arc<Provider>), OidcError> {
        let token = tokens.id_token.as_deref().ok_or_else(|| OidcError::bad("the provider sent no ID token"))?;
        let expected = Expected {
            client_id: &self.settings.client_id,
            nonce: pending.nonce(),
            access_token: &tokens.access_token,
            now,
        };
        match token::verify(token, &provider, &expected) {
            Ok((profile, at)) => Ok((profile, at, provider)),
            Err(error) if error.may_be_stale => {
                let provider = self.providers.renew(&self.http, &self.settings.issuer, &provider, now).await?;
                let (profile, at) = token::verify(token, &provider, &expected).map_err(|error| error.error)?;
                Ok((profile, at, provider))
            }
            Err(error) => Err(error.error),
        }
    }

    /// Adds the claims of the user info endpoint, if there is one: some providers send the email address only there.
    async fn add_user_info(
        &self,
        provider: &Provider,
        tokens: &TokenResponse,
        profile: Profile,
    ) -> Result<Profile, OidcError> {
        let Some(endpoint) = &provider.metadata.userinfo_endpoint else {
            return Ok(profile);
        };
        let response = self.http.send(user_info::request(endpoint, &tokens.access_token)?).await?;
        let claims = user_info::claims(&response, &profile.subject)?;
        Ok(profile.with(claims))
    }
}
