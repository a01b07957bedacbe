//! Public keys of authenticators: the CBOR that they have, and the verification of signatures.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use ciborium::Value;

/// ECDSA with P-256 and SHA-256, which most authenticators have.
const ES256: i64 = -7;

/// Ed25519.
const EDDSA: i64 = -8;

/// RSASSA-PKCS1-v1_5 with SHA-256, which Windows Hello has on older devices.
const RS256: i64 = -257;

/// The algorithms that are accepted, the preferred first (RFC 9053, RFC 8812).
pub(super) const ALGORITHMS: [i64; 3] = [ES256, EDDSA, RS256];

/// The lengths of an RSA modulus that are accepted, in bytes.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublicKey {
    /// The uncompressed point.
    Es256(Vec<u8>),
    /// The compressed point.
    Ed25519(Vec<u8>),
    /// The modulus and the exponent, without leading zeros.
    Rs256(Vec<u8>, Vec<u8>),
}

/// Returns the first CBOR value of a text and the rest.
pub(super) fn value(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let mut rest = bytes;
    let value = ciborium::from_reader(&mut rest).ok()?;
    Some((value, rest))
}

/// Returns the entry of a map with an integer or a text as its key.
pub(super) fn entry<'a>(map: &'a Value, name: &Value) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

impl PublicKey {
    /// Reads a `COSE_Key` (RFC 9053, 7). Returns `None` if it has another algorithm, or is malformed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (map, _) = value(bytes)?;
        let at = |label: i64| entry(&map, &Value::from(label));
        let number = |label: i64| i64::try_from(at(label)?.as_integer()?).ok();
        let bytes = |label: i64| at(label)?.as_bytes().cloned();
        let (kind, algorithm) = (number(1)?, number(3)?);
        let (curve, x) = (number(-1), bytes(-2));
        let is_coordinate = |bytes: &Vec<u8>| bytes.len() == 32;
        match (kind, algorithm, curve) {
            (2, ES256, Some(1)) => {
                let (x, y) = (x.filter(is_coordinate)?, bytes(-3).filter(is_coordinate)?);
                Some(Self::Es256([&[4], &x[..], &y[..]].concat()))
            }
            (1, EDDSA, Some(6)) => x.filter(is_coordinate).map(Self::Ed25519),
            (3, RS256, None) => {
                let without_zeros =
                    |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
                let (modulus, exponent) = (without_zeros(bytes(-1)?), without_zeros(x?));
                (MODULUS.contains(&modulus.len()) && !exponent.is_empty()).then_some(Self::Rs256(modulus, exponent))
            }
            _ => None,
        }
    }

    /// Returns true if a signature of a message is one of this key.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let outcome = match self {
            Self::Es256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature),
            Self::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
            Self::Rs256(n, e) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        };
        outcome.is_ok()
    }
}
