//! Verification of ID tokens (OpenID Connect Core, 3.1.3.7).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use journeyman_core::time::Timestamp;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, Header};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

use super::OidcError;
use super::profile::{PersonClaims, Profile};
use super::provider::Provider;
use crate::jwt;

/// The accepted types of a token, in lower case (RFC 7519, 5.1; RFC 7515, 4.1.9).
const TYPES: [&str; 4] = ["jwt", "jose", "application/jwt", "application/jose"];

/// The values that the claims of an ID token must match.
pub(super) struct Expected<'a> {
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// The access token from the same response.
    pub(super) access_token: &'a str,
    pub(super) now: Timestamp,
}

/// The person of a verified token, and the time at which the provider has asked them to prove who they are.
type Verified = (Profile, Option<Timestamp>);

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

/// The claims of an ID token.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    #[serde(deserialize_with = "audiences")]
    aud: Vec<String>,
    #[serde(deserialize_with = "seconds")]
    exp: i64,
    #[serde(deserialize_with = "seconds")]
    iat: i64,
    #[serde(default, deserialize_with = "seconds_or_null")]
    auth_time: Option<i64>,
    nonce: Option<String>,
    azp: Option<String>,
    at_hash: Option<String>,
    #[serde(flatten)]
    person: PersonClaims,
}

/// Reads the claim `aud`: one audience, or a list.
fn audiences<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audiences {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Audiences::deserialize(deserializer)? {
        Audiences::One(audience) => vec![audience],
        Audiences::Several(audiences) => audiences,
    })
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    jwt::whole_seconds(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("not a number of seconds"))
}

/// Reads a time that may be missing. One that is not a number of seconds counts as missing: it is no proof then.
fn seconds_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(jwt::whole_seconds(&Value::deserialize(deserializer)?))
}

/// Verifies an ID token: signature, issuer, audience, expiry, nonce. Returns the person, and the time at which the
/// provider has asked the person to prove who they are, if the token has it.
pub(super) fn verify(token: &str, provider: &Provider, expected: &Expected<'_>) -> Result<Verified, Unverified> {
    let header = jwt::header(token).map_err(bad_signature)?;
    check_type(&header)?;
    let claims = verified_claims(token, &header, &provider.keys)?;
    claims.check(&provider.metadata.issuer, header.alg, expected)?;
    let authenticated_at = claims.authenticated_at(expected.now);
    Ok((Profile::new(claims.person)?, authenticated_at))
}

fn check_type(header: &Header) -> Result<(), OidcError> {
    let is_accepted = |name: &str| TYPES.contains(&name.to_lowercase().as_str());
    if header.typ.as_deref().is_some_and(|name| !is_accepted(name)) {
        return Err(OidcError::bad(format!("the ID token has the type {:?} (typ)", header.typ)));
    }
    // Only a token that contains another token has a content type.
    if header.cty.is_some() {
        return Err(OidcError::bad(format!("the ID token has the content type {:?} (cty)", header.cty)));
    }
    Ok(())
}

/// Returns the claims if a key of the provider has signed the token.
fn verified_claims(token: &str, header: &Header, keys: &[Jwk]) -> Result<Claims, Unverified> {
    let stale = |why: &str| Unverified { error: bad_signature(why), may_be_stale: true };
    let usable: Vec<&Jwk> = keys.iter().filter(|key| jwt::is_usable(key, header)).collect();
    let key = match usable[..] {
        [key] => key,
        [] => return Err(stale("no key of the provider matches its header")),
        _ => return Err(bad_signature("several keys of the provider match its header").into()),
    };
    jwt::decode(token, key, header.alg).map_err(|error| match error.kind() {
        ErrorKind::Json(_) => Unverified::from(OidcError::bad(
            "the claims of the ID token are not valid; it must have iss, sub, aud, exp and iat",
        )),
        _ => stale("no key of the provider has made it"),
    })
}

fn bad_signature(why: &str) -> OidcError {
    OidcError::bad(format!("the signature of the ID token is not valid: {why}"))
}

impl Claims {
    /// Returns the time of the claim `auth_time`, or the current time if the clock of the provider is ahead.
    fn authenticated_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.auth_time.map(|seconds| Timestamp::from_micros(seconds.saturating_mul(1_000_000)).min(now))
    }

    /// Checks the claims; `algorithm` is that of the signature.
    fn check(&self, issuer: &str, algorithm: Algorithm, expected: &Expected<'_>) -> Result<(), OidcError> {
        let other = |why: &str| Err(OidcError::bad(format!("the ID token is not for this sign-in: {why}")));
        if self.iss != issuer {
            return other(&format!("its issuer (iss) is {:?}, and not {issuer:?}", self.iss));
        }
        let client_id = expected.client_id;
        if self.aud.is_empty() || self.aud.iter().any(|audience| audience != client_id) {
            return other(&format!("its audience (aud) is {:?}, and not {client_id:?} alone", self.aud));
        }
        if self.azp.as_ref().is_some_and(|party| party != client_id) {
            return Err(OidcError::bad("the ID token was issued to another client (azp)"));
        }
        if jwt::has_expired(self.exp, jwt::numeric_date(expected.now)) {
            let time = |seconds: i64| Timestamp::from_micros(seconds.saturating_mul(1_000_000));
            return Err(OidcError::bad(format!(
                "the ID token has expired; check the clocks of both machines: it is valid from {} to {}, and the time \
                 here is {}",
                time(self.iat),
                time(self.exp),
                expected.now
            )));
        }
        let nonce = self.nonce.as_deref().unwrap_or_default();
        if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
            return other("its nonce is missing or of another sign-in");
        }
        let at_hash = access_token_hash(expected.access_token, algorithm);
        if self.at_hash.as_ref().is_some_and(|hash| *hash != at_hash) {
            return other("it belongs to another access token (at_hash)");
        }
        Ok(())
    }
}

/// Returns the first half of the hash of an access token; the algorithm of the signature determines the hash (OpenID
/// Connect Core, 3.1.3.6).
fn access_token_hash(token: &str, algorithm: Algorithm) -> String {
    let hash = match algorithm {
        Algorithm::RS256 | Algorithm::PS256 | Algorithm::ES256 => Sha256::digest(token).to_vec(),
        Algorithm::RS384 | Algorithm::PS384 | Algorithm::ES384 => Sha384::digest(token).to_vec(),
        // Also EdDSA, because Ed25519 uses SHA-512.
        _ => Sha512::digest(token).to_vec(),
    };
    URL_SAFE_NO_PAD.encode(&hash[..hash.len() / 2])
}

#[cfg(test)]
mod tests;
