//! The verification of tokens as CI services give them to their jobs.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::ports::{TokenRefusal, TokenVerifier as _};
use journeyman_core::time::Clock as _;
use journeyman_core::trust::{MAX_TOKEN_BYTES, TokenClaims};
use journeyman_identity::token::Tokens;
use journeyman_net::SystemResolver;
use journeyman_testkit::oidc::{Fault, Forgery, Provider};
use journeyman_testkit::{PATIENCE, World};
use serde_json::{Value, json};

use super::fixtures::skip_silence;

struct Fixture {
    world: Arc<World>,
    provider: Provider,
    tokens: Tokens,
    issuer: String,
}

impl Fixture {
    async fn new() -> Self {
        Self::allowing(&["127.0.0.0/8"]).await
    }

    async fn allowing(networks: &[&str]) -> Self {
        let world = World::new();
        let provider = Provider::start(world.clone()).await;
        let allowed: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
        let tokens = Tokens::with_patience(&allowed, Arc::new(SystemResolver), PATIENCE);
        // A URL has a slash after its host; the issuer in the tokens has none.
        let issuer = provider.issuer.as_str().trim_end_matches('/').to_owned();
        Self { world, provider, tokens, issuer }
    }

    async fn verify(&self, token: &str) -> Result<TokenClaims, TokenRefusal> {
        self.tokens.verify(token, &self.issuer, self.world.now()).await
    }

    async fn verify_claims(&self, claims: Value) -> Result<TokenClaims, TokenRefusal> {
        self.verify(&self.provider.ci_token(&claims)).await
    }

    /// Returns the number of requests for keys.
    fn fetches(&self) -> usize {
        self.provider.asked().iter().filter(|path| *path == "/keys").count()
    }
}

fn is_unverified(result: &Result<TokenClaims, TokenRefusal>) -> bool {
    matches!(result, Err(TokenRefusal::Unverified(_)))
}

fn is_unavailable(result: &Result<TokenClaims, TokenRefusal>) -> bool {
    matches!(result, Err(TokenRefusal::IssuerUnavailable(_)))
}

#[tokio::test]
async fn a_token_of_the_issuer_is_verified_with_keys_that_are_fetched_once() {
    let fixture = Fixture::new().await;
    let token = fixture.provider.ci_token(&json!({"repository": "acme/shop"}));
    assert_eq!(fixture.tokens.issuer(&token).unwrap(), fixture.issuer);
    assert!(fixture.provider.asked().is_empty(), "the issuer of a token is read without a request");
    for _ in 0..3 {
        let claims = fixture.verify(&token).await.unwrap();
        assert_eq!(claims.values("repository"), ["acme/shop"]);
        assert!(claims.is_for("https://journeyman.example.com"));
    }
    assert_eq!(fixture.fetches(), 1);
    fixture.world.advance(Duration::from_secs(3601));
    fixture.provider.sign_with_rsa();
    fixture.verify_claims(json!({})).await.unwrap();
    assert_eq!(fixture.fetches(), 2, "keys are fetched again after an hour");
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let fixture = Fixture::new().await;
    for forgery in [Forgery::Unsigned, Forgery::PublicKeyAsSecret, Forgery::OtherKey, Forgery::UnknownKey] {
        let refused = fixture.verify(&fixture.provider.forged_token(forgery, &json!({}))).await;
        assert!(is_unverified(&refused), "{forgery:?}: {refused:?}");
    }
    let good = fixture.provider.ci_token(&json!({}));
    let (head, signature) = good.rsplit_once('.').unwrap();
    let other = fixture.provider.ci_token(&json!({"sub": "someone else"}));
    let mixed = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
    assert!(is_unverified(&fixture.verify(&mixed).await));
    for broken in
        [format!("{head}."), head.to_owned(), "x".to_owned(), String::new(), "a.b.c.d".to_owned(), "é.é.é".to_owned()]
    {
        assert!(fixture.verify(&broken).await.is_err(), "{broken:?}");
        assert!(matches!(fixture.tokens.issuer(&broken), Err(TokenRefusal::Malformed(_))), "{broken:?}");
    }
    let huge = fixture.provider.ci_token(&json!({"x": "y".repeat(MAX_TOKEN_BYTES)}));
    assert!(matches!(fixture.verify(&huge).await, Err(TokenRefusal::Malformed(_))));
    fixture.verify(&good).await.unwrap();
}

