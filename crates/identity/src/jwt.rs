//! JSON Web Tokens (RFC 7519): the accepted algorithms, the keys of issuers, and the verification of signatures, for
//! sign-in and for the tokens of CI services. The caller checks the claims.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use journeyman_core::time::Timestamp;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The accepted signature algorithms: asymmetric ones only. The issuer is not the only one who knows a shared secret, a
/// public key must not become one, and with `none` there is no signature.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// The tolerated difference between the clocks of the issuer and of this machine, in seconds.
pub(crate) const LEEWAY: i64 = 60;

/// The keys of an issuer (RFC 7517, 5).
#[derive(Deserialize)]
pub(crate) struct KeySet {
    /// The keys that can be read. A key of a kind that is not known is no reason to refuse the others.
    #[serde(deserialize_with = "readable_keys")]
    pub(crate) keys: Vec<Jwk>,
}

fn readable_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Jwk>, D::Error> {
    let keys = Vec::<Value>::deserialize(deserializer)?;
    Ok(keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect())
}

/// Reads the header of a token, and checks its algorithm.
///
/// # Errors
/// The token is refused; the text is the reason.
pub(crate) fn header(token: &str) -> Result<Header, &'static str> {
    let header = jsonwebtoken::decode_header(token)
        .map_err(|_| "the header of the token is not valid, or its algorithm (alg) is not accepted")?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(
            "the token is not signed with the private key of its issuer: its algorithm (alg) must be one of RS256, \
             RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA",
        );
    }
    if header.crit.is_some() {
        return Err("the header of the token has extensions that this server does not know (crit)");
    }
    Ok(header)
}

/// Returns whether a key may have made the signature that a header describes.
pub(crate) fn is_usable(key: &Jwk, header: &Header) -> bool {
    let is_named = header.kid.is_none() || key.common.key_id == header.kid;
    let signs = matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let fits = key.common.key_algorithm.is_none_or(|algorithm| algorithm == KeyAlgorithm::from(header.alg));
    let has_kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => header.alg.family() == AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(parameters) => matches!(
            (&parameters.curve, header.alg),
            (EllipticCurve::P256, Algorithm::ES256) | (EllipticCurve::P384, Algorithm::ES384)
        ),
        AlgorithmParameters::OctetKeyPair(parameters) => {
            parameters.curve == EllipticCurve::Ed25519 && header.alg == Algorithm::EdDSA
        }
        _ => false,
    };
    is_named && signs && fits && has_kind
}

/// Returns the claims of a token if a key has signed it. The library checks no times, because it would read the clock
/// of the machine, and no audience.
///
/// # Errors
/// The key has not signed the token, or the claims do not have the form of `T` ([`ErrorKind::Json`]).
pub(crate) fn decode<T: DeserializeOwned>(token: &str, key: &Jwk, algorithm: Algorithm) -> Result<T, Error> {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    jsonwebtoken::decode(token, &decoding_key(key)?, &validation).map(|token| token.claims)
}

/// Converts a key. Some issuers write a zero byte before the modulus of an RSA key, which the library does not accept.
fn decoding_key(key: &Jwk) -> Result<DecodingKey, Error> {
    let AlgorithmParameters::RSA(parameters) = &key.algorithm else {
        return DecodingKey::from_jwk(key);
    };
    let number = |text: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::from(ErrorKind::InvalidKeyFormat))?;
        Ok::<Vec<u8>, Error>(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
    };
    Ok(DecodingKey::from_rsa_raw_components(&number(&parameters.n)?, &number(&parameters.e)?))
}

/// Reads a NumericDate (RFC 7519, 2), which may have a fraction.
#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates")]
pub(crate) fn whole_seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().filter(|number| number.is_finite()).map(|number| number.floor() as i64))
}

/// Returns a time as a NumericDate without its fraction.
pub(crate) fn numeric_date(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(1_000_000)
}

/// Returns whether a token has expired; both times are NumericDates.
pub(crate) fn has_expired(expires: i64, now: i64) -> bool {
    expires.saturating_add(LEEWAY) <= now
}

#[cfg(test)]
mod tests;
