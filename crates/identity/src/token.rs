//! Verification of tokens of OpenID issuers, such as those that a CI service gives to its jobs.
//!
//! [`Tokens::issuer`](TokenVerifier::issuer) reads the issuer that a token names, without a request. The caller looks it up
//! among the issuers that an administrator has named, and only then calls [`Tokens::verify`](TokenVerifier::verify), which
//! may fetch the issuer's keys.

mod keys;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ipnet::IpNet;
use journeyman_core::ports::{TokenRefusal, TokenVerifier};
use journeyman_core::time::Timestamp;
use journeyman_core::trust::{MAX_TOKEN_BYTES, TokenClaims};
use journeyman_net::Resolver;
use jsonwebtoken::jwk::Jwk;
use serde_json::{Map, Value};

use self::keys::{Keys, NoKeys};
use crate::jwt::{self, LEEWAY};

/// The longest time between the creation of a token and its expiry, in seconds: a day.
const LONGEST_LIFE: i64 = 24 * 3600;

/// Verifies tokens, and keeps the keys of their issuers in memory. Cheap to clone.
#[derive(Clone)]
pub struct Tokens {
    keys: Arc<Keys>,
}

impl Tokens {
    /// Returns a verifier that connects to public addresses, and to the networks `allowed`.
    #[must_use]
    pub fn new(allowed: &[IpNet], resolver: Arc<dyn Resolver>) -> Self {
        Self { keys: Arc::new(Keys::new(allowed, resolver)) }
    }

    /// Replaces the timeout of ten seconds for each request to an issuer.
    #[must_use]
    pub fn with_patience(allowed: &[IpNet], resolver: Arc<dyn Resolver>, patience: Duration) -> Self {
        Self { keys: Arc::new(Keys::new(allowed, resolver).with_patience(patience)) }
    }
}

#[async_trait]
impl TokenVerifier for Tokens {
    fn issuer(&self, token: &str) -> Result<String, TokenRefusal> {
        let issuer = unverified_claims(token)?.remove("iss");
        match issuer {
            Some(Value::String(issuer)) => Ok(issuer),
            _ => Err(malformed("the token names no issuer (iss)")),
        }
    }

    async fn verify(&self, token: &str, issuer: &str, now: Timestamp) -> Result<TokenClaims, TokenRefusal> {
        check_form(token)?;
        let header = jwt::header(token).map_err(unverified)?;
        let claims = unverified_claims(token)?;
        if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
            return Err(unverified("the token is from another issuer"));
        }
        // A token that has expired needs no request to its issuer.
        check_times(&claims, now)?;
        let keys = Arc::clone(&self.keys).find(issuer.to_owned(), header.kid.clone(), now).await.map_err(no_keys)?;
        let usable: Vec<&Jwk> = keys.iter().filter(|key| jwt::is_usable(key, &header)).collect();
        if header.kid.is_none() && usable.len() > 1 {
            return Err(unverified("the token does not name the key that has signed it (kid)"));
        }
        if usable.is_empty() {
            let text = "the issuer has no key that could have signed this token; its header is wrong, or the key is older \
                        or newer than those that the issuer publishes";
            return Err(unverified(text));
        }
        let verified =
            usable.into_iter().find_map(|key| jwt::decode::<Map<String, Value>>(token, key, header.alg).ok());
        let claims = verified.ok_or_else(|| unverified("the signature of the token is not valid"))?;
        Ok(TokenClaims::verified(claims))
    }
}

/// Checks the size of a token, and that it has three parts.
fn check_form(token: &str) -> Result<(), TokenRefusal> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(malformed(format!("the token has more than {MAX_TOKEN_BYTES} bytes")));
    }
    let parts: Vec<&str> = token.split('.').collect();
    if parts.len() != 3 || parts.iter().any(|part| part.is_empty()) {
        return Err(malformed("the token is not a signed JSON Web Token, which has three parts separated by dots"));
    }
    Ok(())
}

fn unverified_claims(token: &str) -> Result<Map<String, Value>, TokenRefusal> {
    check_form(token)?;
    let invalid = || malformed("the claims of the token are not base64url-encoded JSON");
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| invalid())?;
    serde_json::from_slice(&payload).map_err(|_| invalid())
}

/// Checks the times of a token: `exp` and `iat` are required, `nbf` is not.
fn check_times(claims: &Map<String, Value>, now: Timestamp) -> Result<(), TokenRefusal> {
    let now = jwt::numeric_date(now);
    let seconds = |claim: &str| match claims.get(claim) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match jwt::whole_seconds(value) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(unverified(format!("the time {claim} of the token is not a number of seconds"))),
        },
    };
    let required = |claim: &str| seconds(claim)?.ok_or_else(|| unverified(format!("the token has no {claim}")));
    let (expires, issued, begins) = (required("exp")?, required("iat")?, seconds("nbf")?);
    if jwt::has_expired(expires, now) {
        return Err(unverified("the token has expired; get a new one, or check the clocks of both machines"));
    }
    if issued.saturating_sub(LEEWAY) > now || begins.is_some_and(|begins| begins.saturating_sub(LEEWAY) > now) {
        return Err(unverified("the token is not valid yet; check the clocks of both machines"));
    }
    if expires.saturating_sub(issued) > LONGEST_LIFE {
        return Err(unverified("the token is valid for more than 24 hours; this server accepts only short-lived ones"));
    }
    Ok(())
}

fn no_keys(error: NoKeys) -> TokenRefusal {
    TokenRefusal::IssuerUnavailable(error.to_string())
}

fn malformed(text: impl Into<String>) -> TokenRefusal {
    TokenRefusal::Malformed(text.into())
}

fn unverified(text: impl Into<String>) -> TokenRefusal {
    TokenRefusal::Unverified(text.into())
}
