//! A fake verifier of tokens.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use journeyman_core::ports::{TokenRefusal, TokenVerifier};
use journeyman_core::time::Timestamp;
use journeyman_core::trust::TokenClaims;
use serde_json::{Map, Value};

/// A fake verifier of tokens, which accepts those of [`FakeTokens::sign`].
#[derive(Debug, Default)]
pub struct FakeTokens {
    asked: Mutex<Vec<String>>,
    away: Mutex<bool>,
}

impl FakeTokens {
    /// Returns a token with these claims.
    #[must_use]
    pub fn sign(claims: &Value) -> String {
        format!("e30.{}.good", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    /// Makes all issuers unreachable, or reachable again.
    pub fn go_away(&self, is_away: bool) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = is_away;
    }

    /// Returns the issuers that were asked for their keys.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn claims(token: &str) -> Result<Map<String, Value>, TokenRefusal> {
    let payload = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
    claims.ok_or_else(|| TokenRefusal::Malformed("this is not a token".to_owned()))
}

#[async_trait]
impl TokenVerifier for FakeTokens {
    fn issuer(&self, token: &str) -> Result<String, TokenRefusal> {
        let claims = claims(token)?;
        let issuer = claims.get("iss").and_then(Value::as_str).map(str::to_owned);
        issuer.ok_or_else(|| TokenRefusal::Malformed("the token names no issuer (iss)".to_owned()))
    }

    async fn verify(&self, token: &str, issuer: &str, _: Timestamp) -> Result<TokenClaims, TokenRefusal> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(issuer.to_owned());
        if *self.away.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(TokenRefusal::IssuerUnavailable("the issuer is away".to_owned()));
        }
        if !token.ends_with(".good") {
            return Err(TokenRefusal::Unverified("the signature of the token is not valid".to_owned()));
        }
        Ok(TokenClaims::verified(claims(token)?))
    }
}
