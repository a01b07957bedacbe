//! What a provider says of somebody, and whether it is to be believed.

use std::time::Duration;

use chrono::{DateTime, Utc};
use journeyman_core::time::Timestamp;
use openidconnect::core::{
    CoreErrorResponseType, CoreIdToken, CoreIdTokenClaims, CoreIdTokenVerifier, CoreJwsSigningAlgorithm as Algorithm,
    CoreUserInfoClaims,
};
use openidconnect::{
    ClaimsVerificationError, ClientId, EndUserName, EndUserUsername, LocalizedClaim, Nonce, RequestTokenError,
    SignatureVerificationError, StandardErrorResponse, UserInfoError,
};

use super::OidcError;
use super::http::Failure;
use super::provider::Metadata;

/// Keys of two halves only: a shared secret is known to more than the provider, and `none` is nobody's.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RsaSsaPkcs1V15Sha256,
    Algorithm::RsaSsaPkcs1V15Sha384,
    Algorithm::RsaSsaPkcs1V15Sha512,
    Algorithm::RsaSsaPssSha256,
    Algorithm::RsaSsaPssSha384,
    Algorithm::RsaSsaPssSha512,
    Algorithm::EcdsaP256Sha256,
    Algorithm::EcdsaP384Sha384,
    Algorithm::EdDsa,
];

/// How far the clocks of two machines may be apart.
const LEEWAY: Duration = Duration::from_mins(1);

/// What OpenID Connect allows.
const MAX_SUBJECT_CHARS: usize = 255;

/// What an address may have at most (RFC 5321).
const MAX_EMAIL_CHARS: usize = 254;

/// What we show of a name.
const MAX_NAME_CHARS: usize = 100;

/// What a provider says of somebody.
pub(super) struct Told {
    pub(super) subject: String,
    pub(super) email: Option<String>,
    pub(super) email_verified: bool,
    pub(super) name: Option<String>,
}

impl Told {
    /// With the email of another answer, and its name where there was none.
    pub(super) fn with(self, more: &CoreUserInfoClaims) -> Self {
        Self {
            subject: self.subject,
            email: more.email().and_then(|email| address(email.as_str())),
            email_verified: more.email_verified().unwrap_or(false),
            name: self.name.or_else(|| name(more.name(), more.preferred_username())),
        }
    }
}

/// An ID token that is not believed.
pub(super) struct Unverified {
    pub(super) error: OidcError,
    /// Its signature fits none of the keys that were known; the provider may have new ones.
    pub(super) may_be_stale: bool,
}

impl From<OidcError> for Unverified {
    fn from(error: OidcError) -> Self {
        Self { error, may_be_stale: false }
    }
}

/// Verifies an ID token (OpenID Connect Core, 3.1.3.7): issuer, audience, signature, expiry, nonce.
pub(super) fn verify(
    token: &CoreIdToken,
    metadata: &Metadata,
    client_id: &str,
    nonce: &Nonce,
    now: Timestamp,
) -> Result<Told, Unverified> {
    let time: DateTime<Utc> = DateTime::from_timestamp_micros((now - LEEWAY).as_micros())
        .ok_or_else(|| OidcError::bad("this machine's clock is out of its mind"))?;
    // As for a public client: the secret is no key for signatures.
    let verifier = CoreIdTokenVerifier::new_public_client(
        ClientId::new(client_id.to_owned()),
        metadata.issuer().clone(),
        metadata.jwks().clone(),
    )
    .set_allowed_algs(ALGORITHMS)
    .set_time_fn(move || time);
    let claims = token.claims(&verifier, nonce).map_err(not_verified)?;
    if claims.authorized_party().is_some_and(|party| party.as_str() != client_id) {
        return Err(OidcError::bad("its ID token was given to somebody else (azp)").into());
    }
    Ok(told(claims)?)
}

fn told(claims: &CoreIdTokenClaims) -> Result<Told, OidcError> {
    let subject = claims.subject().as_str();
    if subject.is_empty() || subject.chars().count() > MAX_SUBJECT_CHARS || subject.chars().any(char::is_control) {
        return Err(OidcError::bad("the subject of its ID token is empty, too long, or has control characters"));
    }
    Ok(Told {
        subject: subject.to_owned(),
        email: claims.email().and_then(|email| address(email.as_str())),
        email_verified: claims.email_verified().unwrap_or(false),
        name: name(claims.name(), claims.preferred_username()),
    })
}

fn address(email: &str) -> Option<String> {
    let email = email.trim();
    let good = email.contains('@')
        && email.chars().count() <= MAX_EMAIL_CHARS
        && !email.chars().any(|c| c.is_control() || c.is_whitespace());
    good.then(|| email.to_owned())
}

fn name(name: Option<&LocalizedClaim<EndUserName>>, username: Option<&EndUserUsername>) -> Option<String> {
    let name = name.and_then(|name| name.iter().next()).map(|(_, name)| name.as_str());
    let name = name.or(username.map(|name| name.as_str()))?;
    let name: String = name.trim().chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
    (!name.is_empty()).then_some(name)
}

fn not_verified(error: ClaimsVerificationError) -> Unverified {
    use SignatureVerificationError::{CryptoError, NoMatchingKey};

    let may_be_stale = matches!(error, ClaimsVerificationError::SignatureVerification(NoMatchingKey | CryptoError(_)));
    let why = match &error {
        ClaimsVerificationError::SignatureVerification(why) => {
            format!("its ID token is not signed as it must be: {why}")
        }
        ClaimsVerificationError::Expired(why) => {
            format!("its ID token is not of this time; see whether the clocks of both machines are right: {why}")
        }
        other => format!("its ID token is not for this sign-in: {other}"),
    };
    Unverified { error: OidcError::bad(why), may_be_stale }
}

/// Why the provider gave no token for a code.
pub(super) fn not_exchanged(
    error: RequestTokenError<Failure, StandardErrorResponse<CoreErrorResponseType>>,
) -> OidcError {
    match error {
        RequestTokenError::Request(failure) => failure.into(),
        RequestTokenError::ServerResponse(said) => match said.error() {
            CoreErrorResponseType::InvalidClient | CoreErrorResponseType::UnauthorizedClient => {
                OidcError::unconfigured(format!(
                    "it refuses oidc.client_id or oidc.client_secret, or wants to be shown them in another way: {said}"
                ))
            }
            _ => OidcError::bad(format!("it gave no token: {said}")),
        },
        // What it sent may be a token: only the place of the fault is told.
        RequestTokenError::Parse(error, _) => OidcError::bad(format!(
            "its token endpoint answered with something else than a token (at {})",
            error.path()
        )),
        RequestTokenError::Other(why) => OidcError::bad(format!("its token endpoint answered oddly: {why}")),
    }
}

/// Why the provider said no more about somebody.
pub(super) fn not_informed(error: UserInfoError<Failure>) -> OidcError {
    match error {
        UserInfoError::Request(failure) => failure.into(),
        UserInfoError::ClaimsVerification(why) => {
            OidcError::bad(format!("its user info is about somebody else: {why}"))
        }
        UserInfoError::Parse(error) => {
            OidcError::bad(format!("its user info is not what it should be (at {})", error.path()))
        }
        UserInfoError::Response(status, _, why) => OidcError::bad(format!("its user info has status {status}: {why}")),
        other => OidcError::bad(format!("it gave no user info: {other}")),
    }
}