#[tokio::test]
async fn times_and_the_issuer_are_checked_before_a_request() {
    let fixture = Fixture::new().await;
    let now = fixture.world.now().as_micros() / 1_000_000;
    for claims in [
        json!({"exp": now - 61}),
        json!({"exp": null}),
        json!({"exp": "tomorrow"}),
        json!({"iat": null}),
        json!({"iat": now + 120}),
        json!({"nbf": now + 120}),
        json!({"iat": now, "exp": now + 24 * 3600 + 1}),
        json!({"iss": "https://elsewhere.test"}),
        json!({"iss": format!("{}/", fixture.issuer)}),
        json!({"iss": [fixture.issuer]}),
    ] {
        let refused = fixture.verify_claims(claims.clone()).await;
        assert!(is_unverified(&refused), "{claims}: {refused:?}");
    }
    assert!(fixture.provider.asked().is_empty());
    // Clocks may differ by a minute.
    for claims in [json!({"exp": now - 59}), json!({"iat": now + 59, "nbf": now + 59}), json!({"nbf": null})] {
        let verified = fixture.verify_claims(claims.clone()).await;
        assert!(verified.is_ok(), "{claims}: {verified:?}");
    }
}

#[tokio::test]
async fn unknown_keys_cause_at_most_one_fetch_in_a_minute() {
    let fixture = Fixture::new().await;
    fixture.verify_claims(json!({})).await.unwrap();
    for _ in 0..20 {
        let forged = fixture.provider.forged_token(Forgery::UnknownKey, &json!({}));
        assert!(is_unverified(&fixture.verify(&forged).await));
    }
    assert_eq!(fixture.fetches(), 1);
    fixture.provider.rotate_keys();
    assert!(is_unverified(&fixture.verify_claims(json!({})).await));
    fixture.world.advance(Duration::from_secs(60));
    fixture.verify_claims(json!({})).await.unwrap();
    assert_eq!(fixture.fetches(), 2, "new keys are found after a minute");
}

#[tokio::test]
async fn a_failed_fetch_of_new_keys_is_not_a_refusal() {
    let fixture = Fixture::new().await;
    let old = fixture.provider.ci_token(&json!({}));
    fixture.verify(&old).await.unwrap();
    fixture.provider.rotate_keys();
    fixture.provider.fault(Some(Fault::Failing));
    fixture.world.advance(Duration::from_secs(60));
    let new = fixture.provider.ci_token(&json!({}));
    for attempt in ["with a fetch", "in the minute after it"] {
        let refused = fixture.verify(&new).await;
        assert!(is_unavailable(&refused), "{attempt}: {refused:?}");
    }
    fixture.verify(&old).await.unwrap();
    fixture.provider.fault(None);
    fixture.world.advance(Duration::from_secs(60));
    fixture.verify(&new).await.unwrap();
    assert!(is_unverified(&fixture.verify(&old).await), "the issuer no longer publishes the old key");
}

#[tokio::test]
async fn known_keys_are_used_for_a_day_while_the_issuer_is_down() {
    let fixture = Fixture::new().await;
    fixture.verify_claims(json!({})).await.unwrap();
    fixture.provider.fault(Some(Fault::Failing));
    for hours in [2, 20] {
        fixture.world.advance(Duration::from_secs(hours * 3600));
        let verified = fixture.verify_claims(json!({})).await;
        assert!(verified.is_ok(), "{hours} h: {verified:?}");
    }
    fixture.world.advance(Duration::from_secs(3 * 3600));
    assert!(is_unavailable(&fixture.verify_claims(json!({})).await));
    fixture.provider.fault(None);
    fixture.world.advance(Duration::from_secs(60));
    fixture.verify_claims(json!({})).await.unwrap();
}

#[tokio::test]
async fn an_issuer_that_misbehaves_is_not_trusted() {
    for fault in [
        Fault::Failing,
        Fault::Redirect,
        Fault::KeysRedirect,
        Fault::InsecureKeys,
        Fault::OtherDocument,
        Fault::Large,
        Fault::Silence,
    ] {
        let fixture = Fixture::new().await;
        fixture.provider.fault(Some(fault));
        let refused = skip_silence(&fixture.provider, fault, fixture.verify_claims(json!({}))).await;
        assert!(is_unavailable(&refused), "{fault:?}: {refused:?}");
    }
}

#[tokio::test]
async fn an_issuer_at_a_private_address_is_not_asked() {
    let fixture = Fixture::allowing(&["10.0.0.0/8"]).await;
    let refused = fixture.verify_claims(json!({})).await.unwrap_err().to_string();
    assert!(refused.contains("oidc-networks"), "{refused}");
    assert!(fixture.provider.asked().is_empty());
}
