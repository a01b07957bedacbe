use serde_json::json;

use super::*;

const ISSUER: &str = "https://id.example.com";

/// The access token and its hash are from OpenID Connect Core, A.4.
const ACCESS_TOKEN: &str = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y";
const ACCESS_TOKEN_HASH: &str = "77QmUPtjPfzWtF2AnpK9RQ";

const NOW: i64 = 1_800_000_000;

/// Checks claims that are correct except for the changes.
fn check(changes: &Value) -> Result<(), String> {
    let mut claims = json!({
        "iss": ISSUER, "sub": "248289761001", "aud": "journeyman", "nonce": "n0nce", "iat": NOW - 10, "exp": NOW + 300,
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let claims: Claims = serde_json::from_value(claims).map_err(|error| error.to_string())?;
    let now = Timestamp::from_micros(NOW * 1_000_000);
    let expected = Expected { client_id: "journeyman", nonce: "n0nce", access_token: ACCESS_TOKEN, now };
    claims.check(ISSUER, Algorithm::RS256, &expected).map_err(|error| format!("{error:?}"))
}

#[test]
fn claims_of_this_sign_in_are_accepted() {
    for changes in [
        json!({}),
        json!({"aud": ["journeyman"], "azp": "journeyman"}),
        json!({"azp": null, "at_hash": null, "email": null, "name": null}),
        json!({"exp": NOW - 59}),
        json!({"exp": f64::from(1_800_000_000) + 0.5}),
        json!({"at_hash": ACCESS_TOKEN_HASH}),
        json!({"email_verified": "true", "nbf": NOW + 1000, "other": {"of": "any kind"}}),
    ] {
        assert_eq!(check(&changes), Ok(()), "{changes}");
    }
}

#[test]
fn claims_that_are_not_for_this_sign_in_are_refused() {
    for changes in [
        json!({"iss": "https://id.example.com/"}),
        json!({"iss": "https://elsewhere.test"}),
        json!({"iss": [ISSUER]}),
        json!({"iss": null}),
        json!({"aud": "another client"}),
        json!({"aud": ["journeyman", "another client"]}),
        json!({"aud": []}),
        json!({"aud": null}),
        json!({"azp": "another client"}),
        json!({"azp": ""}),
        json!({"exp": NOW - 60}),
        json!({"exp": null}),
        json!({"exp": "tomorrow"}),
        json!({"iat": null}),
        json!({"nonce": "another"}),
        json!({"nonce": ""}),
        json!({"nonce": null}),
        json!({"at_hash": "another"}),
        json!({"at_hash": ""}),
        json!({"sub": null}),
        json!({"email": 5}),
    ] {
        assert!(check(&changes).is_err(), "{changes}");
    }
}

#[test]
fn a_claim_that_occurs_twice_is_refused() {
    let claims =
        |more: &str| format!(r#"{{"iss": "i", "sub": "s", "aud": "a", "iat": 1, "exp": 2, "nonce": "n"{more}}}"#);
    assert!(serde_json::from_str::<Claims>(&claims("")).is_ok());
    for more in [r#", "nonce": "m""#, r#", "sub": "t""#, r#", "aud": "b""#] {
        assert!(serde_json::from_str::<Claims>(&claims(more)).is_err(), "{more}");
    }
}

#[test]
fn the_algorithm_determines_the_hash_of_the_access_token() {
    for (algorithm, characters) in [(Algorithm::ES256, 22), (Algorithm::PS384, 32), (Algorithm::EdDSA, 43)] {
        assert_eq!(access_token_hash(ACCESS_TOKEN, algorithm).len(), characters, "{algorithm:?}");
    }
    assert_eq!(access_token_hash(ACCESS_TOKEN, Algorithm::PS256), ACCESS_TOKEN_HASH);
}

#[test]
fn only_signed_tokens_of_claims_are_accepted() {
    let mut header = Header::new(Algorithm::ES256);
    for name in [None, Some("JWT"), Some("jwt"), Some("JOSE"), Some("application/jwt")] {
        header.typ = name.map(str::to_owned);
        assert!(check_type(&header).is_ok(), "{name:?}");
    }
    for name in ["at+jwt", "secevent+jwt", "JWT;x", ""] {
        header.typ = Some(name.to_owned());
        assert!(check_type(&header).is_err(), "{name:?}");
    }
    header.typ = None;
    header.cty = Some("JWT".to_owned());
    assert!(check_type(&header).is_err());
}

#[test]
fn exactly_one_key_must_match_and_only_a_missing_one_may_be_new() {
    let key: Jwk = serde_json::from_value(json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"})).unwrap();
    let header = Header::new(Algorithm::ES256);
    let may_be_stale = |keys: &[Jwk]| verified_claims("a.b.c", &header, keys).err().unwrap().may_be_stale;
    assert!(may_be_stale(&[]));
    assert!(may_be_stale(std::slice::from_ref(&key)), "another key made the signature");
    assert!(!may_be_stale(&[key.clone(), key]));
}
