use journeyman_testkit::World;
use journeyman_testkit::oidc::Provider;
use serde_json::json;

use super::*;

fn key(key: Value) -> Jwk {
    serde_json::from_value(key).unwrap()
}

fn header_of(algorithm: Algorithm, kid: Option<&str>) -> Header {
    let mut header = Header::new(algorithm);
    header.kid = kid.map(str::to_owned);
    header
}

#[test]
fn a_key_is_used_only_with_its_kind_curve_algorithm_use_and_id() {
    let header = header_of(Algorithm::ES256, Some("one"));
    let good = json!({"kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "alg": "ES256", "x": "AA", "y": "AA"});
    assert!(is_usable(&key(good.clone()), &header));
    for (name, value) in
        [("crv", "P-384"), ("kid", "two"), ("use", "enc"), ("use", "tls"), ("alg", "ES384"), ("alg", "ES256K")]
    {
        let mut other = good.clone();
        other[name] = json!(value);
        assert!(!is_usable(&key(other), &header), "{name}: {value}");
    }
    let plain = json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"});
    assert!(!is_usable(&key(plain.clone()), &header), "the key has no ID");
    assert!(is_usable(&key(plain.clone()), &header_of(Algorithm::ES256, None)));
    for other in [
        json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "oct", "k": "AA"}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": "AA"}),
        json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}),
    ] {
        assert!(!is_usable(&key(other.clone()), &header_of(Algorithm::ES256, None)), "{other}");
    }
    let pair = |curve: &str| key(json!({"kty": "OKP", "crv": curve, "x": "AA"}));
    assert!(is_usable(&pair("Ed25519"), &header_of(Algorithm::EdDSA, None)));
    assert!(!is_usable(&pair("P-256"), &header_of(Algorithm::EdDSA, None)));
    assert!(!is_usable(&pair("X25519"), &header_of(Algorithm::EdDSA, None)));
    assert!(!is_usable(&key(plain), &header_of(Algorithm::EdDSA, None)));
}

#[test]
fn a_key_that_cannot_be_read_does_not_hide_the_others() {
    let set = json!({"keys": [{"kid": 1}, "no key", {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "good"}]});
    let set: KeySet = serde_json::from_value(set).unwrap();
    let header = header_of(Algorithm::RS256, Some("good"));
    assert_eq!(set.keys.iter().filter(|key| is_usable(key, &header)).count(), 1);
}

#[test]
fn headers_without_an_accepted_algorithm_and_with_extensions_are_refused() {
    let token = |header: Value| format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(header.to_string()));
    for algorithm in ["RS256", "PS512", "ES384", "EdDSA"] {
        assert!(header(&token(json!({"alg": algorithm}))).is_ok(), "{algorithm}");
    }
    for algorithm in ["none", "HS256", "HS512", "ES256K", "rs256", ""] {
        assert!(header(&token(json!({"alg": algorithm}))).is_err(), "{algorithm}");
    }
    assert!(header(&token(json!({"alg": "RS256", "crit": ["exp"], "exp": 1}))).is_err());
    assert!(header(&token(json!({}))).is_err());
    assert!(header("a.b.c").is_err());
    assert!(header("").is_err());
}

#[test]
fn times_have_a_leeway_of_a_minute_and_may_have_fractions() {
    assert_eq!(whole_seconds(&json!(5)), Some(5));
    assert_eq!(whole_seconds(&json!(5.9)), Some(5));
    assert_eq!(whole_seconds(&json!("5")), None);
    assert!(!has_expired(100, 159));
    assert!(has_expired(100, 160));
    assert!(!has_expired(i64::MAX, i64::MAX - 1));
    assert_eq!(numeric_date(Timestamp::from_micros(1_999_999)), 1);
}

#[tokio::test]
async fn a_zero_byte_before_the_modulus_of_a_key_changes_nothing() {
    let provider = Provider::start(World::new()).await;
    provider.sign_with_rsa();
    let token = provider.ci_token(&json!({}));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.get(provider.issuer.join("/keys").unwrap()).send().await.unwrap();
    let mut published: Value = answer.json().await.unwrap();
    let modulus = URL_SAFE_NO_PAD.decode(published["keys"][0]["n"].as_str().unwrap()).unwrap();
    published["keys"][0]["n"] = json!(URL_SAFE_NO_PAD.encode([vec![0], modulus].concat()));
    let set: KeySet = serde_json::from_value(published).unwrap();
    assert!(decode::<Value>(&token, &set.keys[0], Algorithm::RS256).is_ok());
    let other = token.replacen('.', ".e", 1);
    assert!(decode::<Value>(&other, &set.keys[0], Algorithm::RS256).is_err());
}
