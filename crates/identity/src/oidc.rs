//! Sign-in by an OpenID provider: the authorization code flow with PKCE, state and nonce.
//!
//! [`Oidc::begin`] gives the address at the provider to send the browser to, and a [`Pending`] to keep until it is
//! back. [`Oidc::finish`] takes what came back and says whom the provider vouches for, or why nobody.
//!
//! The provider is first asked when somebody first signs in, so that one that is down keeps no server from starting.

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
use self::token::Told;

/// How long the provider may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a client is once the provider is known.
type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// Somebody is to sign in.
#[derive(Debug)]
pub struct Begun {
    /// Where the browser goes.
    pub url: Url,
    /// What is needed when it is back; for this browser alone, and once.
    pub pending: Pending,
}

/// What the browser brings back: the query of the address that the provider sent it to.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Returned {
    /// To be exchanged for a token.
    pub code: Option<String>,
    /// What [`Oidc::begin`] gave it.
    pub state: Option<String>,
    /// The provider, if it says so (RFC 9207).
    pub iss: Option<String>,
    /// Why there is no code.
    pub error: Option<String>,
    /// The same in words.
    pub error_description: Option<String>,
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The code is worth a sign-in until it is used.
        f.debug_struct("Returned").field("iss", &self.iss).field("error", &self.error).finish_non_exhaustive()
    }
}

/// Whom the provider vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The provider.
    pub issuer: String,
    /// Who it is there. Issuer and subject together never change and are nobody else's: go by them, not by the email.
    pub subject: String,
    /// The address, as the provider has it.
    pub email: Option<String>,
    /// The provider has seen that the address is the person's. Where it has not, the address says nothing: anybody may
    /// have typed it. Always true unless everybody whom the provider lets in is let in here.
    pub email_verified: bool,
    /// What the person is called.
    pub name: Option<String>,
}

/// Sign-in by one provider.
pub struct Oidc {
    settings: OidcSettings,
    http: Http,
    ids: Arc<dyn IdGen>,
    providers: Providers,
}

impl Oidc {
    /// With these settings. The provider is not asked yet.
    ///
    /// # Errors
    /// Says which setting is refused.
    pub fn new(settings: OidcSettings, ids: Arc<dyn IdGen>) -> Result<Self, InvalidOidcSettings> {
        let settings = settings.checked()?;
        let http = Http::new(&settings.issuer, PATIENCE).map_err(InvalidOidcSettings::Client)?;
        Ok(Self { settings, http, ids, providers: Providers::default() })
    }

    /// With another patience than ten seconds for each answer of the provider.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.http.patience = patience;
        self
    }

    /// The settings, in the form that is gone by.
    #[must_use]
    pub fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// Begins a sign-in; the provider will send the browser back to `redirect`, which it must know.
    ///
    /// # Errors
    /// The provider cannot be reached, or is none.
    pub async fn begin(&self, redirect: &Url, now: Timestamp) -> Result<Begun, OidcError> {
        let provider = self.provider(now).await?;
        let pending = Pending::new(&*self.ids, now);
        let client = self.client(&provider.metadata);
        let (state, nonce) = (CsrfToken::new(pending.state().to_owned()), Nonce::new(pending.nonce().to_owned()));
        let verifier = PkceCodeVerifier::new(pending.verifier().to_owned());
        // The scope "openid" is put in by the library.
        let scopes = self.settings.scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new);
        let request = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, move || state, move || nonce)
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .set_redirect_uri(Cow::Owned(RedirectUrl::from_url(redirect.clone())))
            .add_scopes(scopes);
        let (url, _, _) = request.url();
        Ok(Begun { url, pending })
    }

    /// Finishes a sign-in that [`Oidc::begin`] began with the same `redirect`. A `pending` is good for one attempt:
    /// forget it before the call.
    ///
    /// # Errors
    /// Nobody is signed in; the error's text says to the person what to do, and [`OidcError::detail`] more to the
    /// operator.
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
        let code = code.ok_or_else(|| OidcError::bad("it sent the browser back without a code"))?;

        let client = self.client(&provider.metadata);
        let answer = self.exchange(&client, code, pending, redirect).await?;
        let (told, provider) = self.verify(&answer, provider, pending, now).await?;
        let told = if told.email.is_some() { told } else { self.ask_more(&client, &answer, told).await? };
        self.settings.admit(told.email.as_deref(), told.email_verified)?;
        Ok(Person {
            issuer: provider.metadata.issuer().as_str().to_owned(),
            subject: told.subject,
            email: told.email,
            email_verified: told.email_verified,
            name: told.name,
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
            .map_err(|_| OidcError::bad("its discovery document has no token endpoint"))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier().to_owned()))
            .set_redirect_uri(Cow::Owned(RedirectUrl::from_url(redirect.clone())));
        request.request_async(&self.http).await.map_err(token::not_exchanged)
    }

    /// Verifies the ID token, with new keys if it is not signed with those that are known.
    async fn verify(
        &self,
        answer: &CoreTokenResponse,
        provider: Arc<Provider>,
        pending: &Pending,
        now: Timestamp,
    ) -> Result<(Told, Arc<Provider>), OidcError> {
        let token = answer.id_token().ok_or_else(|| OidcError::bad("it gave no ID token"))?;
        let (id, nonce) = (self.settings.client_id.as_str(), Nonce::new(pending.nonce().to_owned()));
        match token::verify(token, &provider.metadata, id, &nonce, now) {
            Ok(told) => Ok((told, provider)),
            Err(error) if error.may_be_stale => {
                let provider = self.providers.renew(&self.http, &self.settings.issuer, &provider, now).await?;
                let told = token::verify(token, &provider.metadata, id, &nonce, now).map_err(|error| error.error)?;
                Ok((told, provider))
            }
            Err(error) => Err(error.error),
        }
    }

    /// Asks for what is not in the ID token: some providers tell of the email only at the endpoint for it.
    async fn ask_more(&self, client: &Client, answer: &CoreTokenResponse, told: Told) -> Result<Told, OidcError> {
        if client.user_info_url().is_none() {
            return Ok(told);
        }
        let access = answer.access_token();
        // The library would panic over one that is no value of a header.
        if !access.secret().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(OidcError::bad("its access token has characters that none has"));
        }
        let subject = SubjectIdentifier::new(told.subject.clone());
        let request = client
            .user_info(access.clone(), Some(subject))
            .map_err(|_| OidcError::bad("its discovery document has no user info endpoint"))?;
        let more: CoreUserInfoClaims = request.request_async(&self.http).await.map_err(token::not_informed)?;
        Ok(told.with(&more))
    }
}
