//! Verification of ID tokens, and the claims about a person.

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

/// The accepted signature algorithms: asymmetric ones only. The provider is not the only one who knows a shared secret,
/// and with `none` there is no signature.
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

/// The tolerated difference between the clocks of the provider and of this machine.
const LEEWAY: Duration = Duration::from_mins(1);

/// The maximum length of a subject (OpenID Connect Core, 2).
const MAX_SUBJECT_CHARS: usize = 255;

/// The maximum length of an email address (RFC 5321).
const MAX_EMAIL_CHARS: usize = 254;

/// The length at which names are cut.
const MAX_NAME_CHARS: usize = 100;

/// The claims of a provider about a person.
pub(super) struct Profile {
    pub(super) subject: String,
    pub(super) email: Option<String>,
    pub(super) email_verified: bool,
    pub(super) name: Option<String>,
}

impl Profile {
    /// Replaces the email address with that of the user info endpoint, and adds the name if there was none.
    pub(super) fn with(self, more: &CoreUserInfoClaims) -> Self {
        Self {
            subject: self.subject,
            email: more.email().and_then(|email| address(email.as_str())),
            email_verified: more.email_verified().unwrap_or(false),
            name: self.name.or_else(|| name(more.name(), more.preferred_username())),
        }
    }
}

/// An ID token that failed the verification.
pub(super) struct Unverified {
    pub(super) error: OidcError,
    /// True if the signature matches none of the cached keys; the provider may have new ones.
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
) -> Result<Profile, Unverified> {
    let time: DateTime<Utc> = DateTime::from_timestamp_micros((now - LEEWAY).as_micros())
        .ok_or_else(|| OidcError::bad("the clock of this machine is out of range"))?;
    // A public client here, so that the library does not accept signatures made with the client secret.
    let verifier = CoreIdTokenVerifier::new_public_client(
        ClientId::new(client_id.to_owned()),
        metadata.issuer().clone(),
        metadata.jwks().clone(),
    )
    .set_allowed_algs(ALGORITHMS)
    .set_time_fn(move || time);
    let claims = token.claims(&verifier, nonce).map_err(not_verified)?;
    if claims.authorized_party().is_some_and(|party| party.as_str() != client_id) {
        return Err(OidcError::bad("the ID token was issued to another client (azp)").into());
    }
    Ok(profile(claims)?)
}

fn profile(claims: &CoreIdTokenClaims) -> Result<Profile, OidcError> {
    let subject = claims.subject().as_str();
    if subject.is_empty() || subject.chars().count() > MAX_SUBJECT_CHARS || subject.chars().any(char::is_control) {
        return Err(OidcError::bad("the subject of the ID token is empty, too long, or has control characters"));
    }
    Ok(Profile {
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
            format!("the signature of the ID token is not valid: {why}")
        }
        ClaimsVerificationError::Expired(why) => {
            format!("the ID token has expired; check the clocks of both machines: {why}")
        }
        other => format!("the ID token is not for this sign-in: {other}"),
    };
    Unverified { error: OidcError::bad(why), may_be_stale }
}

/// Converts the error of an exchange of a code for a token.
pub(super) fn not_exchanged(
    error: RequestTokenError<Failure, StandardErrorResponse<CoreErrorResponseType>>,
) -> OidcError {
    match error {
        RequestTokenError::Request(failure) => failure.into(),
        RequestTokenError::ServerResponse(said) => match said.error() {
            CoreErrorResponseType::InvalidClient | CoreErrorResponseType::UnauthorizedClient => {
                OidcError::unconfigured(format!(
                    "the provider refuses oidc-client-id, or the secret in oidc-secret-file or how it is sent: {said}"
                ))
            }
            _ => OidcError::bad(format!("the provider gave no token: {said}")),
        },
        // The response may contain a token, so the text only has the position of the error.
        RequestTokenError::Parse(error, _) => {
            OidcError::bad(format!("the response of the token endpoint is not valid (at {})", error.path()))
        }
        RequestTokenError::Other(why) => {
            OidcError::bad(format!("the token endpoint sent an unexpected response: {why}"))
        }
    }
}

/// Converts the error of a request to the user info endpoint.
pub(super) fn not_informed(error: UserInfoError<Failure>) -> OidcError {
    match error {
        UserInfoError::Request(failure) => failure.into(),
        UserInfoError::ClaimsVerification(why) => {
            OidcError::bad(format!("the user info is not about this person: {why}"))
        }
        UserInfoError::Parse(error) => OidcError::bad(format!("the user info is not valid (at {})", error.path())),
        UserInfoError::Response(status, _, why) => {
            OidcError::bad(format!("the user info endpoint answered with status {status}: {why}"))
        }
        other => OidcError::bad(format!("the provider gave no user info: {other}")),
    }
}
