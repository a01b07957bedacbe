//! The claims of a verified token.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The maximum number of characters of a claim in an error, in the audit log, or in the name of a key.
const SHOWN_CHARS: usize = 200;

/// The claims of a token whose signature, issuer and times were verified.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenClaims(Map<String, Value>);

impl TokenClaims {
    /// Wraps claims. The caller has verified the token.
    #[must_use]
    pub const fn verified(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// Returns a digest of all claims, by which a token is recognized. The signature is not part of it: for some
    /// algorithms, anyone can compute another valid one for the same claims.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut sorted: Vec<(&String, &Value)> = self.0.iter().collect();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        let mut digest = Sha256::new();
        for (name, value) in sorted {
            let text = value.to_string();
            for part in [name.as_bytes(), text.as_bytes()] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        digest.finalize().into()
    }

    /// Returns the issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        self.0.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the subject, without control characters and cut to 200 characters; empty if the token has none.
    #[must_use]
    pub fn subject(&self) -> String {
        shown(self.0.get("sub").and_then(Value::as_str).unwrap_or_default())
    }

    /// Returns whether the token is for an audience.
    #[must_use]
    pub fn is_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        }
    }

    /// Returns the values of a claim as texts: of a list, all its elements. A claim that is missing, `null` or an object
    /// has none.
    #[must_use]
    pub fn values(&self, claim: &str) -> Vec<String> {
        match self.0.get(claim) {
            Some(Value::Array(several)) => several.iter().filter_map(text).collect(),
            Some(one) => text(one).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Describes claims for the person who presented the token, such as `repository=acme/shop`.
    #[must_use]
    pub fn describe<'a>(&self, claims: impl IntoIterator<Item = &'a str>) -> String {
        let one = |claim: &str| match self.values(claim) {
            values if values.is_empty() => format!("no {claim}"),
            values => format!("{claim}={}", shown(&values.join(","))),
        };
        claims.into_iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Removes control characters, and cuts a text.
fn shown(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> TokenClaims {
        match value {
            Value::Object(map) => TokenClaims::verified(map),
            other => unreachable!("{other}"),
        }
    }

    #[test]
    fn booleans_and_numbers_are_texts_and_lists_have_several() {
        let claims = claims(json!({
            "a": "x", "b": true, "c": 42, "d": ["x", 7, null, {"y": 1}], "e": null, "f": {"g": "x"},
        }));
        for (claim, expected) in [
            ("a", vec!["x"]),
            ("b", vec!["true"]),
            ("c", vec!["42"]),
            ("d", vec!["x", "7"]),
            ("e", vec![]),
            ("f", vec![]),
        ] {
            assert_eq!(claims.values(claim), expected, "{claim}");
        }
        assert_eq!(claims.describe(["a", "d", "z"]), "a=x, d=x,7, no z");
    }

    #[test]
    fn an_audience_is_a_text_or_a_list() {
        assert!(claims(json!({"aud": "here"})).is_for("here"));
        assert!(claims(json!({"aud": ["there", "here"]})).is_for("here"));
        for aud in [json!("here/"), json!(["there"]), json!([]), json!(null), json!(7), json!({"here": 1})] {
            assert!(!claims(json!({"aud": aud})).is_for("here"), "{aud}");
        }
    }

    #[test]
    fn a_subject_is_cut_and_has_no_control_characters() {
        assert_eq!(claims(json!({"sub": "repo:acme/shop\n:x"})).subject(), "repo:acme/shop:x");
        assert_eq!(claims(json!({"sub": "x".repeat(500)})).subject().len(), 200);
        assert_eq!(claims(json!({"sub": 7})).subject(), "");
    }
}
